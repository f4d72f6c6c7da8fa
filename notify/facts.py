"""Makes a subscriber's message of a journal row that changed the books: a small, versioned envelope, never bodies nor
card data.

::

    {"version": 1, "id": "msg_…", "type": "charge.captured", "time": "2026-01-31T12:00:00.000000Z",
     "fact": {"seq": 7, "provider": "stripe", "account": "acct_1", "entity": "stripe:acct_1:pi_1",
              "event_key": "stripe:evt_1:charge.captured", "fact_key": "stripe:ch_1:capture",
              "amount_minor": 1250, "currency": "EUR", "postings": [{"account": …, "side": …, …}, …],
              "mode": "live", "tenant": "shop-a", "occurred_at": "…"}}

A row that reverses what an event had booked has `reversal` in place of `fact`, so that no receiver books it as another
payment. It holds the same fields, the reversing postings, the id of the event's own notification and the event's type::

    {"version": 1, "id": "msg_…", "type": "payhook.reversed", "time": "…",
     "reversal": {"of": "msg_…", "event_type": "charge.captured", "seq": 9, …}}

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
from core.event import REVERSED_TYPE, Mode
from core.work import Posting, postings_from_json
from journal.schema import JournalRow
from notify.errors import NoticeUnreadable
from notify.settings import NotifySettings
from notify.subscribers import SubscribersFile, subscribers_file

ENVELOPE_VERSION = 1
TEST_TYPE = "payhook.test"
"""The type of what `payhook notify test` sends: it has no fact."""
NO_ENVELOPE = "the body isn't an envelope with an id and a fact or a reversal"

FACT_COLUMNS = (
    *("seq", "event_key", "fact_key", "entity_key", "provider", "account", "event_type", "mode", "tenant"),
    *("occurred_at", "decided_at", "decision", "postings"),
)
"""The journal's columns that `notice_json` reads."""

_KEY = re.compile(r"[^:]+:([^:]+):.+")
"""Stream (behind a tenant's name, where the event has one), receiver, the ledger's key."""
_ID = re.compile(r"msg_[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class EnvelopeHead:
    """The head of an envelope, which the handler reads: its id, and its subscriber's mode and tenant.

    ``reverses``: the type of the event whose booking was taken back; None where it is no reversal.
    """

    id: str
    mode: Mode
    tenant: str | None
    reverses: str | None = None


def subscriber_of(event_key: str) -> str:
    match = _KEY.fullmatch(event_key)
    if match is None:
        raise NoticeUnreadable(event_key, "the key doesn't name a subscriber")
    return match[1]


def message_id(mode: str, ledger_event_key: str) -> str:
    """Makes the ``webhook-id``: of the event alone, so that no retry, replay, restart or rebuild changes it."""
    return "msg_" + hashlib.sha256(f"{mode}:{ledger_event_key}".encode()).hexdigest()[:32]


def reversal_id(mode: str, ledger_event_key: str) -> str:
    """Makes the ``webhook-id`` of a reversal: an event is reversed once, and no mode is named so, so it is no event's
    id."""
    return message_id(f"reversal:{mode}", ledger_event_key)


def notice_json(row: JournalRow) -> bytes:
    """Writes the envelope of a row that applied an event or reversed one, as UTF-8 JSON in one spelling; the same for
    every subscriber."""
    assert row.event_key is not None
    assert row.mode is not None
    booking, event_id = _describe_booking(row), message_id(row.mode, row.event_key)
    if row.decision is Decision.REVERSED:
        reversal = _without_none({"of": event_id, "event_type": row.event_type, **booking})
        return _write_envelope(row, reversal_id(row.mode, row.event_key), REVERSED_TYPE, {"reversal": reversal})
    assert row.decision is Decision.APPLIED, f"row {row.seq} is {row.decision}: it didn't change the books"
    return _write_envelope(row, event_id, row.event_type, {"fact": booking})


def _describe_booking(row: JournalRow) -> dict[str, Any]:
    booking = {
        "seq": row.seq,
        "provider": row.provider,
        "account": row.account,
        "entity": row.entity_key,
        "event_key": row.event_key,
        "fact_key": row.fact_key,
        **_sum_amount(postings_from_json(row.postings)),
        "postings": json.loads(row.postings or "[]") or None,
        "mode": row.mode,
        "tenant": row.tenant,
        "occurred_at": None if row.occurred_at is None else to_rfc3339(row.occurred_at),
    }
    return _without_none(booking)


def _write_envelope(row: JournalRow, message: str, event_type: str | None, content: dict[str, Any]) -> bytes:
    time = to_rfc3339(row.decided_at)
    head = {"version": ENVELOPE_VERSION, "id": message, "type": event_type, "time": time}
    return _dump_json(_without_none({**head, **content}))


def trial_json(message: str, time: str) -> bytes:
    """Writes the envelope of a test event: no fact, so that it isn't booked by mistake."""
    return _dump_json({"version": ENVELOPE_VERSION, "id": message, "type": TEST_TYPE, "time": time})


def read_notice(event_key: str, body: bytes) -> EnvelopeHead:
    try:
        document = strict_json.load_json(body)
    except Unparseable as wrong:
        raise NoticeUnreadable(event_key, str(wrong)) from wrong
    match document:
        case {"version": int() as version} if version != ENVELOPE_VERSION:
            raise NoticeUnreadable(event_key, f"the envelope is of version {version}, not {ENVELOPE_VERSION}")
        case {"version": int(), "id": str() as found, "fact": {"mode": "live" | "test" as mode, **fact}}:
            return _make_notice(event_key, found, mode, fact.get("tenant"))
        case {"version": int(), "id": str() as found, "reversal": {"mode": "live" | "test" as mode, **reversal}}:
            event_type = reversal.get("event_type", "")
            if isinstance(event_type, str):
                return _make_notice(event_key, found, mode, reversal.get("tenant"), event_type)
    raise NoticeUnreadable(event_key, NO_ENVELOPE)


def _make_notice(
    event_key: str, notice_id: str, mode: Mode, tenant: object, reverses: str | None = None
) -> EnvelopeHead:
    if not _ID.fullmatch(notice_id) or not (tenant is None or isinstance(tenant, str)):
        raise NoticeUnreadable(event_key, NO_ENVELOPE)
    return EnvelopeHead(notice_id, mode, tenant, reverses)


def _sum_amount(postings: Sequence[Posting]) -> dict[str, Any]:
    currencies = {posting.money.currency for posting in postings}
    if len(currencies) != 1:
        return {}
    debits = (posting.money.amount_minor for posting in postings if posting.side == "debit")
    return {"amount_minor": sum(debits), "currency": currencies.pop()}


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _dump_json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


class FactFeed:
    """Sends every subscriber of a mode every row that changed the books, as an envelope; its handler passes over what
    it doesn't want.

    So a subscriber that is disabled, or wants more types from now on, has no gap that isn't in the stream's journal.
    """

    columns = FACT_COLUMNS

    def __init__(self, subscribers: SubscribersFile) -> None:
        self._subscribers = subscribers

    def receivers(self, mode: Mode) -> tuple[str, ...]:
        """Returns the names of a mode's subscribers, disabled ones too; none while there is no file.

        :raises SubscribersUnreadable: the file is there and wrong
        """
        if not self._subscribers.path.exists():
            return ()
        return tuple(name for name, subscriber in self._subscribers.read_all().items() if subscriber.mode == mode)

    def body(self, row: JournalRow) -> bytes:
        return notice_json(row)


def build(settings: NotifySettings) -> FactFeed:
    return FactFeed(subscribers_file(settings))
