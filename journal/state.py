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
from journal.entries import last_checkpoint, numbers, place
from journal.errors import JournalBroken
from journal.lake import open_table
from journal.marks import Marks, marks_from_json
from journal.scan import scan
from journal.storage import Storage
from journal.stores import open_storage

PREFIX = "payhook."
STATE_NAMES = frozenset(
    {"stream", "epoch", "seq", "marks", "start", "chain", "published_upto", "kind", "batch_seq"},
)
"""What a commit says of itself under `PREFIX`; every other name there is a note."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """``marks``: next offset by topic and partition. ``start``: where each began. ``chain``: its head.

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
    name = place(version)
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
    )


def _notes(commit: Mapping[str, Any]) -> dict[str, str]:
    names = (name.removeprefix(PREFIX) for name in commit if name.startswith(PREFIX))
    return {name: str(commit[PREFIX + name]) for name in names if name not in STATE_NAMES}


def _from_rows(table: DeltaTable, version: int) -> JournalState:
    """What the rows alone tell, when the log's commits are gone: dead letters are published again."""
    marks: Marks = {}
    start: Marks = {}
    chain = ChainHead()
    seq = epoch = 0
    for rows in scan(table, 0, ["batch_seq", "epoch", "first", "topic", "partition", "offset", "row_hash"]):
        _widen(start, marks, rows)
        for batch_seq, row_hash in zip(rows["batch_seq"].to_pylist(), rows["row_hash"].to_pylist(), strict=True):
            chain.add(batch_seq, row_hash)
        seq, epoch = rows["seq"][-1].as_py(), max(epoch, pc.max(rows["epoch"]).as_py())
    return JournalState(
        epoch=epoch, version=version, next_seq=seq + 1, marks=marks, start=start, published_upto=0, chain=chain.head
    )


def _widen(start: Marks, marks: Marks, rows: pa.Table) -> None:
    """Takes the offsets of first rows into the range of their partition."""
    ranges = rows.filter(rows["first"]).group_by(["topic", "partition"])
    for one in ranges.aggregate([("offset", "min"), ("offset", "max")]).to_pylist():
        topic, number, since, until = one["topic"], one["partition"], one["offset_min"], one["offset_max"] + 1
        start.setdefault(topic, {}).setdefault(number, since)
        start[topic][number] = min(start[topic][number], since)
        marks.setdefault(topic, {})[number] = max(marks.get(topic, {}).get(number, 0), until)
