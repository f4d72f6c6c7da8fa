"""The state of a journal: its marks, and all of it at one version."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from core.clock import EPOCH
from core.routing import is_sparse
from journal.errors import BatchInvalid, JournalBroken
from journal.histories import Histories, History, histories_from_json, to_numbers, to_texts
from journal.log import actions_of, entry_name, last_number, list_numbers
from journal.schema import JournalRow, is_elsewhere
from journal.storage import Storage, open_storage

Marks: TypeAlias = dict[str, dict[int, int]]
Span: TypeAlias = tuple[int, int]
"""Offsets from the first to before the second."""


def marks_to_json(marks: Mapping[str, Mapping[int, int]]) -> str:
    return json.dumps({topic: to_texts(marks[topic]) for topic in sorted(marks)}, separators=(",", ":"))


def marks_from_json(text: str) -> Marks:
    return {topic: to_numbers(partitions) for topic, partitions in json.loads(text).items()}


def with_starts(marks: Marks, starts: Marks) -> Marks:
    return {topic: {**starts.get(topic, {}), **marks.get(topic, {})} for topic in {**marks, **starts}}


def lasts_after(lasts: Marks, rows: Sequence[JournalRow]) -> Marks:
    """Returns the seq of the row that decided each partition's last offset, after ``rows``, which are in seq order."""
    after = {topic: dict(partitions) for topic, partitions in lasts.items()}
    highest: dict[tuple[str, int], int] = {}
    for row in rows:
        if row.first and row.offset >= highest.get((row.topic, row.partition), 0):
            highest[row.topic, row.partition] = row.offset
            after.setdefault(row.topic, {})[row.partition] = row.seq
    return after


def check_movement(rows: Sequence[JournalRow], before: Marks, after: Marks) -> None:
    """Checks that first rows and the marks' movement name the same offsets. Of a sparse topic
    (`core.routing.is_sparse`) the mark goes with the last of its offsets, whatever lies between. What isn't the
    stream's is named by one row a partition, between whose offsets others have first rows.

    :raises BatchInvalid: first rows and the marks' movement don't name the same offsets, each once
    """
    if _list_partitions(before) != _list_partitions(after):
        changed = sorted(_list_partitions(before) ^ _list_partitions(after))
        raise BatchInvalid(f"the marks of {changed[:5]} came or went; partitions are named when an epoch begins")
    decided: dict[tuple[str, int], list[Span]] = {}
    elsewhere: dict[tuple[str, int], list[Span]] = {}
    for row in rows:
        if row.first != (row.item_seq == row.seq):
            raise BatchInvalid(f"row {row.seq} is a first row or isn't, but its item is {row.item_seq}")
        if row.first:
            named = elsewhere if is_elsewhere(row) else decided
            named.setdefault((row.topic, row.partition), []).append(_make_span(row))
    for topic, number in _list_partitions(after):
        since, until = before[topic][number], after[topic][number]
        own_spans, others = sorted(decided.pop((topic, number), [])), elsewhere.pop((topic, number), [])
        spans = _fill_gaps(own_spans, others, since, until) if len(others) < 2 else own_spans
        if until < since or not _is_movement(spans, since, until, gaps=is_sparse(topic)):
            raise BatchInvalid(f"{topic}[{number}] moves from {since} to {until}, first rows are for {spans[:5]}…")
    if decided or elsewhere:
        unmarked = sorted({*decided, *elsewhere})
        raise BatchInvalid(f"first rows for partitions without a mark: {unmarked[:5]}")


def _fill_gaps(own_spans: Sequence[Span], others: Sequence[Span], since: int, until: int) -> list[Span]:
    if not others:
        return list(own_spans)
    [(low, high)] = others
    if low < since or high > until:
        return sorted([*own_spans, *others])
    filled, at = list[Span](), low
    for start, end in own_spans:
        if at < min(start, high):
            filled.append((at, min(start, high)))
        filled.append((start, end))
        at = max(at, end)
    return [*filled, (at, high)] if at < high else filled


def _make_span(row: JournalRow) -> Span:
    return row.offset, row.offset + 1 if row.offset_until is None else row.offset_until


def _is_movement(spans: Sequence[Span], since: int, until: int, *, gaps: bool) -> bool:
    at = since
    for start, end in spans:
        if start < at or end <= start or (start > at and not gaps):
            return False
        at = end
    return at == until


def _list_partitions(marks: Marks) -> set[tuple[str, int]]:
    return {(topic, number) for topic, partitions in marks.items() for number in partitions}


PREFIX = "payhook."
STATE_NAMES = frozenset(
    {"stream", "epoch", "seq", "marks", "start", "chain", "published_upto", "kind", "batch_seq"}
    | {"lineage", "row_hash", "generation", "histories", "lasts"},
)
"""Names of a commit's state under `PREFIX`; every other name there is a note."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """``marks``: next offset by topic and partition. ``start``: where each began. ``chain``: its head.

    ``marks`` and ``start`` are of each topic's current history (``histories``). ``lasts``: the seq of the row that
    decided the last offset of each partition in it. ``row_hash``: of the last row. ``lineage``: the journal's id, which
    a restore renews; rows of one lineage follow one another without a way back. ``generation``: of the receiver's
    claims; those of a lower one are void.

    ``notes``: small texts by name that the stream keeps with its journal (state of its breakers). They aren't in
    the rows: a reader must do without one that is missing.
    """

    epoch: int
    version: int
    next_seq: int
    marks: Marks
    start: Marks
    published_upto: int
    chain: str
    notes: Mapping[str, str] = field(default_factory=dict)
    lineage: str = ""
    row_hash: str = ""
    generation: int = 0
    histories: Histories = field(default_factory=dict)
    lasts: Marks = field(default_factory=dict)

    def history(self, topic: str) -> History:
        return self.histories.get(topic, History())


def check_log_end(path: str) -> None:
    """Checks the log's last entry before anything else reads it: Delta takes an empty file for a commit of nothing.

    :raises JournalBroken: it isn't whole
    """
    try:
        storage = open_storage(path)
        number = last_number(storage)
    except OSError:
        return
    if number >= 0:
        commit_info(path, storage, number)


def commit_info(path: str, storage: Storage, version: int) -> dict[str, Any] | None:
    """Reads what a commit says of itself; None when the log no longer has it.

    :raises JournalBroken: the entry isn't whole: it must not be passed over, because it may hold rows
    """
    name = entry_name(version)
    try:
        return next(action["commitInfo"] for action in actions_of(storage.read(name)) if "commitInfo" in action)  # type: ignore[no-any-return]
    except FileNotFoundError:
        return None
    except (ValueError, StopIteration) as torn:
        raise JournalBroken(path, f"the log's entry {name} isn't whole") from torn


def state_of_commit(commit: dict[str, Any], version: int) -> JournalState:
    return JournalState(
        epoch=int(commit["payhook.epoch"]),
        version=version,
        next_seq=int(commit["payhook.seq"]) + 1,
        marks=marks_from_json(commit["payhook.marks"]),
        start=marks_from_json(commit["payhook.start"]),
        published_upto=int(commit["payhook.published_upto"]),
        chain=commit["payhook.chain"],
        notes=_read_notes(commit),
        lineage=str(commit.get("payhook.lineage", "")),
        row_hash=str(commit.get("payhook.row_hash", "")),
        generation=int(commit.get("payhook.generation", 0)),
        histories=histories_from_json(commit.get("payhook.histories", "{}")),
        lasts=marks_from_json(commit.get("payhook.lasts", "{}")),
    )


def _read_notes(commit: Mapping[str, Any]) -> dict[str, str]:
    names = (name.removeprefix(PREFIX) for name in commit if name.startswith(PREFIX))
    return {name: str(commit[PREFIX + name]) for name in names if name not in STATE_NAMES}


@dataclass(frozen=True, slots=True)
class Commit:
    """A Delta commit, and when its writer made it (UTC, milliseconds)."""

    version: int
    committed_at: datetime


def commits_of(path: str, batch_seqs: Collection[int]) -> dict[int, Commit]:
    """Finds the commits by their ``batch_seq``; without those whose entries were cleaned up.

    A log of an hour has thousands of entries: the right one is found by halves, because seqs grow with versions.

    :raises JournalBroken: an entry isn't whole, or the log can't be listed
    """
    log = _Entries(path)
    commits = ((batch_seq, log.commit_of(batch_seq)) for batch_seq in batch_seqs)
    return {batch_seq: commit for batch_seq, commit in commits if commit is not None}


class _Entries:
    def __init__(self, path: str) -> None:
        self._path = path
        self._read: dict[int, dict[str, Any]] = {}
        try:
            self._storage = open_storage(path)
            self._versions = list_numbers(self._storage)
        except OSError as failed:
            raise JournalBroken(path, f"its log can't be listed: {failed}") from failed

    def commit_of(self, batch_seq: int) -> Commit | None:
        place = bisect_left(range(len(self._versions)), batch_seq, key=self._last_seq)
        info = self._read_info(place) if place < len(self._versions) else {}
        if info.get("payhook.batch_seq") != str(batch_seq):
            return None
        at = EPOCH + timedelta(milliseconds=int(info["timestamp"]))
        return Commit(self._versions[place], at)

    def _last_seq(self, place: int) -> int:
        for before in range(place, -1, -1):
            seq = self._read_info(before).get("payhook.seq")
            if seq is not None:
                return int(seq)
        return -1

    def _read_info(self, place: int) -> dict[str, Any]:
        version = self._versions[place]
        if version not in self._read:
            self._read[version] = commit_info(self._path, self._storage, version) or {}
        return self._read[version]
