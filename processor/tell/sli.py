"""How well the promise of time is kept: each event counted once, when its first answer is in the journal.

The indicator is ``in_time / (in_time + late + failed)``; what died of the sender's doing, or waited on purpose, is
counted apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from core.decision import Decision
from journal.open_item import CONFLICT_CLASS, FACT_CONFLICT_CLASS
from journal.schema import JournalRow
from processor.decide.item import HEAD_DEAD_CLASS, POISON_CLASS

IN_TIME, LATE, FAILED, SET_ASIDE, WAITED = "in_time", "late", "failed", "set_aside", "waited"
OUTCOMES: Final = (IN_TIME, LATE, FAILED, SET_ASIDE, WAITED)
PROMISED: Final = timedelta(seconds=5)

ANSWERED = frozenset({Decision.APPLIED, Decision.IGNORED, Decision.DUPLICATE, Decision.DUPLICATE_FACT})
_OF_THE_SENDER = frozenset({POISON_CLASS, CONFLICT_CLASS, FACT_CONFLICT_CLASS})


def outcome(row: JournalRow, now: datetime) -> str | None:
    """What a row says of its event's time; None where it is no answer, or not the first one.

    ``now``: when the row was committed. An event that was parked and then answered at its first try waited for
    another one, or for a whole stream; one that was tried before is as late as it is. What a replay comes to counts
    once more: the journal's rows don't say by themselves that their event was answered before.
    """
    if row.received_at is None or row.actor is not None:
        return None
    if row.decision is Decision.DEAD:
        return _of_dead(row)
    if row.decision not in ANSWERED:
        return None
    if not row.first and row.attempt == 0:
        return WAITED
    return IN_TIME if now - row.received_at <= PROMISED else LATE


def outcomes(rows: Sequence[JournalRow], now: datetime) -> list[str]:
    """Those of one commit's rows that are answers."""
    return [told for row in rows if (told := outcome(row, now)) is not None]


def _of_dead(row: JournalRow) -> str:
    if row.error_class in _OF_THE_SENDER:
        return SET_ASIDE
    return WAITED if row.error_class == HEAD_DEAD_CLASS else FAILED
