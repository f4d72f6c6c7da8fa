"""Where a journal stands at one version: read from the last commit that says so, or from the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable

from journal.chain import GENESIS, commit_digest, extend
from journal.marks import Marks, marks_from_json

HISTORY_STEPS = (10, 200, None)
"""Maintenance commits say nothing of a journal's state: look back a little, then further, then at all."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """``marks``: next offset by topic and partition. ``start``: where each began. ``chain``: its head."""

    epoch: int
    version: int
    next_seq: int
    marks: Marks
    start: Marks
    published_upto: int
    chain: str


def read_state(path: str, version: int) -> JournalState:
    """The state at ``version``, by a handle of its own."""
    table = DeltaTable(path, version=version)
    for limit in HISTORY_STEPS:
        for commit in table.history(limit):
            if commit.get("version", version) <= version and "payhook.marks" in commit:
                return _from_commit(commit, version)
    return _from_rows(table, version)


def _from_commit(commit: dict[str, Any], version: int) -> JournalState:
    return JournalState(
        epoch=int(commit["payhook.epoch"]),
        version=version,
        next_seq=int(commit["payhook.seq"]) + 1,
        marks=marks_from_json(commit["payhook.marks"]),
        start=marks_from_json(commit["payhook.start"]),
        published_upto=int(commit["payhook.published_upto"]),
        chain=commit["payhook.chain"],
    )


def _from_rows(table: DeltaTable, version: int) -> JournalState:
    """What the rows alone tell, when the log's commits are gone: dead letters are published again."""
    columns = ["seq", "batch_seq", "epoch", "first", "topic", "partition", "offset", "row_hash"]
    rows = table.to_pyarrow_dataset().to_table(columns=columns).sort_by("seq").to_pylist()
    marks: Marks = {}
    start: Marks = {}
    chain, batch, hashes = GENESIS, None, list[str]()
    for row in rows:
        if row["first"]:
            until, since = marks.setdefault(row["topic"], {}), start.setdefault(row["topic"], {})
            until[row["partition"]] = max(until.get(row["partition"], 0), row["offset"] + 1)
            since[row["partition"]] = min(since.get(row["partition"], row["offset"]), row["offset"])
        if row["batch_seq"] != batch and hashes:
            chain, hashes = extend(chain, commit_digest(hashes)), []
        batch = row["batch_seq"]
        hashes.append(row["row_hash"])
    if hashes:
        chain = extend(chain, commit_digest(hashes))
    return JournalState(
        epoch=max((row["epoch"] for row in rows), default=0),
        version=version,
        next_seq=(rows[-1]["seq"] if rows else 0) + 1,
        marks=marks,
        start=start,
        published_upto=0,
        chain=chain,
    )
