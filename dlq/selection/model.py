"""The words of selections: a frozen set, what is to be done with it, and what became of each item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from core.decision import Decision
from dlq.commands import ReplayMode, Target


class RunState(StrEnum):
    """Where the sending of a run's commands stands."""

    PROPOSED = "proposed"
    """Waits for a second person."""
    RUNNING = "running"
    PAUSED = "paused"
    SENT = "sent"
    """Everything is sent; items may still be on their way."""
    CANCELLED = "cancelled"
    """What wasn't sent stays as it is; what was sent goes on."""


UNFINISHED = frozenset({RunState.PROPOSED, RunState.RUNNING, RunState.PAUSED})


class RunItemState(StrEnum):
    """What became of one item of a run, by the journal."""

    UNSENT = "unsent"
    SENT = "sent"
    REFUSED = "refused"
    REPLAYED = "replayed"
    RETRY = "retry"
    PARKED = "parked"
    APPLIED = "applied"
    IGNORED = "ignored"
    DUPLICATE = "duplicate"
    DUPLICATE_FACT = "duplicate_fact"
    DEAD_AGAIN = "dead_again"
    PURGED = "purged"
    RESOLVED = "resolved"


ON_THEIR_WAY = frozenset({RunItemState.SENT, RunItemState.REPLAYED, RunItemState.RETRY, RunItemState.PARKED})
ENDED = frozenset(RunItemState) - ON_THEIR_WAY - {RunItemState.UNSENT}

STATE_OF: Mapping[Decision, RunItemState] = {
    Decision.REPLAYED: RunItemState.REPLAYED,
    Decision.RETRY: RunItemState.RETRY,
    Decision.PARKED: RunItemState.PARKED,
    Decision.APPLIED: RunItemState.APPLIED,
    Decision.IGNORED: RunItemState.IGNORED,
    Decision.DUPLICATE: RunItemState.DUPLICATE,
    Decision.DUPLICATE_FACT: RunItemState.DUPLICATE_FACT,
    Decision.DEAD: RunItemState.DEAD_AGAIN,
    Decision.PURGED: RunItemState.PURGED,
    Decision.RESOLVED: RunItemState.RESOLVED,
}
"""An item's state by the decision of its last row since its command."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A frozen set of dead items. ``digest``: hex SHA-256 over its pairs in their order, and what it is called.

    ``amounts``: minor units by currency, of the items whose money is known; ``unknown_amounts`` counts the others.
    ``journal_seq``: how much of the journal was known when it was frozen, ``lineage``: the journal's then; after a
    restore nothing is done with it any more. ``filter`` is its JSON, for people.
    """

    number: int
    digest: str
    frozen_at: datetime
    actor: str
    note: str
    filter: str
    count: int
    journal_seq: int
    lineage: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    unknown_amounts: int = 0

    @property
    def name(self) -> str:
        """As the command line has it: ``s3``, so that nobody takes it for an item."""
        return f"s{self.number}"


@dataclass(frozen=True, slots=True)
class Run:
    """What is asked for: replay, purge or resolve.

    Of a replay alone: ``per_s``, items a second (None: as fast as live traffic allows); ``in_place``: refuse what would
    run elsewhere than in its old place; ``force``: also what the loop guard would refuse. ``propose``: two people even
    below the limits (of items whose money only the processor can tell).
    """

    action: str
    reason: str
    mode: ReplayMode = ReplayMode.ALONE
    per_s: float | None = None
    in_place: bool = False
    force: bool = False
    propose: bool = False

    @property
    def said(self) -> str:
        """How it is done, where it isn't done as usual, for people: ``, with_followers, 50 a second``."""
        how = [
            *([self.mode.value] if self.mode is not ReplayMode.ALONE else []),
            *([f"{self.per_s:g} a second"] if self.per_s is not None else []),
            *(word for word, is_so in (("in place", self.in_place), ("forced", self.force)) if is_so),
            *(["two people"] if self.propose else []),
        ]
        return "".join(f", {one}" for one in how)


@dataclass(frozen=True, slots=True)
class Approval:
    """Who approved a run, why, when."""

    actor: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class RunKept:
    """A selection's run as it is kept. ``two_people``: it needs an approval. ``command_items``: items a command.

    ``hands``: who else could act as the actor when it was begun. ``problem``: why it doesn't go on just now.
    ``changed_by``: who paused, resumed or cancelled it last. ``finished_at``: when its last item ended.
    """

    number: int
    run: Run
    actor: str
    started_at: datetime
    state: RunState
    two_people: bool
    command_items: int
    hands: frozenset[str] = frozenset()
    approval: Approval | None = None
    problem: str | None = None
    changed_by: str | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """``again``: this very run was begun before; nothing was added to it."""

    run: RunKept
    again: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """A selection, and its run where one was begun."""

    selection: Selection
    run: RunKept | None


@dataclass(frozen=True, slots=True)
class Progress:
    """A run as it stands. ``counts``: items by state. ``eta_s``: until everything is sent, None where that isn't known.

    ``per_s``: items that ended in a second, of late. ``held``: the process that runs it, None while nobody does.
    """

    selection: Selection
    run: RunKept
    counts: Mapping[RunItemState, int]
    per_s: float | None
    eta_s: float | None
    held: str | None

    @property
    def ended(self) -> int:
        """Items with nothing more to come. What a cancelled run never sent is among them."""
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
    """One item of a selection. ``place`` counts from 0 in the frozen order; ``row_seq`` is the row that says so."""

    place: int
    target: Target
    state: RunItemState
    row_seq: int | None
    reason: str | None
