"""A selection's run as people see it, what became of each of its items, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from core.decision import Decision
from core.errors import PayhookError
from journal.target import ItemTarget
from operations.command import ReplayMode
from operations.frozen import RunState, Selection

UNFINISHED = frozenset({RunState.PROPOSED, RunState.RUNNING, RunState.PAUSED})


class RunItemState(StrEnum):
    UNSENT = "unsent"
    REFUSED = "refused"
    REPLAYED = "replayed"
    RETRY = "retry"
    PARKED = "parked"
    APPLIED = "applied"
    IGNORED = "ignored"
    UNKNOWN = "unknown"
    DUPLICATE = "duplicate"
    DUPLICATE_FACT = "duplicate_fact"
    DEAD_AGAIN = "dead_again"
    PURGED = "purged"
    RESOLVED = "resolved"
    RELEASED = "released"


ON_THEIR_WAY = frozenset({RunItemState.REPLAYED, RunItemState.RETRY, RunItemState.PARKED})
ENDED = frozenset(RunItemState) - ON_THEIR_WAY - {RunItemState.UNSENT}

STATE_OF: Mapping[Decision, RunItemState] = {
    Decision.DEAD: RunItemState.DEAD_AGAIN,
    **{decision: RunItemState(decision) for decision in Decision if decision.value in set(RunItemState)},
}
"""An item's state by the decision of its last row since the run took it."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run's request: replay, purge, resolve or release.

    Of a replay alone: ``per_s``, items a second (None: as fast as live traffic allows); ``force``: even after
    `dlq.replays_max` failed replays. ``propose``: two people even below the limits (of items whose money the
    processor alone knows).
    """

    action: str
    reason: str
    mode: ReplayMode = ReplayMode.ALONE
    per_s: float | None = None
    force: bool = False
    propose: bool = False

    @property
    def options_text(self) -> str:
        how = [
            *([self.mode.value] if self.mode is not ReplayMode.ALONE else []),
            *([f"{self.per_s:g} a second"] if self.per_s is not None else []),
            *(["forced"] if self.force else []),
            *(["two people"] if self.propose else []),
        ]
        return "".join(f", {text}" for text in how)


@dataclass(frozen=True, slots=True)
class Approval:
    actor: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class RunKept:
    """A selection's run as the journal has it.

    ``problem``: why it doesn't continue just now, or why it ended. ``changed_by``: who paused, resumed or cancelled it
    last. ``finished_at``: when nothing more came of any item.
    """

    number: int
    run: RunRequest
    actor: str
    started_at: datetime
    state: RunState
    approval: Approval | None = None
    problem: str | None = None
    changed_by: str | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StartedRun:
    """The result of starting a run. ``again``: this very run was begun before; nothing was added to it."""

    run: RunKept
    again: bool


@dataclass(frozen=True, slots=True)
class KeptSelection:
    selection: Selection
    run: RunKept | None


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """A run as it stands. ``counts``: items by state. ``eta_s``: until every item has ended, None where that isn't
    known. ``per_s``: items that ended in a second, of late.
    """

    selection: Selection
    run: RunKept
    counts: Mapping[RunItemState, int]
    per_s: float | None
    eta_s: float | None

    @property
    def ended(self) -> int:
        """Counts items with nothing more to come; those that a cancelled run never sent are among them."""
        waiting = ON_THEIR_WAY if self.run.state is RunState.CANCELLED else {*ON_THEIR_WAY, RunItemState.UNSENT}
        return self.selection.count - sum(self.counts.get(state, 0) for state in waiting)

    @property
    def share(self) -> float:
        return self.ended / self.selection.count

    @property
    def finished(self) -> bool:
        return self.run.state not in UNFINISHED and self.ended == self.selection.count


@dataclass(frozen=True, slots=True)
class ItemShown:
    """An item of a selection. ``place`` counts from 0 in the frozen order; ``row_seq`` is the row that says so."""

    place: int
    target: ItemTarget
    state: RunItemState
    row_seq: int | None
    reason: str | None


class SelectionEmpty(PayhookError):
    def __init__(self) -> None:
        super().__init__("no events match the filter; nothing was frozen")


class SelectionTooLarge(PayhookError):
    def __init__(self, items_max: int) -> None:
        self.items_max = items_max
        super().__init__(f"more than {items_max:,} items match; narrow the filter, such as by time or by provider")


class SelectionsFull(PayhookError):
    def __init__(self, kept: int) -> None:
        self.kept = kept
        super().__init__(f"all {kept} selections have an unfinished run: wait until one ends, or cancel it")


class RunRefused(PayhookError):
    def __init__(self, number: int, problem: str) -> None:
        self.number = number
        self.problem = problem
        super().__init__(f"selection s{number}: {problem}")


class SecondPersonWanted(RunRefused):
    def __init__(self, number: int, actor: str) -> None:
        self.actor = actor
        super().__init__(number, f"{actor} proposed it: ask another admin to approve it")


def check_lineage(selection: Selection, lineage: str) -> None:
    """Checks the journal's lineage as it is now; empty if it isn't known, and then the processor decides.

    :raises RunRefused: it was frozen before the journal was restored
    """
    if lineage not in ("", selection.lineage):
        why = "the journal was restored since it was frozen: list the events and select again"
        raise RunRefused(selection.number, why)
