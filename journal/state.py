"""Where a journal stands at one version: read from the last commit that says so, or from the rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from journal.chain import ChainHead
from journal.errors import JournalBroken
from journal.histories import FIRST, Histories, History, histories_from_json
from journal.lake import open_table
from journal.log import entry_name, last_checkpoint, numbers
from journal.marks import Marks, marks_from_json
from journal.scan import scan
from journal.storage import Storage, open_storage

PREFIX = "payhook."
STATE_NAMES = frozenset(
    {"stream", "epoch", "seq", "marks", "start", "chain", "published_upto", "kind", "batch_seq"}
    | {"lineage", "row_hash", "generation", "histories", "lasts"},
)
"""What a commit says of itself under `PREFIX`; every other name there is a note."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """``marks``: next offset by topic and partition. ``start``: where each began. ``chain``: its head.

    ``marks`` and ``start`` are of each topic's current history (``histories``). ``lasts``: the seq of the row that
    decided the last offset of each partition in it. ``row_hash``: of the last row. ``lineage``: the journal's id, which
    a restore renews; rows of one lineage follow one another without a way back. ``generation``: of the receiver's
    claims; those of a lower one are void. Code of before wrote none of these five.

    ``notes``: small texts by name that the stream keeps with its journal (state of its breakers). The rows don't tell
    them: whoever reads one must do without.
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
        """The topic's current history."""
        return self.histories.get(topic, History())


def read_state(path: str, version: int) -> JournalState:
    """The state at ``version``, by nobody's handle.

    The log's entries are read as files: in deltalake 1.6.6 ``history()`` of a table at an older version hands out later
    commits too, under wrong numbers. Maintenance commits say nothing of a journal's state and are passed over.

    :raises JournalBroken: the log doesn't tell it, and the rows can't
    """
    storage = open_storage(path)
    for number in range(version, -1, -1):
        commit = commit_info(path, storage, number)
        if commit is None:
            break
        if "payhook.marks" in commit:
            return _from_commit(commit, version)
    return _from_rows(open_table(path, version), version)


def check_log_end(path: str) -> None:
    """Looks at the log's last entry before anything else does: Delta takes an empty file for a commit of nothing.

    :raises JournalBroken: it isn't whole
    """
    try:
        storage = open_storage(path)
        there = numbers(storage, _last_checkpoint(storage))
    except OSError:
        return
    if there:
        commit_info(path, storage, there[-1])


def _last_checkpoint(storage: Storage) -> int:
    try:
        return last_checkpoint(storage)
    except ValueError:
        return 0


def commit_info(path: str, storage: Storage, version: int) -> dict[str, Any] | None:
    """What a commit says of itself; None when the log no longer has it.

    :raises JournalBroken: the entry isn't whole: it must not be passed over, because it may hold rows
    """
    name = entry_name(version)
    try:
        actions = [json.loads(line) for line in storage.read(name).splitlines() if line]
        return next(action["commitInfo"] for action in actions if "commitInfo" in action)  # type: ignore[no-any-return]
    except FileNotFoundError:
        return None
    except (ValueError, StopIteration) as torn:
        raise JournalBroken(path, f"the log's entry {name} isn't whole") from torn


def _from_commit(commit: dict[str, Any], version: int) -> JournalState:
    return JournalState(
        epoch=int(commit["payhook.epoch"]),
        version=version,
        next_seq=int(commit["payhook.seq"]) + 1,
        marks=marks_from_json(commit["payhook.marks"]),
        start=marks_from_json(commit["payhook.start"]),
        published_upto=int(commit["payhook.published_upto"]),
        chain=commit["payhook.chain"],
        notes=_notes(commit),
        lineage=str(commit.get("payhook.lineage", "")),
        row_hash=str(commit.get("payhook.row_hash", "")),
        generation=int(commit.get("payhook.generation", 0)),
        histories=histories_from_json(commit.get("payhook.histories", "{}")),
        lasts=marks_from_json(commit.get("payhook.lasts", "{}")),
    )


def _notes(commit: Mapping[str, Any]) -> dict[str, str]:
    names = (name.removeprefix(PREFIX) for name in commit if name.startswith(PREFIX))
    return {name: str(commit[PREFIX + name]) for name in names if name not in STATE_NAMES}


def _from_rows(table: DeltaTable, version: int) -> JournalState:
    """What the rows alone tell, when the log's commits are gone: dead letters are published again.

    Lineage, generation and the topics' ids are not in the rows.
    """
    ranges = _Ranges()
    chain = ChainHead()
    seq, epoch, row_hash = 0, 0, ""
    columns = ["batch_seq", "epoch", "first", "topic", "partition", "offset", "row_hash"]
    there = {field.name for field in table.schema().fields}
    columns += [name for name in ("history", "offset_until") if name in there]
    for rows in scan(table, 0, columns):
        ranges.take(rows)
        for batch_seq, digest in zip(rows["batch_seq"].to_pylist(), rows["row_hash"].to_pylist(), strict=True):
            chain.add(batch_seq, digest)
        seq, epoch = rows["seq"][-1].as_py(), max(epoch, pc.max(rows["epoch"]).as_py())
        row_hash = rows["row_hash"][-1].as_py()
    return JournalState(
        epoch=epoch,
        version=version,
        next_seq=seq + 1,
        marks=ranges.marks,
        start=ranges.start,
        published_upto=0,
        chain=chain.head,
        row_hash=row_hash,
        histories={topic: History(number) for topic, number in ranges.numbers.items() if number != FIRST},
        lasts=ranges.lasts,
    )


class _Ranges:
    """The offsets that first rows cover, by topic and partition, of each topic's newest history."""

    def __init__(self) -> None:
        self.start: Marks = {}
        self.marks: Marks = {}
        self.lasts: Marks = {}
        self.numbers: dict[str, int] = {}

    def take(self, rows: pa.Table) -> None:
        first = rows.filter(rows["first"])
        nothing = pa.nulls(first.num_rows, pa.int64())
        later = {name: first[name] if name in first.column_names else nothing for name in ("history", "offset_until")}
        first = first.append_column("life", pc.fill_null(pc.cast(later["history"], pa.int64()), FIRST))
        after = pc.coalesce(later["offset_until"], pc.add(first["offset"], 1))
        ranges = first.append_column("after", after).group_by(["life", "topic", "partition"])
        found = ranges.aggregate([("offset", "min"), ("after", "max"), ("seq", "max")])
        for one in found.sort_by("life").to_pylist():
            self._widen(one)

    def _widen(self, one: dict[str, Any]) -> None:
        topic, number, life = one["topic"], one["partition"], one["life"]
        if life > self.numbers.get(topic, 0):
            self.numbers[topic] = life
            for known in (self.start, self.marks, self.lasts):
                known.pop(topic, None)
        since, until = one["offset_min"], one["after_max"]
        start = self.start.setdefault(topic, {})
        start[number] = min(start.get(number, since), since)
        marks = self.marks.setdefault(topic, {})
        if until >= marks.get(number, 0):
            self.lasts.setdefault(topic, {})[number] = one["seq_max"]
        marks[number] = max(marks.get(number, 0), until)
