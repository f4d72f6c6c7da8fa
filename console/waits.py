"""Tells which wait holds an open event, since when, and what to do: by its last row and its stream's status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from core.clock import to_rfc3339
from core.decision import NO_RETRIES, Decision, ErrorKind
from core.layout import StreamLayout
from core.status_file import STANDBY, fresh_status, read_said
from dead_letters.item import Item, ItemState
from journal.entity_queue import EntityQueue, read_item
from journal.errors import IndexUnreadable
from journal.open_item import OpenItem, has_failed, is_delayed

NAMED_MAX = 5
"""Items that one line names."""


class WaitKind(StrEnum):
    PERSON = "person"
    HEAD = "head"
    BLOCKED = "blocked"
    BACKOFF = "backoff"
    DELAY = "delay"
    BREAKER = "breaker"
    BUDGET = "budget"
    DOWNSTREAM = "downstream"
    TURN = "turn"
    STANDBY = "standby"
    PROCESSOR = "processor"


BY_ITSELF = (WaitKind.TURN, WaitKind.BACKOFF, WaitKind.DELAY)
"""Waits that end by themselves, now or at their time, if the stream decides."""


@dataclass(frozen=True, slots=True)
class EventWait:
    """Says what an event waits for. ``until``: when that is over by itself, where it is known."""

    wait: WaitKind
    since: datetime
    until: datetime | None
    text: str
    """Says what holds the event and what to do, in whole sentences."""

    def as_json(self) -> dict[str, str | None]:
        until = None if self.until is None else to_rfc3339(self.until)
        return {"for": self.wait.value, "since": to_rfc3339(self.since), "until": until, "text": self.text}


def find_wait(queue: EntityQueue, item: OpenItem, status: Mapping[str, Any] | None, now: datetime) -> EventWait:
    row = item.row
    due_at = row.due_at if row.due_at is not None and row.due_at > now else None
    wait, text = _find_own_wait(queue, item, due_at, status)
    if wait in BY_ITSELF and (of_stream := stream_wait(status, now)) is not None:
        wait, text = of_stream
        due_at = None
    return EventWait(wait, row.decided_at, due_at, text)


def wait_of(files: StreamLayout, item: Item, now: datetime) -> EventWait | None:
    """Finds what an item that is to be tried again waits for; None where it doesn't wait, or no index of it is here."""
    if item.state is not ItemState.WAITING:
        return None
    try:
        queue = read_item(files.index, item.item_seq)
    except IndexUnreadable:
        return None
    return None if queue is None else find_wait(queue, queue.items[0], read_said(files.status), now)


def _find_own_wait(
    queue: EntityQueue, item: OpenItem, due_at: datetime | None, status: Mapping[str, Any] | None
) -> tuple[WaitKind, str]:
    row, reason = item.row, item.row.reason or ""
    if row.decision is Decision.DEAD:
        return WaitKind.PERSON, f"It is dead: replay or close it, see `payhook dlq show {row.item_seq}`."
    if queue.describe_place(item) == "waits":
        return WaitKind.HEAD, f"It runs after item {queue.head}: fix what holds that one."
    if row.error_kind is ErrorKind.SBE:
        return WaitKind.BLOCKED, f"The stream is blocked: {reason}. Fix that; the processor retries by itself."
    when = "at once" if due_at is None else f"at {to_rfc3339(due_at)}"
    if has_failed(row) and due_at is not None:
        return WaitKind.BACKOFF, f"Nothing to do: it is retried {when}."
    if is_delayed(row) and due_at is not None:
        return WaitKind.DELAY, f"The stream's delay isn't over. Nothing to do: it is handled {when}."
    if row.decision in (Decision.PARKED, Decision.RETRY) and due_at is not None:
        if reason.endswith(NO_RETRIES):
            return WaitKind.BUDGET, f"{reason}. Nothing to do: it is retried {when}."
        if (name := _find_open_breaker(reason, status)) is not None:
            return WaitKind.BREAKER, f"{reason}. Fix {name}; it is called again by itself, {when}."
        return WaitKind.DOWNSTREAM, f"{reason}. Nothing to do: it is retried {when}."
    return WaitKind.TURN, "Nothing to do: it is tried next."


def _find_open_breaker(reason: str, status: Mapping[str, Any] | None) -> str | None:
    downstreams = (status or {}).get("downstreams") or {}
    names = [name for name, state in downstreams.items() if state.get("state") != "closed"]
    return next((name for name in names if reason.startswith(f"{name} ")), None)


def stream_wait(status: Mapping[str, Any] | None, now: datetime) -> tuple[WaitKind, str] | None:
    current = fresh_status(status, now)
    if current is None:
        last = "" if status is None or "at" not in status else f" since {status['at']}"
        return (
            WaitKind.PROCESSOR,
            f"The stream's processor reports nothing here{last}: check it where it runs, or start it.",
        )
    why = current.get("why") or current.get("last_failure") or ""
    if current.get("state") == STANDBY:
        return (
            WaitKind.STANDBY,
            f"The processor here is on standby ({why}): check the active one; this one takes over by itself.",
        )
    if current.get("state") == "refused":
        return WaitKind.PROCESSOR, f"The stream is stopped and needs an operator: {why or 'see `payhook status`'}."
    if blocked := current.get("blocked"):
        return WaitKind.BLOCKED, f"The stream is blocked: {blocked}. Fix that; the processor retries by itself."
    if current.get("state") == "off":
        return WaitKind.PROCESSOR, f"The stream is off ({why}): turn it on in the settings, and restart it."
    if current.get("state") == "failed":
        return WaitKind.PROCESSOR, f"The stream failed and restarts by itself ({why}): check the processor's log."
    return None


def list_waits(waits: Iterable[tuple[OpenItem, EventWait]]) -> list[str]:
    groups: dict[tuple[WaitKind, str], list[tuple[OpenItem, EventWait]]] = {}
    for item, event_wait in waits:
        groups.setdefault((event_wait.wait, event_wait.text), []).append((item, event_wait))
    return [
        f"{_list_items([item.row.item_seq for item, _ in held])} {'wait' if len(held) > 1 else 'waits'} for: "
        f"{wait.value}, "
        f"since {to_rfc3339(min(event_wait.since for _, event_wait in held))}. {text}"
        for (wait, text), held in groups.items()
    ]


def _list_items(seqs: list[int]) -> str:
    shown = ", ".join(map(str, seqs[:NAMED_MAX]))
    more = f" and {len(seqs) - NAMED_MAX:,} more" if len(seqs) > NAMED_MAX else ""
    return f"{'items' if len(seqs) > 1 else 'item'} {shown}{more}"
