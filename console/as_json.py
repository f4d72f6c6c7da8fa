"""The one JSON of what is shown: the API and ``payhook … --json`` answer with the same.

A dataclass is an object of its fields; fields are added, never renamed or taken away. Times are RFC 3339 in UTC,
amounts in minor units with their currency's decimals, durations in seconds.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Any, Self

from core.clock import to_rfc3339
from core.money import decimals_of
from core.work import Posting
from dead_letters.story import ItemStory
from journal.histories import FIRST
from journal.schema import JournalRow
from ledger.queries.search import Hit
from ledger.queries.story import Delivery, EventStory
from ledger.redactions import StoredBodyStatus
from ledger.reversals import ReadProposal


def to_json_text(value: object) -> str:
    return json.dumps(to_json_value(value), indent=1)


def to_json_value(value: Any) -> Any:
    """Turns a value into what JSON holds: objects, lists, texts and numbers."""
    if isinstance(value, ItemStory):
        return item_story(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json_value(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): to_json_value(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json_value(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return to_rfc3339(value)
    if isinstance(value, date):
        return value.isoformat()
    return value.total_seconds() if isinstance(value, timedelta) else value


def item_story(story: ItemStory) -> dict[str, Any]:
    """Its fields, and for the payload: ``body_base64``, the exact bytes with card numbers masked (null: ``body_note``
    says why), ``body_pretty``, the same as indented JSON, and ``body_source``, who held them.
    """
    names = [field.name for field in dataclasses.fields(story) if field.name != "payload"]
    payload = story.payload
    return {name: to_json_value(getattr(story, name)) for name in names} | {
        "body_base64": None if payload.raw is None else base64.b64encode(payload.raw).decode("ascii"),
        "body_pretty": payload.pretty,
        "body_source": payload.source,
        "body_note": payload.note,
    }


def event_stories(
    stories: Mapping[str, EventStory], bodies: Mapping[str, Sequence[StoredBodyStatus]]
) -> dict[str, dict[str, Any]]:
    """Returns by key: rows, postings, deliveries and what became of the bodies. A key that is unknown has none."""
    return {key: event_story(story, bodies[key]) for key, story in stories.items()}


def hit_to_json(match: Hit) -> dict[str, Any]:
    names = ("seq", "item_seq", "decided_at", "received_at", "occurred_at", "decision", "attempt", "provider")
    keys = ("event_type", "event_key", "fact_key", "entity_key", "reason", "error_class", "error_message")
    return {name: getattr(match.row, name) for name in (*names, *keys)} | {
        "stream": match.stream,
        "merchant": match.merchant,
        "amount_minor": match.amount_minor,
        "currency": match.currency,
        "decimals": None if match.currency is None else decimals_of(match.currency),
    }


@dataclasses.dataclass(frozen=True, slots=True)
class BookingLine:
    """Shows one line of a booking."""

    account: str
    side: str
    amount_minor: int
    currency: str
    decimals: int

    @classmethod
    def from_posting(cls, posting: Posting) -> Self:
        money = posting.money
        return cls(posting.account, posting.side, money.amount_minor, money.currency, decimals_of(money.currency))


@dataclasses.dataclass(frozen=True, slots=True)
class BookingProposal:
    """Shows what one person proposed to book. ``action``: propose_reversal or propose_entry; ``state``: waits,
    approved, or older than a restore. ``items``: those whose bookings are to be taken back, as the shard of ``stream``
    numbers them. ``entity``, ``evidence_sha256`` and ``lines`` are an entry's.
    """

    command_id: str
    action: str
    actor: str
    reason: str
    at: datetime
    state: str
    items: tuple[int, ...]
    entity: str | None
    evidence_sha256: str | None
    lines: tuple[BookingLine, ...]
    stream: str

    @classmethod
    def from_proposed(cls, proposed: ReadProposal) -> Self:
        command, entry = proposed.command, proposed.command.entry
        return cls(
            command_id=command.command_id,
            action=command.action,
            actor=command.actor,
            reason=command.reason,
            at=command.at,
            state=proposed.state,
            items=tuple(target.item_seq for target in command.targets),
            entity=None if entry is None else entry.entity_key,
            evidence_sha256=None if entry is None else entry.evidence_sha256,
            lines=() if entry is None else tuple(map(BookingLine.from_posting, entry.postings)),
            stream=command.stream,
        )


def event_story(story: EventStory, bodies: Sequence[StoredBodyStatus]) -> dict[str, Any]:
    return {
        "rows": [_row_to_json(row, story) for row in story.rows],
        "postings": [line | {"decimals": decimals_of(line["currency"])} for line in story.postings],
        "deliveries": [_delivery_to_json(delivery) for delivery in story.deliveries],
        "receipts": story.receipts,
        "reflected_seq": story.reflected,
        "stream": story.stream,
        "others": story.others,
        "cut": story.cut,
        "bodies": bodies,
    }


def _row_to_json(row: JournalRow, story: EventStory) -> dict[str, Any]:
    commit, cause = story.commits.get(row.batch_seq), story.causes.get(row.cause_seq or 0)
    return {**to_json_value(row), "commit": commit, "cause": cause}


def _delivery_to_json(delivery: Delivery) -> dict[str, Any]:
    first = delivery.first
    names = ("item_seq", "topic", "partition", "offset", "offset_until", "received_at", "dedupe", "body_sha256")
    return {name: getattr(first, name) for name in names} | {
        "history": first.history or FIRST,
        "source": delivery.source,
        "replays": delivery.replay_count,
        "body_kept": delivery.body_kept,
        "seqs": [row.seq for row in delivery.rows],
    }
