"""Makes and keeps up the journal's Delta table: append-only, with what every row must satisfy."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from core.decision import Decision
from journal import lake
from journal.append import Check
from journal.errors import JournalBroken, JournalOutdated
from journal.reader import check_complete
from journal.schema import JOURNAL_SCHEMA

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
    DECISION_IS_KNOWN: lambda rows: pc.is_in(rows["decision"], pa.array([decision.value for decision in Decision])),
    "counts_are_sane": lambda rows: pc.and_(
        pc.and_(pc.greater(rows["seq"], 0), pc.greater(rows["item_seq"], 0)),
        pc.and_(pc.less_equal(rows["item_seq"], rows["seq"]), pc.greater_equal(rows["attempt"], 0)),
    ),
}
"""`CONSTRAINTS` for the writer; Spark and delta-rs go by their text."""

TRIES_MAX = 5
"""Starters that make the same table at once get in each other's way; each try begins from what is there."""


def create_table(path: str, stream: str) -> None:
    """Makes the table, or completes one whose maker didn't get to finish.

    :raises JournalOutdated: code from before release 0.1.0 made the one there
    :raises JournalBroken: another table is there, or it can't be made
    """
    problem = "no try was made"
    for _ in range(TRIES_MAX):
        try:
            table = _open_or_create(path, stream)
            for name, expression in _find_missing(path, table).items():
                table.alter.add_constraint({name: expression})
            return
        except DeltaError as failed:
            problem = str(failed)
    raise JournalBroken(path, f"the table can't be made: {problem[:500]}")


def _open_or_create(path: str, stream: str) -> DeltaTable:
    if not lake.has_table(path):
        return lake.create_table(path, JOURNAL_SCHEMA, f"journal_{stream}", CONFIGURATION)
    table = lake.open_table(path)
    _check_columns(path, table)
    return table


def _check_columns(path: str, table: DeltaTable) -> None:
    check_complete(path, table)
    known = {field.name: field.type for field in table.schema().fields}
    wanted = {field.name: field.type for field in Schema.from_arrow(JOURNAL_SCHEMA).fields}
    other = sorted(name for name, kind in wanted.items() if known[name] != kind)
    if other:
        raise JournalBroken(path, f"the columns {other} of the table there are of another type")
    beyond = sorted(field.name for field in table.schema().fields if field.name not in wanted and not field.nullable)
    if beyond:
        raise JournalBroken(
            path, f"newer code made the table there, with the columns {beyond} that this one can't fill"
        )


def _find_missing(path: str, table: DeltaTable) -> dict[str, str]:
    constraints = _read_constraints(table)
    known = constraints.get(DECISION_IS_KNOWN)
    unknown = [] if known is None else [decision.value for decision in Decision if f"'{decision.value}'" not in known]
    if unknown:
        raise JournalOutdated(path, f"the decisions {', '.join(unknown)}")
    return {name: text for name, text in CONSTRAINTS.items() if name not in constraints}


def _read_constraints(table: DeltaTable) -> dict[str, str]:
    prefix = "delta.constraints."
    known = table.metadata().configuration
    return {name.removeprefix(prefix): text for name, text in known.items() if name.startswith(prefix)}
