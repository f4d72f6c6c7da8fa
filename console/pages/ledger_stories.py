"""``/ledger/events/KEY`` and ``/ledger/entities/KEY``: an event's story as a timeline, a payment's events in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from console.pages.place import Place
from console.rendering import segment
from core.layout import StreamLayout
from journal.schema import JournalRow
from ledger.body_fates import BodyFate, fates
from ledger.queries import Delivery, EventStory, entity_story, event_story

ENTITY_EVENTS_MAX = 100
ROWS_SHOWN_MAX = 100
"""Of one event on one page; the journal may hold more."""
RECEIPTS_SHOWN_MAX = 50


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is known, under its name; ``href`` leads to more of it, ``is_key`` is for machines to read."""

    name: str
    text: str | None
    href: str | None = None
    is_key: bool = False
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """One point of the timeline. ``lines`` are what it booked."""

    at: datetime | None
    title: str
    decision: str | None
    facts: Sequence[Fact]
    lines: Sequence[dict[str, Any]] = ()


def add_stories(router: APIRouter, place: Place) -> None:
    @router.get("/ledger/events/{key:path}")
    async def event(request: Request, key: str) -> Response:
        story, bodies = await place.asking.ask(_story, place.ledger(request), key)
        if not story.rows:
            return place.show(request, "ledger/unknown.html", 404, what="event or fact", key=key)
        shown = 0
        deliveries = []
        for delivery in story.deliveries:
            if shown < ROWS_SHOWN_MAX:
                deliveries.append(timeline(delivery, story))
                shown += len(delivery.rows)
        receipts = (story.receipts or [])[:RECEIPTS_SHOWN_MAX]
        context = {"key": key, "story": story, "deliveries": deliveries, "bodies": bodies, "receipts": receipts}
        return place.show(request, "ledger/event.html", **context)

    @router.get("/ledger/entities/{key:path}")
    async def entity(request: Request, key: str) -> Response:
        journal = str(place.ledger(request).journal)
        story = await place.asking.ask(entity_story, journal, key, ENTITY_EVENTS_MAX)
        if not story.total:
            return place.show(request, "ledger/unknown.html", 404, what="entity", key=key)
        return place.show(request, "ledger/entity.html", key=key, story=story)


def _story(ledger: StreamLayout, key: str) -> tuple[EventStory, list[BodyFate]]:
    receipts = str(ledger.derived("receipts"))
    story = event_story(str(ledger.journal), str(ledger.postings), key, str(ledger.bodies), receipts)
    return story, fates(ledger.bodies, ledger.derived("redactions"), story.rows)


def timeline(delivery: Delivery, story: EventStory) -> list[Moment]:
    """What one Kafka offset brought, and what was decided of it, in the order in which it happened."""
    rows = delivery.rows[:ROWS_SHOWN_MAX]
    return [_received(delivery), *(_decided(row, story) for row in rows)]


def _received(delivery: Delivery) -> Moment:
    first = delivery.first
    traffic = ", ".join(part for part in (first.mode, first.tenant, first.zone) if part)
    facts = [
        Fact("by", delivery.source or first.provider),
        Fact("traffic", traffic or None),
        Fact("claim in Redis", first.dedupe),
        Fact("in Kafka", delivery.location),
        Fact("event", first.event_key, _event(first.event_key), is_key=True),
        Fact("type", first.event_type),
        Fact("occurred", None, at=first.occurred_at),
        Fact("fact", first.fact_key, _event(first.fact_key), is_key=True),
        Fact("entity", first.entity_key, _entity(first.entity_key), is_key=True),
        Fact("account", first.account),
        Fact("body", _body(delivery), is_key=True),
        Fact("content", first.content_sha256, is_key=True),
    ]
    return Moment(first.received_at, "received", None, _known(facts))


def _decided(row: JournalRow, story: EventStory) -> Moment:
    facts = [
        Fact("reason", row.reason),
        _cause(row, story),
        Fact("by", row.actor),
        Fact("attempt", str(row.attempt) if row.attempt else None),
        Fact("due", None, at=row.due_at),
        Fact("error", _error(row)),
        Fact("order", "later than its place in Kafka" if row.out_of_order else None),
        Fact("handler", row.handler_version),
        Fact("commit", _commit(row, story)),
        Fact("row hash", row.row_hash, is_key=True),
    ]
    lines = [line for line in story.postings if line["seq"] == row.seq]
    return Moment(row.decided_at, f"row {row.seq}", row.decision.value, _known(facts), lines)


def _known(facts: Sequence[Fact]) -> list[Fact]:
    return [fact for fact in facts if fact.text is not None or fact.at is not None]


def _event(key: str | None) -> str | None:
    return None if key is None else f"/ledger/events/{segment(key)}"


def _entity(key: str | None) -> str | None:
    return None if key is None else f"/ledger/entities/{segment(key)}"


def _body(delivery: Delivery) -> str | None:
    kept = {None: "", True: " (kept)", False: " (not kept any more)"}[delivery.body_kept]
    return None if delivery.first.body_sha256 is None else f"{delivery.first.body_sha256}{kept}"


def _cause(row: JournalRow, story: EventStory) -> Fact:
    if row.cause_seq is None:
        return Fact("cause", None)
    cause = story.causes.get(row.cause_seq)
    if cause is None:
        return Fact("cause", f"row {row.cause_seq}, which the journal doesn't hold: run payhook verify")
    whose = f" by {cause.actor}" if cause.actor else ""
    named = f" of {cause.event_key}" if cause.event_key and cause.event_key != row.event_key else ""
    return Fact("cause", f"row {cause.seq}: {cause.decision}{named}{whose}", _event(f"seq:{cause.seq}"))


def _error(row: JournalRow) -> str | None:
    kind = f" ({row.error_kind.value})" if row.error_kind is not None else ""
    said = ": ".join(text for text in (row.error_class, row.error_code, row.error_message) if text)
    return f"{said}{kind}" if said else None


def _commit(row: JournalRow, story: EventStory) -> str:
    commit = story.commits.get(row.batch_seq)
    whole = f"batch {row.batch_seq}, epoch {row.epoch}"
    return f"version {commit.version} ({whole})" if commit else f"{whole}; its version isn't known any more"
