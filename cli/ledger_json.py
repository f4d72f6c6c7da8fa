"""What ``payhook ledger … --json`` prints: amounts in minor units with their decimals, times RFC 3339 in UTC."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from core.clock import to_rfc3339
from core.money import decimals_of
from journal.histories import FIRST
from journal.schema import JournalRow
from ledger.queries import Balance, Delivery, EntityStory, EventStory, Hit, RunningLine
from ledger.redactions import BodyStatus


def of_balances(found: Sequence[Balance]) -> str:
    """A list, one entry an account and currency."""
    return _dumped(
        [dataclasses.asdict(one) | {"balance_minor": one.balance_minor, "decimals": one.decimals} for one in found]
    )


def of_stories(stories: Mapping[str, EventStory], bodies: Mapping[str, Sequence[BodyStatus]]) -> str:
    """By key: rows, postings, deliveries and what became of the bodies; a key that is unknown has none."""
    told = {key: [dataclasses.asdict(body) for body in bodies[key]] for key in stories}
    return _dumped({key: {**_story(story), "bodies": told[key]} for key, story in stories.items()})


def of_entity(story: EntityStory) -> str:
    """An entity's events with their rows and lines."""
    events = [
        {"rows": [dataclasses.asdict(row) for row in event.rows], "lines": [_line(line) for line in event.lines]}
        for event in story.events
    ]
    return _dumped({"entity_key": story.entity_key, "total": story.total, "events": events})


def of_hits(hits: Sequence[Hit]) -> str:
    """A list, the newest decision first."""
    return _dumped([_hit(hit) for hit in hits])


def _hit(hit: Hit) -> dict[str, Any]:
    names = ("seq", "item_seq", "decided_at", "received_at", "occurred_at", "decision", "attempt", "provider")
    keys = ("event_type", "event_key", "fact_key", "entity_key", "reason", "error_class", "error_message")
    decimals = decimals_of(hit.currency) if hit.currency is not None else None
    booked = {
        "merchant": hit.merchant,
        "amount_minor": hit.amount_minor,
        "currency": hit.currency,
        "decimals": decimals,
    }
    return {name: getattr(hit.row, name) for name in (*names, *keys)} | booked


def _story(story: EventStory) -> dict[str, Any]:
    return {
        "rows": [_row(row, story) for row in story.rows],
        "postings": [line | {"decimals": decimals_of(line["currency"])} for line in story.postings],
        "deliveries": [_delivery(delivery) for delivery in story.deliveries],
        "receipts": None if story.receipts is None else [dataclasses.asdict(one) for one in story.receipts],
        "reflected_seq": story.reflected,
        "cut": story.cut,
    }


def _row(row: JournalRow, story: EventStory) -> dict[str, Any]:
    """A journal row with its commit (null: cleaned up from the log) and its cause."""
    commit, cause = story.commits.get(row.batch_seq), story.causes.get(row.cause_seq or 0)
    return dataclasses.asdict(row) | {
        "commit": dataclasses.asdict(commit) if commit is not None else None,
        "cause": dataclasses.asdict(cause) if cause is not None else None,
    }


def _delivery(delivery: Delivery) -> dict[str, Any]:
    first = delivery.first
    return {
        "item_seq": first.item_seq,
        "topic": first.topic,
        "partition": first.partition,
        "offset": first.offset,
        "offset_until": first.offset_until,
        "history": first.history or FIRST,
        "received_at": first.received_at,
        "source": delivery.source,
        "dedupe": first.dedupe,
        "replays": delivery.replays,
        "body_sha256": first.body_sha256,
        "body_kept": delivery.body_kept,
        "seqs": [row.seq for row in delivery.rows],
    }


def _line(line: RunningLine) -> dict[str, Any]:
    return dataclasses.asdict(line) | {"decimals": line.decimals}


def _dumped(tree: object) -> str:
    return json.dumps(tree, indent=1, default=_plain)


def _plain(value: object) -> str:
    return to_rfc3339(value) if isinstance(value, datetime) else str(value)
