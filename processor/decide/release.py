"""After a person closed what held back its entity: the next one that waits behind it is due at once."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from core.decision import OPEN_DECISIONS, Decision
from dlq.acceptance import Lookup, Meanwhile
from journal.open_item import OpenItem
from processor.decide.admission import again
from processor.decide.closings import Closings
from processor.decide.intake import Item
from processor.decide.verdict import park


def release(
    closings: Closings,
    index: Lookup,
    batch: Sequence[Item],
    ordered: Sequence[Item],
    meanwhile: Meanwhile,
    now: datetime,
    *,
    die_with_it: bool,
) -> list[Item]:
    """The rows that wake followers. Only the first of an entity is woken: the others follow it, in order.

    ``batch`` is what the batch decided of events: one that it parked itself gets no second row, but its time.
    ``ordered`` are the rows of orders: what is replayed in its place may hold the entity back from now on.
    """
    if not closings.heads:
        return []
    lines = _lines(closings, batch, ordered)
    woken = []
    for entity, head in closings.heads.items():
        waiting = _first_left(entity, lines[entity], index, closings, meanwhile, die_with_it=die_with_it)
        if waiting is None or lines[entity].replayed < waiting.row.item_seq:
            continue
        if isinstance(waiting, Item):
            waiting.row.due_at = now
        else:
            item = again(waiting)
            park(item, f"item {head.seq}, which held it back, was {head.row.decision.value}", now)
            item.cause = head.cause
            woken.append(item)
    return woken


@dataclass(slots=True)
class _Line:
    """What the batch did to one entity: its events by item, and the first item that orders replayed in its place."""

    events: dict[int, Item] = field(default_factory=dict)
    replayed: float = float("inf")


def _lines(closings: Closings, batch: Sequence[Item], ordered: Sequence[Item]) -> dict[str, _Line]:
    lines = {entity: _Line() for entity in closings.heads}
    for item in batch:
        if (line := lines.get(item.row.entity_key or "")) is not None:
            line.events[item.seq] = item
    for item in ordered:
        line = lines.get(item.row.entity_key or "")
        if line is not None and item.row.decision is Decision.REPLAYED and item.row.blocking:
            line.replayed = min(line.replayed, item.seq)
    return lines


def _first_left(
    entity: str, line: _Line, index: Lookup, closings: Closings, meanwhile: Meanwhile, *, die_with_it: bool
) -> OpenItem | Item | None:
    """Who waits at the head of its entity's line and would wait for ever; None where nobody does.

    Behind a dead head somebody waits for ever only where followers die with it: the next batch lets them.
    """
    for waiting in _holding(entity, line, index, closings):
        row = waiting.row
        if row.item_seq in meanwhile.moved and not isinstance(waiting, Item):
            return None
        if row.decision is Decision.DEAD and die_with_it:
            continue
        return waiting if row.decision is Decision.PARKED and row.due_at is None else None
    return None


def _holding(entity: str, line: _Line, index: Lookup, closings: Closings) -> Iterator[OpenItem | Item]:
    """Whoever holds back later events of the entity after this batch, in Kafka's order.

    What the batch decided stands for what the index knows, which also lacks those that hold nobody until now.
    """
    gone = closings.closed | line.events.keys()
    before = (waiting for waiting in index.queue(entity) if waiting.row.item_seq not in gone)
    now = [item for item in line.events.values() if item.row.blocking and item.row.decision in OPEN_DECISIONS]
    now.sort(key=_place)
    return heapq.merge(before, now, key=_place)


def _place(waiting: OpenItem | Item) -> int:
    return waiting.row.item_seq
