"""What must become of an entity's events, said once more in the plainest way: one walk over them in Kafka's order.

It keeps everything that ever happened, so it needs no index to know what was passed over or applied too late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from processor.settings import DeadHead
from tests.unit.processor.harness import Call

RETRIES_S = (1, 2, 4, 8, 16)
HELD_S = 7.0
OPEN = {"parked", "retry", "dead", "replayed"}


@dataclass(eq=False)
class Event:
    """One record. ``kind``: a new event, a copy of another's content, or other content under another's key.

    ``holds``: later ones of its entity wait behind it. ``died``: it died and was passed over. ``head`` is the event
    with which it died. ``version`` counts its rows.
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
    head: Event | None = None
    version: int = 0

    @property
    def is_new(self) -> bool:
        return self.state == "new"

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def is_dead(self) -> bool:
        return self.state == "dead"

    def becomes(
        self, state: str, *, due: datetime | None = None, holds: bool = False, head: Event | None = None
    ) -> None:
        died_now = state == "dead" and self.kind == "event"
        self.state, self.due, self.holds, self.head = state, due, holds, head
        self.died = self.is_open and not holds and (died_now or self.died)
        self.version += 1


@dataclass
class Model:
    """Every event of every entity, in Kafka's order. ``drain_max`` as in the engine's rules."""

    policy: DeadHead
    drain_max: int
    entities: dict[str, list[Event]] = field(default_factory=dict)

    @property
    def followers_die(self) -> bool:
        return self.policy is DeadHead.DIE_WITH_IT

    def events(self) -> list[Event]:
        return [event for events in self.entities.values() for event in events]

    def batch(self, now: datetime, calls: Sequence[Call], probe_s: float, due_max: int) -> None:
        """One batch, in which the handler was called so; AssertionError where it should have been called otherwise."""
        waiting = [(event.due, event.order) for event in self.events() if event.due is not None and event.due <= now]
        due = {order for _, order in sorted(waiting)[:due_max]}
        is_blocked = any(call.outcome == "down" for call in calls)
        blocked_until = now + timedelta(seconds=probe_s) if is_blocked else None
        for entity, events in self.entities.items():
            mine = [call for call in calls if call.entity_key == entity]
            if any(event.is_new or event.order in due for event in events):
                Walk(self, events, now, due, mine, blocked_until).run()
            else:
                assert not mine, f"{entity} had nothing to do, and the handler was called: {mine}"

    def replay(self, targets: Sequence[tuple[Event, int]], now: datetime, before: dict[Event, int]) -> None:
        """A command about events as they were seen (version), decided after the batch's events.

        ``before``: every event's version before the batch.
        """
        for event, seen in sorted(targets, key=lambda target: target[0].order):
            mine = next(events for events in self.entities.values() if event in events)
            heads = [
                one
                for one in mine
                if one.order < event.order and one.is_dead and one.holds and one.version == before.get(one)
            ]
            if event.version != seen or not event.is_dead or (self.followers_die and heads):
                continue
            placed = event.holds or (event.died and not event.out_of_order and not was_passed(event, mine))
            event.becomes("replayed", due=now, holds=placed)
            event.attempt, event.out_of_order = 0, event.out_of_order or not placed


def was_passed(event: Event, of_entity: Sequence[Event]) -> bool:
    """Whether a later event of the entity was applied before it."""
    return any(other.state == "applied" and other.order > event.order for other in of_entity)


@dataclass
class Walk:
    """One entity in one batch.

    ``wall`` is the first event that holds others and may not run now; ``stuck`` the first that ran and holds them.
    ``blocked_until``: the whole stream is blocked, and what wasn't called is due then.
    """

    model: Model
    events: list[Event]
    now: datetime
    due: set[int]
    calls: list[Call]
    blocked_until: datetime | None
    wall: Event | None = None
    stuck: Event | None = None
    killed: int = 0

    def run(self) -> None:
        self.wall = self._find_wall()
        passed = [was_passed(event, self.events) for event in self.events]
        for event, is_passed in zip(self.events, passed, strict=True):
            if event.is_new and event.kind != "event":
                event.becomes("dead" if event.kind == "conflict" else "duplicate")
            elif not (event.is_new or event.is_open) or event.is_dead or event is self.wall:
                continue
            elif self.wall is not None and event.order > self.wall.order:
                self._behind_the_wall(event)
            elif event.is_new or event.holds or event.order in self.due:
                self._in_line(event, is_passed)
        self._wake()
        assert not self.calls, f"called too much: {self.calls}"

    def _find_wall(self) -> Event | None:
        room = self.model.drain_max
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

    @property
    def _is_deadly(self) -> bool:
        return self.model.followers_die and self.wall is not None and self.wall.is_dead

    def _behind_the_wall(self, event: Event) -> None:
        in_hand = event.is_new or event.order in self.due
        has_room = self._is_taken_up and event.holds and self.killed < self.model.drain_max
        if self._is_deadly and (in_hand or has_room):
            self.killed += not in_hand
            event.becomes("dead", head=None if event.kind == "conflict" else self.wall)
        elif in_hand:
            event.becomes("parked", holds=True)

    def _in_line(self, event: Event, is_passed: bool) -> None:
        if event.kind == "conflict":
            event.becomes("dead")
            return
        if self.stuck is None or (self.model.followers_die and self.stuck.is_dead):
            event.out_of_order = event.out_of_order or is_passed
        if self.stuck is None:
            self._try(event)
        elif self.model.followers_die and self.stuck.is_dead:
            event.becomes("dead", head=self.stuck)
        elif event.is_new:
            event.becomes("parked", holds=True)

    def _try(self, event: Event) -> None:
        if self.blocked_until is not None and (not self.calls or self.calls[0].event_key != event.key):
            event.becomes("parked", due=self.blocked_until, holds=True)
        else:
            assert self.calls, f"{event.key} should have been called"
            call = self.calls.pop(0)
            previous_dead = any(other.died for other in self.events if other.order < event.order)
            assert (call.event_key, call.previous_dead) == (event.key, previous_dead)
            self._came_of(event, call.outcome)
        if event.is_open and event.holds:
            self.stuck = event

    def _came_of(self, event: Event, outcome: str) -> None:
        if outcome in ("applied", "ignored"):
            event.becomes(outcome)
        elif outcome == "held":
            event.becomes("parked", due=self.now + timedelta(seconds=HELD_S), holds=True)
        elif outcome == "down":
            event.becomes("parked", due=self.blocked_until, holds=True)
        elif outcome == "bug" or event.attempt == len(RETRIES_S):
            event.becomes("dead", holds=self.model.policy is not DeadHead.CONTINUE and outcome != "missing")
        else:
            due = self.now + timedelta(seconds=RETRIES_S[event.attempt])
            event.attempt += 1
            event.becomes("retry", due=due, holds=outcome != "missing")

    def _wake(self) -> None:
        """What the batch had no room for is due at once, unless it waits for one that will wake it."""
        if (
            not self._is_taken_up
            or self.wall is None
            or (self.stuck is not None and not (self.model.followers_die and self.stuck.is_dead))
        ):
            return
        behind = [event for event in self.events if event.order > self.wall.order and event.holds and not event.is_dead]
        left = behind[:1] if self._is_deadly else [self.wall]
        for event in left:
            if event.due is None and event.is_open and not event.is_dead:
                event.becomes("parked", due=self.now, holds=True)
