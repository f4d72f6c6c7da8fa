"""After a person closed what held back its entity: the next one that waits behind it is due at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from core.decision import OPEN_DECISIONS, Decision
from dlq.acceptance import Lookup, Meanwhile
from journal.open_item import OpenItem
from processor.decide.admission import again
from processor.decide.closings import Closings
from processor.decide.intake import Item
from processor.decide.verdict import park


def release(
    closings: Closings, index: Lookup, batch: Sequence[Item], meanwhile: Meanwhile, now: datetime
) -> list[Item]:
    """The rows that wake followers. Only the first of an entity is woken: the others follow it, in order.

    ``batch`` is what the batch decided of events: one that it parked itself gets no second row, but its time.
    """
    if not closings.heads:
        return []
    in_batch = {item.seq: item for item in batch if (item.row.entity_key or "") in closings.heads}
    woken = []
    for entity, head in closings.heads.items():
        waiting = _first_left(entity, index, in_batch, closings, meanwhile)
        if isinstance(waiting, Item):
            waiting.row.due_at = now
        elif waiting is not None and waiting.row.due_at is None and waiting.row.decision is not Decision.DEAD:
            item = again(waiting)
            park(item, f"item {head.seq}, which held it back, was {head.row.decision.value}", now)
            item.cause = head.cause
            woken.append(item)
    return woken


def _first_left(
    entity: str, index: Lookup, in_batch: dict[int, Item], closings: Closings, meanwhile: Meanwhile
) -> OpenItem | Item | None:
    """Who holds its entity back now and would wait for ever; None where nobody does."""
    for waiting in index.queue(entity):
        seq = waiting.row.item_seq
        if seq in closings.closed:
            continue
        if seq in in_batch:
            row = in_batch[seq].row
            if not (row.decision in OPEN_DECISIONS and row.blocking):
                continue
            return _parked(in_batch[seq])
        return None if seq in meanwhile.moved else waiting
    new = (item for item in in_batch.values() if item.new and (item.row.entity_key or "") == entity)
    return _parked(min((item for item in new if item.row.blocking), key=lambda item: item.seq, default=None))


def _parked(item: Item | None) -> Item | None:
    """It, if nothing else would take it up."""
    if item is None or item.row.decision is not Decision.PARKED or item.row.due_at is not None:
        return None
    return item
