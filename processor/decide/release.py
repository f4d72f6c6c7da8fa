"""After orders took away what held back its entity: the next one that waits behind it is due at once."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime

from core.decision import OPEN_DECISIONS, Decision
from dlq.acceptance import Lookup, Meanwhile
from journal.open_item import OpenItem
from processor.decide.item import Item, again, park


def release(
    heads: Mapping[str, Item],
    gone: Set[int],
    index: Lookup,
    batch: Sequence[Item],
    ordered: Sequence[Item],
    meanwhile: Meanwhile,
    now: datetime,
    *,
    die_with_it: bool,
) -> list[Item]:
    """The rows that wake followers. Only the first of an entity is woken: the others follow it, in order.

    ``heads`` are what held back an entity and no longer does, by that entity: it was closed, or is of another entity
    now. ``gone`` are all items that left their entity so. ``batch`` is what the batch decided of events: one that it
    parked itself gets no second row, but its time. ``ordered`` are the rows of orders: what is replayed in its place
    may hold the entity back from now on.
    """
    if not heads:
        return []
    lines = _lines(heads, batch, ordered)
    woken = []
    for entity, head in heads.items():
        waiting = _first_left(entity, lines[entity], index, gone, meanwhile, die_with_it=die_with_it)
        if waiting is None or lines[entity].replayed < waiting.row.item_seq:
            continue
        if isinstance(waiting, Item):
            waiting.row.due_at = now
        else:
            item = again(waiting)
            elsewhere = f" as an event of {head.row.entity_key}" if head.row.entity_key != entity else ""
            park(item, f"item {head.seq}, which held it back, was {head.row.decision.value}{elsewhere}", now)
            item.cause = head.cause
            woken.append(item)
    return woken


@dataclass(slots=True)
class _Line:
    """What the batch did to one entity: its events by item, and the first item that orders replayed in its place."""

    events: dict[int, Item] = field(default_factory=dict)
    replayed: float = float("inf")


def _lines(heads: Iterable[str], batch: Sequence[Item], ordered: Sequence[Item]) -> dict[str, _Line]:
    lines = {entity: _Line() for entity in heads}
    for item in batch:
        if (line := lines.get(item.row.entity_key or "")) is not None:
            line.events[item.seq] = item
    for item in ordered:
        line = lines.get(item.row.entity_key or "")
        if line is not None and item.row.decision is Decision.REPLAYED and item.row.blocking:
            line.replayed = min(line.replayed, item.seq)
    return lines


def _first_left(
    entity: str, line: _Line, index: Lookup, gone: Set[int], meanwhile: Meanwhile, *, die_with_it: bool
) -> OpenItem | Item | None:
    """The event at the head of its entity's line that nothing would take up any more; None: there is none.

    Behind a dead head that is so only where followers die with it: the next batch lets them.
    """
    for waiting in _holding(entity, line, index, gone):
        row = waiting.row
        if row.item_seq in meanwhile.moved and not isinstance(waiting, Item):
            return None
        if row.decision is Decision.DEAD and die_with_it:
            continue
        return waiting if row.decision is Decision.PARKED and row.due_at is None else None
    return None


def _holding(entity: str, line: _Line, index: Lookup, gone: Set[int]) -> Iterator[OpenItem | Item]:
    """The events that hold back later ones of the entity after this batch, in Kafka's order.

    What the batch decided stands for what the index knows, which also lacks those that hold no event until now.
    """
    known = gone | line.events.keys()
    before = (waiting for waiting in index.queue(entity) if waiting.row.item_seq not in known)
    now = [item for item in line.events.values() if item.row.blocking and item.row.decision in OPEN_DECISIONS]
    now.sort(key=_item_seq)
    return heapq.merge(before, now, key=_item_seq)


def _item_seq(waiting: OpenItem | Item) -> int:
    return waiting.row.item_seq
