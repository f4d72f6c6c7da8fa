"""The model of one entity in one batch: a walk over its events in Kafka's order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from processor.settings import DeadHead
from tests.unit.processor.fakes import HandlerCall

if TYPE_CHECKING:
    from tests.unit.processor.parking_model import Model

RETRIES_S = (1, 2, 4, 8, 16)
HELD_S = 7.0
OPEN = {"parked", "retry", "dead", "replayed"}


class LastRow(NamedTuple):
    """What an event's last row says."""

    out_of_order: bool = False
    due: datetime | None = None
    held: bool = False


@dataclass(eq=False)
class ModelEvent:
    """One record. ``kind``: a new event, a copy of another's content, or other content under another's key.

    ``holds``: later ones of its entity wait behind it. ``died``: it died and was passed over. ``fact``: the movement of
    money that it reports. ``version`` counts its rows, ``replays`` how often it was replayed. ``saw_closed``: an
    earlier one that held others back was closed after it came (``came_before_closing``), and it was open then or since.
    ``is_changed``: which content of its key it has. A conflict becomes an event like others when it is replayed, once
    the first was purged. ``suspect``: its last try failed as if the whole stream were blocked. ``held``: its last
    try wasn't made, and gave it a later time.
    """

    key: str
    order: int
    kind: Literal["event", "duplicate", "conflict"] = "event"
    state: str = "new"
    attempt: int = 0
    due: datetime | None = None
    holds: bool = False
    died: bool = False
    out_of_order: bool = False
    version: int = 0
    replays: int = 0
    saw_closed: bool = False
    came_before_closing: bool = False
    is_changed: bool = False
    suspect: bool = False
    held: bool = False
    fact: str | None = None
    is_booked: bool = False
    told: LastRow = field(default_factory=LastRow)

    def copy(self) -> ModelEvent:
        """The same, for another future. `replace` takes ten times as long, in a search that does little else."""
        same = object.__new__(ModelEvent)
        same.__dict__.update(self.__dict__)
        return same

    @property
    def is_new(self) -> bool:
        return self.state == "new"

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def is_dead(self) -> bool:
        return self.state == "dead"

    @property
    def is_put_off(self) -> bool:
        return self.state == "retry" or self.held

    def becomes(
        self,
        state: str,
        *,
        due: datetime | None = None,
        holds: bool = False,
        suspect: bool = False,
        held: bool = False,
    ) -> None:
        died_now = state == "dead" and self.kind == "event"
        suspect |= state == "parked" and self.suspect
        self.state, self.due, self.holds = state, due, holds
        self.suspect, self.held = suspect, held
        self.died = self.is_open and not holds and (died_now or self.died)
        self.version += 1

    def waits(self, due: datetime, *, suspect: bool = False, held: bool = False) -> None:
        """It can't be decided yet. A row says so where something else changes than until when; that is known all the
        same.
        """
        waited = self.state in ("parked", "retry") and self.due is not None and self.holds
        if not waited or (suspect and not self.suspect) or self.out_of_order != self.told.out_of_order:
            self.becomes("parked", due=due, holds=True, suspect=suspect, held=held)
        else:
            self.due, self.held = due, held


def was_passed(event: ModelEvent, of_entity: Sequence[ModelEvent]) -> bool:
    """Whether a later event of the entity was applied before it."""
    return any(other.state == "applied" and other.order > event.order for other in of_entity)


@dataclass
class Walk:
    """One entity in one batch.

    ``wall`` is the first event that holds others and may not run now; ``stuck`` the first that ran and holds them.
    ``blocks``: the whole stream is blocked, and what wasn't called is due again; ``own``: events whose outage is their
    own. A ``probe`` calls one event. ``drain``: most events of the line that run.
    """

    model: Model
    events: list[ModelEvent]
    now: datetime
    due: set[int]
    calls: list[HandlerCall]
    own: set[str]
    blocks: bool
    probe: bool
    drain: int
    wall: ModelEvent | None = None
    stuck: ModelEvent | None = None
    has_tried: bool = False
    has_failed_down: bool = False

    def run(self) -> None:
        self.wall = self._find_wall()
        passed = [was_passed(event, self.events) for event in self.events]
        for event, is_passed in zip(self.events, passed, strict=True):
            if event.is_new and event.kind != "event":
                event.becomes("dead" if event.kind == "conflict" else "duplicate")
            elif not (event.is_new or event.is_open) or event.is_dead or event is self.wall:
                continue
            elif self.wall is not None and event.order > self.wall.order:
                self._behind_the_wall(event, is_passed)
            elif event.is_new or event.holds or event.order in self.due:
                self._in_line(event, is_passed)
        self._wake()
        assert not self.calls, f"called too much: {self.calls}"

    def size(self) -> int:
        """How many events it would take up."""
        self.wall = self._find_wall()
        until = self.wall.order if self.wall is not None else math.inf
        old = [event for event in self.events if event.is_open and not event.is_dead]
        run = [event for event in old if event.order < until and (event.holds or event.order in self.due)]
        behind = [event for event in old if event.order > until and event.order in self.due]
        return len(run) + len(behind)

    def _find_wall(self) -> ModelEvent | None:
        room = self.drain
        for event in self.events:
            if event.holds and event.is_open:
                if event.is_dead or room == 0 or (event.due is not None and event.due > self.now):
                    return event
                room -= 1
        return None

    @property
    def _is_taken_up(self) -> bool:
        """Whether the batch looks at what waits, not only at what arrives."""
        return any(event.order in self.due for event in self.events)

    def _behind_the_wall(self, event: ModelEvent, is_passed: bool) -> None:
        if event.is_new or event.order in self.due:
            event.out_of_order = event.out_of_order or is_passed
            event.becomes("parked", holds=True)

    def _in_line(self, event: ModelEvent, is_passed: bool) -> None:
        if event.kind == "conflict":
            event.becomes("dead")
            return
        if self.stuck is None:
            event.out_of_order = event.out_of_order or is_passed
            self._try(event)
        elif event.is_new:
            event.becomes("parked", holds=True)

    def _try(self, event: ModelEvent) -> None:
        if event.fact is not None and event.fact in self.model.facts:
            event.becomes("duplicate_fact")
            return
        is_first, self.has_tried = not self.has_tried, True
        if self.has_failed_down:
            # As far as its worker could see it was an outage: the rest of the line waits for the next batch.
            event.waits(self.now)
            self.stuck = event
            return
        may_wait = self.blocks and not (self.probe and is_first)
        if may_wait and (not self.calls or self.calls[0].event_key != event.key):
            event.waits(self.now)
        else:
            assert self.calls, f"{event.key} should have been called"
            call = self.calls.pop(0)
            previous_dead = event.saw_closed or any(other.died for other in self.events if other.order < event.order)
            assert (call.event_key, call.previous_dead) == (event.key, previous_dead)
            self._came_of(event, call.outcome)
            self.has_failed_down = call.outcome == "down"
        if event.is_open and event.holds:
            self.stuck = event

    def _came_of(self, event: ModelEvent, outcome: str) -> None:
        if outcome in ("applied", "ignored", "unknown"):
            event.becomes(outcome)
        elif outcome == "held":
            event.waits(self.now + timedelta(seconds=self.model.held_s), held=True)
        elif outcome == "down" and event.key not in self.own:
            event.waits(self.now, suspect=True)
        elif outcome in ("bug", "after_dead") or event.attempt == len(self.model.retries_s):
            beside = outcome in ("missing", "after_dead")
            event.becomes("dead", holds=self.model.policy is DeadHead.WAIT and not beside)
        else:
            due = self.now + timedelta(seconds=self.model.retries_s[event.attempt])
            event.attempt += 1
            event.becomes("retry", due=due, holds=outcome != "missing", suspect=outcome == "down")

    def _wake(self) -> None:
        """What the batch had no room for is due at once, unless it waits for one that will wake it."""
        wall = self.wall
        if not self._is_taken_up or wall is None or self.stuck is not None:
            return
        if wall.due is None and wall.is_open and not wall.is_dead:
            wall.becomes("parked", due=self.now, holds=True)
