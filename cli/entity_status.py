"""``payhook status --entity``: what waits of one payment, why, and until when."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from cli.tables import row
from core.clock import to_rfc3339
from journal.entity_queue import EntityQueue
from journal.open_item import OpenItem

REASON_SHOWN_CHARS_MAX = 120


def print_entity(stream: str, queue: EntityQueue, now: datetime, *, as_json: bool) -> None:
    """Prints an entity's queue as a table, or as one JSON object."""
    if as_json:
        click.echo(json.dumps(as_tree(stream, queue), indent=2))
        return
    console = Console(soft_wrap=True)
    if not queue.total:
        console.print(f"nothing of {queue.entity_key} is open in {stream}: what arrives runs at once", markup=False)
        return
    table = Table(box=None, pad_edge=False)
    for name in ("item", "event", "state", "place", "attempt", "due", "reason"):
        table.add_column(name, no_wrap=name != "reason")
    for item in queue.items:
        last = item.row
        reason = (last.reason or "")[:REASON_SHOWN_CHARS_MAX]
        place = queue.place(item)
        row(table, last.item_seq, last.event_key, last.decision.value, place, last.attempt, _due(item, now), reason)
    console.print(table)
    console.print(_summary(queue), markup=False)


def as_tree(stream: str, queue: EntityQueue) -> dict[str, Any]:
    """What `--json` prints; times are RFC 3339."""
    return {
        "stream": stream,
        "entity_key": queue.entity_key,
        "seq": queue.seq,
        "total": queue.total,
        "head": queue.head,
        "previous_dead": queue.previous_dead,
        "items": [_item(queue, item) for item in queue.items],
    }


def _item(queue: EntityQueue, item: OpenItem) -> dict[str, Any]:
    last = item.row
    return {
        "item_seq": last.item_seq,
        "last_seq": item.last_seq,
        "event_key": last.event_key,
        "event_type": last.event_type,
        "state": last.decision.value,
        "place": queue.place(item),
        "attempt": last.attempt,
        "due_at": to_rfc3339(last.due_at) if last.due_at is not None else None,
        "reason": last.reason,
        "error_class": last.error_class,
        "cause_seq": last.cause_seq,
        "out_of_order": last.out_of_order,
        "passed_over": item.died,
        "received_at": to_rfc3339(last.received_at) if last.received_at is not None else None,
        "decided_at": to_rfc3339(last.decided_at),
    }


def _due(item: OpenItem, now: datetime) -> str | None:
    due_at = item.row.due_at
    if due_at is None:
        return None
    left_s = (due_at - now).total_seconds()
    return f"in {left_s:.1f} s" if left_s > 0 else f"since {-left_s:.1f} s"


def _summary(queue: EntityQueue) -> str:
    told = [f"{queue.total} open as of row {queue.seq}"]
    if queue.total > len(queue.items):
        told.append(f"the first {len(queue.items)} are shown")
    if (dead := queue.held_by()) is not None:
        told.append(
            f"item {dead.row.item_seq} is dead and holds the entity: see `payhook dlq show {dead.row.item_seq}`"
        )
    if queue.previous_dead:
        told.append("what runs next sees that an earlier event died")
    return "; ".join(told)
