"""Folds an item's rows into its life: open or closed, since when it is dead, how often replayed.

All that follows items folds their rows with `life_after`; only `ledger.verify` has its own, to check the others by.
"""

from __future__ import annotations

from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from core.decision import OPEN_DECISIONS, Decision

Moment = TypeVar("Moment", int, datetime)
"""A time: microseconds since 1970, or a `datetime`."""


class Life(NamedTuple, Generic[Moment]):
    """The life of an item after its last row.

    ``passed_over``: it died and is open, and holds later events of its entity back no more. ``deaths``: all of them.
    ``replays``: since it was last closed. ``first_died_at``: its first death; ``died_at``: the first since it was last
    closed, so that a replay that fails makes it no younger. ``closed_at``, ``closed_by``: None while it is open; what
    is decided of an item that is closed already (a reversal) doesn't change them.
    """

    decision: Decision
    is_open: bool = True
    passed_over: bool = False
    deaths: int = 0
    replays: int = 0
    first_died_at: Moment | None = None
    died_at: Moment | None = None
    closed_at: Moment | None = None
    closed_by: Decision | None = None

    @property
    def is_dead(self) -> bool:
        return self.decision is Decision.DEAD


def life_after(
    before: Life[Moment] | None, decision: Decision, at: Moment, *, blocking: bool = False, conflict: bool = False
) -> Life[Moment]:
    """Returns the life after the item's next row. ``before``: None if nothing is known of it. A command's own row is no
    item's.

    :param blocking: the row's `JournalRow.blocking`
    :param conflict: `is_conflict` of the row: such an item has no place in its entity's order that others could pass
    """
    life: Life[Moment] = before or Life(decision)
    if decision not in OPEN_DECISIONS:
        if life.is_open:
            return life._replace(decision=decision, is_open=False, passed_over=False, closed_at=at, closed_by=decision)
        return life._replace(decision=decision)
    died = decision is Decision.DEAD
    died_at, replays = (life.died_at, life.replays) if life.is_open else (None, 0)
    return Life(
        decision=decision,
        passed_over=not blocking and (not conflict if died else life.passed_over),
        deaths=life.deaths + died,
        replays=replays + (decision is Decision.REPLAYED),
        first_died_at=at if died and life.first_died_at is None else life.first_died_at,
        died_at=at if died and died_at is None else died_at,
    )
