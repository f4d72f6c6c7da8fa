"""The journal's Delta table as it is made and kept up: append-only, with what every row must satisfy."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError

from core.decision import Decision
from journal import lake
from journal.append import Check
from journal.errors import JournalBroken
from journal.schema import JOURNAL_SCHEMA, LATER_COLUMNS

CONFIGURATION = {
    "delta.appendOnly": "true",
    "delta.checkpointInterval": "100",
    # A commit lists the log's folder (1.7 ms for 1,000 entries), so old entries must go. Nothing rests on them:
    # a writer that paused for longer than this is refused all the same, because it can't read what it missed.
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.enableExpiredLogCleanup": "true",
    # Each checkpoint names the files that were replaced for so long; maintenance takes them off the disk then.
    "delta.deletedFileRetentionDuration": "interval 24 hours",
    # `seq` is the first column: reading in seq order needs its statistics; those of texts aren't needed.
    "delta.dataSkippingNumIndexedCols": "8",
}
_DECISIONS = ", ".join(f"'{decision.value}'" for decision in Decision)
DECISION_IS_KNOWN = "decision_is_known"
CONSTRAINTS = {
    DECISION_IS_KNOWN: f"decision IN ({_DECISIONS})",
    "counts_are_sane": "seq > 0 AND item_seq > 0 AND item_seq <= seq AND attempt >= 0",
}
CHECKS: dict[str, Check] = {
    DECISION_IS_KNOWN: lambda rows: pc.is_in(rows["decision"], pa.array([one.value for one in Decision])),
    "counts_are_sane": lambda rows: pc.and_(
        pc.and_(pc.greater(rows["seq"], 0), pc.greater(rows["item_seq"], 0)),
        pc.and_(pc.less_equal(rows["item_seq"], rows["seq"]), pc.greater_equal(rows["attempt"], 0)),
    ),
}
"""What `CONSTRAINTS` say, for the writer; Spark and delta-rs go by their text."""

TRIES_MAX = 5
"""Starters that make the same table at once get in each other's way; each try begins from what is there."""


def create_table(path: str, stream: str) -> None:
    """Makes the table, or completes one: its maker didn't get to finish, or older code made it.

    `LATER_COLUMNS` that it lacks are added by a commit of metadata alone: no file is rewritten, old rows read as NULL,
    and their hashes stay. A writer that is at work then is refused at its next commit, as by the epoch that follows.

    :raises JournalBroken: another table is there, or it can't be made
    """
    problem = "no try was made"
    for _ in range(TRIES_MAX):
        try:
            table = _table(path, stream)
            for name, expression in _missing(table).items():
                if name in _constraints(table):
                    table.alter.drop_constraint(name)
                table.alter.add_constraint({name: expression})
            return
        except DeltaError as failed:
            problem = str(failed)
    raise JournalBroken(path, f"the table can't be made: {problem[:500]}")


def _table(path: str, stream: str) -> DeltaTable:
    if not lake.has_table(path):
        return lake.create_table(path, JOURNAL_SCHEMA, f"journal_{stream}", CONFIGURATION)
    table = lake.open_table(path)
    _add_columns(path, table)
    return table


def _add_columns(path: str, table: DeltaTable) -> None:
    there = {field.name: field.type for field in table.schema().fields}
    wanted = Schema.from_arrow(JOURNAL_SCHEMA).fields
    lacking = [field for field in wanted if field.name not in there]
    missing = sorted(field.name for field in lacking if field.name not in LATER_COLUMNS)
    if missing:
        raise JournalBroken(path, f"the table there lacks the columns {missing}")
    other = sorted(field.name for field in wanted if there.get(field.name, field.type) != field.type)
    if other:
        raise JournalBroken(path, f"the columns {other} of the table there are of another type")
    names = {field.name for field in wanted}
    beyond = sorted(field.name for field in table.schema().fields if field.name not in names and not field.nullable)
    if beyond:
        raise JournalBroken(
            path, f"newer code made the table there, with the columns {beyond} that this one can't fill"
        )
    if lacking:
        properties = CommitProperties(custom_metadata={"payhook.kind": "columns"})
        table.alter.add_columns(lacking, commit_properties=properties)


def _missing(table: DeltaTable) -> dict[str, str]:
    """Constraints that the table lacks, or has as older code knew them: it knew fewer decisions."""
    there = _constraints(table)
    knows_all = all(f"'{decision.value}'" in there.get(DECISION_IS_KNOWN, "") for decision in Decision)
    known = there.keys() if knows_all else there.keys() - {DECISION_IS_KNOWN}
    return {name: text for name, text in CONSTRAINTS.items() if name not in known}


def _constraints(table: DeltaTable) -> dict[str, str]:
    prefix = "delta.constraints."
    known = table.metadata().configuration
    return {name.removeprefix(prefix): text for name, text in known.items() if name.startswith(prefix)}
