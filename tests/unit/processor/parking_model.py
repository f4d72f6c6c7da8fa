"""What must become of an entity's events, said once more in the plainest way: all of them, and what batches and
commands do; `parking_walk` has what a batch makes of one entity.

It keeps everything that ever happened, so it needs no index to know what was passed over or applied too late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from journal.index import Index
from journal.schema import JournalRow
from operations.command import ReplayMode
from processor.settings import DeadHead
from tests.unit.processor.fakes import HandlerCall
from tests.unit.processor.parking_walk import HELD_S, RETRIES_S, LastRow, ModelEvent, Walk, was_passed


class Before(NamedTuple):
    """An event as the index knows it when a batch begins."""

    version: int
    due: datetime | None
    held: bool


@dataclass(frozen=True)
class Order:
    """A command or a run of events as they were seen: each with its version then."""

    action: str
    targets: tuple[tuple[ModelEvent, int], ...]
    mode: ReplayMode = ReplayMode.ALONE
    force: bool = False


@dataclass
class Model:
    """Every event of every entity, in Kafka's order. ``drain_max``, ``replays_max`` as in the engine's rules.

    ``due_max``: events that a batch takes up again.

    ``free`` are keys whose event was purged, and which no other content has taken. ``holders``: by key, whether the
    changed content holds it; ``others`` are contents that hold no key. ``facts`` are those that an event was applied
    under.
    """

    policy: DeadHead
    drain_max: int
    replays_max: int = 5
    due_max: int = 1_000
    retries_s: Sequence[int] = RETRIES_S
    held_s: float = HELD_S
    entities: dict[str, list[ModelEvent]] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)
    holders: dict[str, bool] = field(default_factory=dict)
    others: set[tuple[str, bool]] = field(default_factory=set)
    facts: set[str] = field(default_factory=set)
    before: dict[ModelEvent, Before] = field(default_factory=dict)
    open_before: set[ModelEvent] = field(default_factory=set)
    closed_heads: list[list[ModelEvent]] = field(default_factory=list)

    def copy(self) -> Model:
        """The same, for another future."""
        own = {event: event.copy() for event in self.events()}
        entities = {name: [own[event] for event in events] for name, events in self.entities.items()}
        return replace(
            self,
            entities=entities,
            free=set(self.free),
            holders=dict(self.holders),
            others=set(self.others),
            facts=set(self.facts),
            before={},
            open_before=set(),
        )

    def check_decided(self, last: Mapping[ModelEvent, JournalRow], index: Index) -> None:
        """Asserts that each event's last row, and the index, say of it what the model does."""
        for event, row in last.items():
            suspect = row.error_kind == "SBE" and not event.is_dead
            due = row.due_at
            if event.is_open and not event.is_dead and due is not None:
                waiting = index.open_item(row.item_seq)
                assert waiting is not None and waiting.last_seq == row.seq
                due = waiting.row.due_at
            decided = (row.decision.value, row.attempt, due, row.blocking, row.out_of_order, suspect)
            wanted = (event.state, event.attempt, event.due, event.holds, event.out_of_order, event.suspect)
            assert decided == wanted, f"{event.key}: {decided}, the model says {wanted}"
        for entity, events in self.entities.items():
            queue = [item.row.item_seq for item in index.queue(entity)]
            assert queue == [last[event].item_seq for event in events if event.is_open and event.holds]
            assert list(index.find_died(entity)) == [last[event].item_seq for event in events if event.died]

    def events(self) -> list[ModelEvent]:
        return [event for events in self.entities.values() for event in events]

    def batch(self, now: datetime, calls: Sequence[HandlerCall]) -> bool:
        """One batch of a stream that isn't blocked, in which the handler was called so; whether it is blocked then.

        AssertionError where it should have been called otherwise.
        """
        due = self.due(now)[: self.due_max]
        own = {call.event_key for at, call in enumerate(calls) if _applied_after(calls, at)}
        own |= {event.key for event in self.events() if event.suspect}
        blocks = any(call.outcome == "down" and call.event_key not in own for call in calls)
        self._walk(now, calls, due, own, blocks=blocks)
        return blocks

    def probe(
        self, now: datetime, calls: Sequence[HandlerCall], arrived: Sequence[tuple[str, ModelEvent]]
    ) -> list[ModelEvent]:
        """One probe of a blocked stream; what of ``arrived`` it took."""
        candidates = [*self.due(now), *(new for _, new in arrived[:1])]
        best = min(candidates, key=lambda event: (event.suspect, event.is_put_off), default=None)
        if best is not None and best.is_new:
            self.entities.setdefault(arrived[0][0], []).append(best)
            self._walk(now, calls, [], set(), blocks=True, probe=True)
            return [best]
        self._walk(now, calls, [] if best is None else [best], set(), blocks=True, probe=True)
        return []

    def due(self, now: datetime) -> list[ModelEvent]:
        """What waits and whose time has come, the longest first."""
        waiting = [(event.due, event.order, event) for event in self.events() if event.due and event.due <= now]
        return [event for _, _, event in sorted(waiting, key=lambda waits: waits[:2])]

    def _walk(
        self,
        now: datetime,
        calls: Sequence[HandlerCall],
        taken: Sequence[ModelEvent],
        own: set[str],
        *,
        blocks: bool,
        probe: bool = False,
    ) -> None:
        for event in sorted(self.events(), key=lambda event: event.order):
            if event.is_new:
                self._admit(event)
        drains, due = self._drains(taken, now), {event.order for event in taken}
        for entity, events in self.entities.items():
            mine = [call for call in calls if call.entity_key == entity]
            if any(event.is_new or event.order in due for event in events):
                Walk(self, events, now, due, mine, own, blocks, probe, drains.get(entity, 0)).run()
            else:
                assert not mine, f"{entity} had nothing to do, and the handler was called: {mine}"
        self._one_booking_a_fact()

    def _admit(self, event: ModelEvent) -> None:
        """The first content of a key is an event, another one a conflict, and what is known is a duplicate."""
        known = event.key, event.is_changed
        if event.key not in self.holders:
            self.holders[event.key] = event.is_changed
        elif self.holders[event.key] == event.is_changed or known in self.others:
            event.kind = "duplicate"
        else:
            event.kind = "conflict"
            self.others.add(known)

    def _one_booking_a_fact(self) -> None:
        """Of those that this batch applied under one fact the first one stays so."""
        for event in sorted(self.events(), key=lambda event: event.order):
            if event.state == "applied" and event.fact is not None and not event.is_booked:
                event.is_booked = event.fact not in self.facts
                event.state = "applied" if event.is_booked else "duplicate_fact"
                self.facts.add(event.fact)

    def _drains(self, taken: Sequence[ModelEvent], now: datetime) -> dict[str, int]:
        """How many of each entity's line may run: what is due of it, and an equal share of what else a batch takes."""
        by_entity: dict[str, list[ModelEvent]] = {}
        for event in taken:
            name = next(name for name, events in self.entities.items() if event in events)
            by_entity.setdefault(name, []).append(event)
        left, drains = self.due_max - len(taken), {}
        for at, (name, due) in enumerate(by_entity.items()):
            share = max(0, left) // (len(by_entity) - at)
            drains[name] = min(self.drain_max, sum(event.holds for event in due) + share)
            orders = {event.order for event in due}
            walk = Walk(self, self.entities[name], now, orders, [], set(), False, False, drains[name])
            left -= max(0, walk.size() - len(due))
        return drains

    def begins_batch(self) -> None:
        """Remembers what the index knows while commands are decided."""
        self.before = {event: Before(event.version, event.due, event.held) for event in self.events()}
        self.open_before = {event for event in self.events() if event.is_open}
        self.closed_heads: list[list[ModelEvent]] = []

    def replay(self, order: Order, now: datetime) -> None:
        """A command about events as they were seen, decided after the batch's events."""
        targets = sorted(order.targets, key=lambda target: target[0].order)
        if order.mode is ReplayMode.WITH_FOLLOWERS:
            accepted = [event for group in self._groups(targets) for event in self._with_followers(group, order)]
            for event in sorted(accepted, key=lambda event: event.order):
                self._replayed(event, now)
        else:
            for event, seen in targets:
                if self._may_be_replayed(event, seen, order):
                    self._replayed(event, now)

    def close(self, order: Order) -> None:
        """A purge, a resolve or a release of events as they were seen."""
        for event, seen in order.targets:
            if event not in self.open_before or event.version != seen or not event.is_dead:
                continue
            if order.action == "release" and event.kind == "conflict":
                continue
            mine = self._entity_of(event)
            if event.holds:
                self.closed_heads.append(mine)
                for other in mine:
                    other.came_before_closing |= other.order > event.order
                    other.saw_closed |= other.is_open and other.order > event.order
            if order.action == "purge" and event.kind == "event":
                self.free.add(event.key)
                self.others.add((event.key, event.is_changed))
            if order.action == "release":
                del self.holders[event.key]
                self.others.discard((event.key, event.is_changed))
            event.becomes({"purge": "purged", "release": "released"}.get(order.action, "resolved"))

    def ends_batch(self, now: datetime, *, crashed: bool = False) -> None:
        """After all commands. ``crashed``: once it had its rows; until when those wait that got none is lost then."""
        self._wake_behind_closed(now)
        for event in self.events():
            before = self.before.get(event)
            if before is None or before.version != event.version:
                event.told = LastRow(event.out_of_order, event.due, event.held)
            elif crashed:
                event.due, event.held = before.due, before.held

    def loses_index(self) -> None:
        """The index is made again from the journal: all wait until their rows' times."""
        for event in self.events():
            event.due, event.held = event.told.due, event.told.held

    def _version_before(self, event: ModelEvent) -> int | None:
        before = self.before.get(event)
        return None if before is None else before.version

    def _wake_behind_closed(self, now: datetime) -> None:
        """Who waited behind what was closed is due, by a row of its own or by the batch's."""
        for mine in self.closed_heads:
            head = next((event for event in mine if event.is_open and event.holds), None)
            if head is not None and head.state == "parked" and head.due is None:
                head.due = now
                head.version += head.version == self._version_before(head)

    def _entity_of(self, event: ModelEvent) -> list[ModelEvent]:
        return next(events for events in self.entities.values() if event in events)

    def _groups(self, targets: Sequence[tuple[ModelEvent, int]]) -> list[list[tuple[ModelEvent, int]]]:
        """By entity, without those that were closed before: these are nobody's followers."""
        mine = [[target for target in targets if target[0] in events] for events in self.entities.values()]
        return [still for group in mine if (still := [target for target in group if target[0] in self.open_before])]

    def _with_followers(self, group: Sequence[tuple[ModelEvent, int]], order: Order) -> list[ModelEvent]:
        events = {event for event, _ in group}
        first = min(event.order for event in events)
        followers = {event for event in self._entity_of(group[0][0]) if event.order > first and event.is_dead}
        if any(event.kind == "event" for event in followers - events):
            return []
        if all(self._may_be_replayed(event, seen, order) for event, seen in group):
            return [event for event, _ in group]
        return []

    def _may_be_replayed(self, event: ModelEvent, seen: int, order: Order) -> bool:
        if event.state in ("ignored", "unknown"):
            return event.version == seen == self._version_before(event)
        if event not in self.open_before or event.version != seen or not event.is_dead:
            return False
        if event.kind == "conflict" and event.key not in self.free:
            return False
        return order.force or event.replays < self.replays_max

    def _is_placed(self, event: ModelEvent) -> bool:
        return event.holds or (not event.out_of_order and not was_passed(event, self._entity_of(event)))

    def _replayed(self, event: ModelEvent, now: datetime) -> None:
        placed = self._is_placed(event)
        if event.state in ("ignored", "unknown"):
            placed, event.replays = not was_passed(event, self._entity_of(event)), 0
            event.saw_closed |= event.came_before_closing
        if event.kind == "conflict":
            event.kind, self.holders[event.key] = "event", event.is_changed
            self.free.discard(event.key)
        event.becomes("replayed", due=now, holds=placed)
        event.attempt, event.out_of_order = 0, event.out_of_order or not placed
        event.replays += 1


def _applied_after(calls: Sequence[HandlerCall], at: int) -> bool:
    """Whether a call said that the whole stream is blocked, and a later one in the batch disproved it."""
    return calls[at].outcome == "down" and any(later.outcome == "applied" for later in calls[at + 1 :])
