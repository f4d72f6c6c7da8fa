"""What operators may order: the acts, how large one may be, and a command's parts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

CONTROL_TOPIC = "payments.control"
REPLAY, PURGE, RESOLVE = "replay", "purge", "resolve"
PROPOSE_PURGE, PROPOSE_RESOLVE = "propose_purge", "propose_resolve"
PROPOSE_REVERSAL, REVERSE = "propose_reversal", "reverse"
REPROCESS = "reprocess"

ITEM_ACTIONS = frozenset({REPLAY})
"""On dead items, by one person, however many they are."""

CLOSING_ACTIONS = frozenset({PURGE, RESOLVE, PROPOSE_PURGE, PROPOSE_RESOLVE})
"""End items for good. Beyond the stream's limits a purge or a resolve carries its proposal."""

APPROVES = {REVERSE: PROPOSE_REVERSAL, PURGE: PROPOSE_PURGE, RESOLVE: PROPOSE_RESOLVE}
"""By an act: the proposal of it that a second person approves by giving it. A ``reverse`` has one always."""

REVERSAL_ACTIONS = frozenset({PROPOSE_REVERSAL, REVERSE})
REPROCESS_ACTIONS = frozenset({REPROCESS})
"""On ignored events, by one person, as replays are."""

ACTIONS = ITEM_ACTIONS | CLOSING_ACTIONS | REVERSAL_ACTIONS | REPROCESS_ACTIONS
TARGETS_MAX = 5_000
REVERSALS_MAX = 100
"""Bookings of one reversal: each is read again from the journal while the stream waits."""

REPROCESS_MAX = 100
"""Events of one command: their rows and bodies are read again from their tables while the stream waits."""

COMMAND_BYTES_MAX = 900_000
"""Below Kafka's default of 1 MiB a record; 5,000 targets take 300 KB."""

SPREAD_S_MAX = 60.0
"""From a replay's first item to its last: a replayed item keeps its place in its entity until it is due, and later
events of that entity wait for it. Whoever replays more slowly sends less in one command."""


@dataclass(frozen=True, slots=True)
class Target:
    """One item, and the seq of its last row that the operator saw."""

    item_seq: int
    seen_seq: int


class ReplayMode(StrEnum):
    """What a replay's targets are to each other and to what was applied since."""

    ALONE = "alone"
    """Each for itself."""
    WITH_FOLLOWERS = "with_followers"
    """Of each entity all that is dead from its first target on, in Kafka's order: all of it, or none."""
    SUPERSEDED = "superseded"
    """Items whose old place is gone, because later events of their entity were applied: they run behind those."""


class Place(StrEnum):
    """Where a replay expects its targets to run. One that would run elsewhere is refused."""

    IN_PLACE = "in_place"
    """Before every event of its entity that came later."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Who asked for what a second person approves, and why; its targets are the approval's."""

    command_id: str
    actor: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Command:
    """One act of an operator on items of one stream. ``command_id`` makes copies of it harmless.

    ``proposal``: the command that this act approves (`APPROVES`), whole. ``interval_us``, of a replay or a reprocess:
    the k-th accepted target, from 0, is due k times so many microseconds after the decision. The rest is a replay's
    alone. ``mode``: see `ReplayMode`. ``expects``: None takes a target wherever it may run. ``force``: replays what the
    loop guard would refuse.
    """

    command_id: str
    stream: str
    action: str
    targets: tuple[Target, ...]
    actor: str
    reason: str
    at: datetime
    proposal: Proposal | None = None
    mode: ReplayMode = ReplayMode.ALONE
    interval_us: int = 0
    expects: Place | None = None
    force: bool = False

    @property
    def proposed(self) -> Command:
        """The command that this one approves, as it was given."""
        assert self.proposal is not None
        first, action = self.proposal, APPROVES[self.action]
        return Command(first.command_id, self.stream, action, self.targets, first.actor, first.reason, first.at)
