"""After a person closed what held back its entity: the next one that waits behind it is due at once."""

from __future__ import annotations

from collections.abc import Sequence
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
        waiting = _first_left(entity, lines[entity], index, closings, meanwhile)
        if waiting is None or lines[entity].replayed < waiting.row.item_seq:
            continue
        if isinstance(waiting, Item):
            waiting.row.due_at = now
        elif waiting.row.due_at is None and waiting.row.decision is not Decision.DEAD:
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
    entity: str, line: _Line, index: Lookup, closings: Closings, meanwhile: Meanwhile
) -> OpenItem | Item | None:
    """Who holds its entity back now and would wait for ever; None where nobody does."""
    for waiting in index.queue(entity):
        seq = waiting.row.item_seq
        if seq in closings.closed:
            continue
        if seq in line.events:
            row = line.events[seq].row
            if not (row.decision in OPEN_DECISIONS and row.blocking):
                continue
            return _parked(line.events[seq])
        return None if seq in meanwhile.moved else waiting
    new = (item for item in line.events.values() if item.new and item.row.blocking)
    return _parked(min(new, key=lambda item: item.seq, default=None))


def _parked(item: Item | None) -> Item | None:
    """It, if nothing else would take it up."""
    if item is None or item.row.decision is not Decision.PARKED or item.row.due_at is not None:
        return None
    return item
