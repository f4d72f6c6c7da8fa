"""What a subscriber is told of an applied journal row: a small, versioned envelope, never bodies nor card data.

::

    {"version": 1, "id": "msg_…", "type": "charge.captured", "time": "2026-01-31T12:00:00.000000Z",
     "fact": {"seq": 7, "provider": "stripe", "account": "acct_1", "entity": "stripe:acct_1:pi_1",
              "event_key": "stripe:evt_1:charge.captured", "fact_key": "stripe:ch_1:capture",
              "amount_minor": 1250, "currency": "EUR", "postings": [{"account": …, "side": …, …}, …],
              "mode": "live", "tenant": "shop-a", "occurred_at": "…"}}

A field without a value is left out. docs/notifications.md tells receivers what each one means. A field may be added
within a version; what is there keeps its name, type and meaning.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core import strict_json
from core.clock import to_rfc3339
from core.decision import Decision
from core.errors import Unparseable
from core.event import Mode
from core.work import Posting, postings_from_json
from journal.schema import JournalRow
from notify.errors import NoticeUnreadable

ENVELOPE_VERSION = 1
TEST_TYPE = "payhook.test"
"""The type of what `payhook notify test` sends: it has no fact."""

FACT_COLUMNS = (
    *("seq", "event_key", "fact_key", "entity_key", "provider", "account", "event_type", "mode", "tenant"),
    *("occurred_at", "decided_at", "postings"),
)
"""The journal's columns that `fact_json` reads."""

_KEY = re.compile(r"[^:]+:([^:]+):.+")
"""Stream (behind a tenant's name, where the event has one), receiver, the ledger's key."""
_ID = re.compile(r"msg_[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Notice:
    """What the handler reads of an envelope: its id, and whom it is for."""

    id: str
    mode: Mode
    tenant: str | None


def subscriber_of(event_key: str) -> str:
    """The receiver that an event's key names (`processor.source.feed` makes it).

    :raises NoticeUnreadable: the key isn't such a one
    """
    found = _KEY.fullmatch(event_key)
    if found is None:
        raise NoticeUnreadable(event_key, "the key doesn't name a subscriber")
    return found[1]


def message_id(mode: str, ledger_event_key: str) -> str:
    """The ``webhook-id``: of the event alone, so that no retry, replay, restart or rebuild changes it."""
    return "msg_" + hashlib.sha256(f"{mode}:{ledger_event_key}".encode()).hexdigest()[:32]


def fact_json(row: JournalRow) -> bytes:
    """The envelope of an applied row, as UTF-8 JSON in one spelling; the same for every subscriber."""
    assert row.decision is Decision.APPLIED, f"row {row.seq} is {row.decision}: only what was applied goes out"
    assert row.event_key is not None
    assert row.mode is not None
    postings = postings_from_json(row.postings)
    fact = {
        "seq": row.seq,
        "provider": row.provider,
        "account": row.account,
        "entity": row.entity_key,
        "event_key": row.event_key,
        "fact_key": row.fact_key,
        **_amount(postings),
        "postings": [_line(posting) for posting in postings] or None,
        "mode": row.mode,
        "tenant": row.tenant,
        "occurred_at": None if row.occurred_at is None else to_rfc3339(row.occurred_at),
    }
    envelope = {
        "version": ENVELOPE_VERSION,
        "id": message_id(row.mode, row.event_key),
        "type": row.event_type,
        "time": to_rfc3339(row.decided_at),
        "fact": _without_none(fact),
    }
    return _dumps(_without_none(envelope))


def trial_json(message: str, time: str) -> bytes:
    """The envelope of a test event: no fact, so that nobody books it by mistake."""
    return _dumps({"version": ENVELOPE_VERSION, "id": message, "type": TEST_TYPE, "time": time})


def read_notice(event_key: str, body: bytes) -> Notice:
    """Reads what the handler needs of an envelope.

    :raises NoticeUnreadable: it isn't one, or one of another version
    """
    try:
        document = strict_json.loads(body)
    except Unparseable as wrong:
        raise NoticeUnreadable(event_key, str(wrong)) from wrong
    match document:
        case {"version": int() as version} if version != ENVELOPE_VERSION:
            raise NoticeUnreadable(event_key, f"the envelope is of version {version}, not {ENVELOPE_VERSION}")
        case {"version": int(), "id": str() as found, "fact": {"mode": "live" | "test" as mode, **fact}}:
            tenant = fact.get("tenant")
            if _ID.fullmatch(found) and (tenant is None or isinstance(tenant, str)):
                return Notice(found, mode, tenant)
    raise NoticeUnreadable(event_key, "the body isn't an envelope with an id and a fact")


def _amount(postings: Sequence[Posting]) -> dict[str, Any]:
    """What was moved: the debit lines' sum, where all lines are of one currency."""
    currencies = {posting.money.currency for posting in postings}
    if len(currencies) != 1:
        return {}
    debits = (posting.money.amount_minor for posting in postings if posting.side == "debit")
    return {"amount_minor": sum(debits), "currency": currencies.pop()}


def _line(posting: Posting) -> dict[str, Any]:
    return {
        "account": posting.account,
        "side": posting.side,
        "amount_minor": posting.money.amount_minor,
        "currency": posting.money.currency,
    }


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _dumps(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
