"""Card numbers on the way to the journal: a masked event's row is marked, and no error quotes one."""

from __future__ import annotations

import hashlib
import json
import logging
from datetime import UTC, datetime

from core.event import Dedupe, Event, Mode, to_headers
from core.work import Outcome, WorkItem
from dlq.record import build_record
from ingest.pan import CardMasker
from ingest.pan_settings import PanSettings
from load.webhooks import stripe_event
from processor.decide.intake import Item, KafkaRecord, new_item
from processor.judge.classify import Classifier, Failure
from processor.run.worker import Task, run_groups
from providers import ProvidersSettings, Request, build_adapters

CARD, HIDDEN = "4111111111111111", "411111******1111"
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def charge(description: str) -> Event:
    """A Stripe event as the receiver publishes it."""
    adapter = build_adapters(ProvidersSettings())["stripe"]
    body = stripe_event(
        "evt_1", "charge.succeeded", payment="pi_1", account="", amount_minor=500, currency="EUR", created=NOW
    )
    document = json.loads(body)
    document["data"]["object"]["description"] = description
    [event] = adapter.events(Request(json.dumps(document).encode(), []), "live")
    return CardMasker(PanSettings()).masked(event, adapter)


def taken(event: Event, mode: Mode = "live") -> Item:
    headers: list[tuple[str, bytes | None]] = [*to_headers(event, NOW, Dedupe.CLAIMED)]
    return new_item(KafkaRecord("payments.events", 0, 7, event.body, headers), 1, NOW, mode)


def test_the_row_of_a_masked_event_is_marked_with_the_hash_of_what_was_sent():
    event = charge(f"card {CARD}")
    item = taken(event)
    assert HIDDEN in item.body.decode()
    assert item.row.body_sha256 == hashlib.sha256(item.body).hexdigest()
    original = item.body.replace(HIDDEN.encode(), CARD.encode())
    assert item.row.original_sha256 == hashlib.sha256(original).hexdigest() != item.row.body_sha256
    assert CARD not in repr(item)
    assert taken(event, mode="test").row.original_sha256 == item.row.original_sha256


def test_the_row_of_any_other_event_isnt():
    assert taken(charge("an order")).row.original_sha256 is None


def test_a_dead_letter_is_marked_after_retries_too():
    item = taken(charge(f"card {CARD}"))
    item.row.headers = None
    headers = dict(build_record(item.row, item.body, "ledger").headers)
    assert headers["original_sha256"].decode() == item.row.original_sha256
    assert CARD.encode() not in b"".join(headers.values())


class Quoting:
    """A handler that quotes what it was given, in its error, its code and its log."""

    version = "test-1"

    def __call__(self, item: WorkItem) -> Outcome:
        logging.getLogger("handler").warning("booking %s", item.body)
        error = ValueError("x" * 1_985 + f" {item.body!r}")
        error.code = f"card {CARD}"  # type: ignore[attr-defined]
        raise error


def test_what_a_failure_leaves_in_the_journal_quotes_no_card_number():
    """The text is cut within the number: hiding comes first."""
    item = WorkItem(1, "key", "entity", "stripe", "acct", "charge", CARD.encode(), None, 0)
    task = Task("test", Quoting, Classifier(), 5.0, 1, 1, stop_on_dead=True)
    [(_, failure)] = run_groups(task, Quoting(), [[item]])
    assert isinstance(failure, Failure)
    assert failure.message.endswith(" b'411111*****…")
    assert failure.error_code == f"card {HIDDEN}"
    assert f"b'{HIDDEN}'" in failure.stack
    assert failure.log_lines == f"WARNING handler: booking b'{HIDDEN}'"
    assert CARD[:8] not in repr(failure)
