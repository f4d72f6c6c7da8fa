"""The journal's Delta table as it is made: append-only, with what every row must satisfy."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from core.decision import Decision
from journal.errors import JournalBroken
from journal.schema import JOURNAL_SCHEMA

CONFIGURATION = {
    "delta.appendOnly": "true",
    "delta.checkpointInterval": "100",
    # A commit lists the log's folder (1.7 ms for 1,000 entries), so old entries must go. Nothing rests on them:
    # a writer that paused for longer than this is refused all the same, because it can't read what it missed.
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.enableExpiredLogCleanup": "true",
    # `seq` is the first column: reading in seq order needs its statistics, nobody needs those of texts.
    "delta.dataSkippingNumIndexedCols": "8",
}
_DECISIONS = ", ".join(f"'{decision.value}'" for decision in Decision)
CONSTRAINTS = {
    "decision_is_known": f"decision IN ({_DECISIONS})",
    "counts_are_sane": "seq > 0 AND item_seq > 0 AND item_seq <= seq AND attempt >= 0",
}
TRIES_MAX = 5
"""Starters that make the same table at once get in each other's way; each try begins from what is there."""


def create_table(path: str, stream: str) -> None:
    """Makes the table, or completes one that its maker didn't get to finish.

    :raises JournalBroken: another table is there, or it can't be made
    """
    problem = "no try was made"
    for _ in range(TRIES_MAX):
        try:
            table = _table(path, stream)
            for name, expression in _missing(table).items():
                table.alter.add_constraint({name: expression})
            return
        except DeltaError as failed:
            problem = str(failed)
    raise JournalBroken(path, f"the table can't be made: {problem[:500]}")


def _table(path: str, stream: str) -> DeltaTable:
    if not DeltaTable.is_deltatable(path):
        if "://" not in path:
            Path(path).mkdir(parents=True, exist_ok=True)
        return DeltaTable.create(
            path, JOURNAL_SCHEMA, name=f"journal_{stream}", mode="error", configuration=CONFIGURATION
        )
    table = DeltaTable(path)
    lacking = set(JOURNAL_SCHEMA.names) - {field.name for field in table.schema().fields}
    if lacking:
        raise JournalBroken(path, f"the table there lacks the columns {sorted(lacking)}")
    return table


def _missing(table: DeltaTable) -> dict[str, str]:
    known = table.metadata().configuration
    return {name: text for name, text in CONSTRAINTS.items() if f"delta.constraints.{name}" not in known}
