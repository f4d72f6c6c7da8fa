"""Card numbers on the way to the journal: a masked event's row is marked, and no error quotes one."""

from __future__ import annotations

import hashlib
import json
import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.event import WITHHELD_SHA256, Dedupe, Event, Mode, to_headers
from core.money import Movement
from core.work import Outcome, WorkItem
from dlq.record import build_record
from ingest.pan import CardMasker, MaskingKey
from ingest.protocol import merge_copies
from ingest.settings import PanSettings
from load.samples.standardwebhooks import standard_event
from processor.decide.arrivals import make_item
from processor.decide.item import BatchItem
from processor.errors.classify import Classifier, Failure
from processor.source.records import KafkaRecord
from processor.workers.deadlines import Deadlines
from processor.workers.worker import Task
from providers import MoneyRule, ProvidersSettings, Request, StandardWebhooksSettings, build_adapters
from tests.unit.processor.fakes import run_groups
from tests.unit.processor.harness import Engine

CARD, HIDDEN = "4111111111111111", "411111******1111"
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


CAPTURED = MoneyRule(event_type="payment.captured", movement=Movement.CAPTURE, id="/data/id")
STANDARD = build_adapters(ProvidersSettings(standardwebhooks=StandardWebhooksSettings(money=(CAPTURED,))))[
    "standardwebhooks"
]
WEBHOOK = [(b"webhook-id", b"e1"), (b"webhook-timestamp", b"1"), (b"webhook-signature", b"v1,x")]
OFF = PanSettings(enabled=False)
KEY = MaskingKey("k" * 32)
MORE = PanSettings(card_fields=(*PanSettings().card_fields, "voucher_no"))
"""Masks what isn't a card number: all but its last four digits."""


def charge(note: object, settings: PanSettings | None = None, **changes: str) -> Event:
    """An event as the receiver publishes it, of a provider whose whole body is content."""
    body = standard_event(
        "payment.captured", payment="p1", account="m1", amount_minor=500, currency="EUR", occurred_at=NOW
    )
    document = json.loads(body)
    document["data"] |= {"note": note, "voucher_no": "1234567890123"} | changes
    [event] = STANDARD.events(Request(json.dumps(document).encode(), WEBHOOK), "live")
    return CardMasker(settings or PanSettings(), KEY).mask_event(event, STANDARD)


def taken(event: Event, mode: Mode = "live") -> BatchItem:
    headers: list[tuple[str, bytes | None]] = [*to_headers(event, NOW, Dedupe.CLAIMED)]
    return make_item(KafkaRecord("payments.events", 0, 7, event.body, headers), 1, NOW, mode)


def test_the_row_of_a_masked_event_is_marked_with_the_hash_of_what_was_sent():
    event = charge(f"card {CARD}")
    item = taken(event)
    assert HIDDEN in item.body.decode()
    assert item.row.body_sha256 == hashlib.sha256(item.body).hexdigest()
    original = item.body.replace(HIDDEN.encode(), CARD.encode())
    assert item.row.original_sha256 == KEY.sha256(original)
    assert hashlib.sha256(original).hexdigest() not in repr(item)
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
    task = Task("test", Quoting, Classifier(), Deadlines(5.0, 0.5), 1, stop_on_dead=True)
    [(_, failure)] = run_groups(task, Quoting(), [[item]])
    assert isinstance(failure, Failure)
    assert failure.message.endswith(" b'411111*****…")
    assert failure.error_code == f"card {HIDDEN}"
    assert f"b'{HIDDEN}'" in failure.stack
    assert failure.log_lines == f"WARNING handler: booking b'{HIDDEN}'"
    assert CARD[:8] not in repr(failure)


SETTINGS = pytest.mark.parametrize(
    ("before", "after"),
    [
        (PanSettings(), MORE),
        (MORE, PanSettings()),
    ],
)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(tmp_path)
    engine.adapters["standardwebhooks"] = STANDARD
    return engine


@SETTINGS
def test_a_redelivery_after_the_settings_were_changed_is_a_duplicate(
    engine: Engine, before: PanSettings, after: PanSettings
) -> None:
    first, again = charge(f"card {CARD}", before), charge(f"card {CARD}", after)
    assert first.body != again.body
    assert engine.decided_together(first) == ["applied"]
    assert engine.decided_together(again) == ["duplicate"]
    assert engine.decided_together(first) == ["duplicate"]
    engine.start()
    assert engine.decided_together(again, first) == ["duplicate", "duplicate"]


@SETTINGS
def test_two_receivers_of_other_settings_give_one_event_in_one_batch(
    engine: Engine, before: PanSettings, after: PanSettings
) -> None:
    first, again = charge(f"card {CARD}", before), charge(f"card {CARD}", after)
    assert engine.decided_together(first, again) == ["applied", "duplicate"]


@SETTINGS
def test_other_content_is_a_conflict_whatever_is_masked(
    engine: Engine, before: PanSettings, after: PanSettings
) -> None:
    first = charge(f"card {CARD}", before)
    other = [charge(f"another card {CARD}", settings) for settings in (before, after)]
    assert engine.decided_together(first) == ["applied"]
    assert engine.decided_together(*other) == ["dead", "duplicate"]
    assert engine.decided_together(*reversed(other)) == ["duplicate", "duplicate"]


@pytest.mark.parametrize(("before", "after"), [(PanSettings(), OFF), (OFF, PanSettings()), (OFF, MORE), (MORE, OFF)])
def test_a_masked_copy_and_one_that_isnt_cant_be_compared_and_a_person_looks(
    engine: Engine, before: PanSettings, after: PanSettings
) -> None:
    """One has a plain hash and the other a keyed one; nothing is booked twice."""
    first, again = charge(f"card {CARD}", before), charge(f"card {CARD}", after)
    assert engine.decided_together(first) == ["applied"]
    assert engine.decided_together(again) == ["dead"]


def test_copies_without_a_code_are_known_by_what_is_left(engine: Engine) -> None:
    first = charge({"cvc": "123"})
    assert (first.original_sha256, first.original_content_sha256) == (WITHHELD_SHA256, None)
    others = charge({"cvc": "123"}), charge({"cvc": "456"}), charge({"cvc": "12"})
    assert engine.decided_together(first, *others) == ["applied", "duplicate", "duplicate", "dead"]


@pytest.mark.parametrize("before", [PanSettings(), MORE, OFF])
def test_a_redelivery_by_another_list_of_left_out_fields_is_a_duplicate_too(
    engine: Engine, before: PanSettings
) -> None:
    """Where the first copy's content can be computed again: the second is masked in the same way."""
    first, again = charge(f"card {CARD}", before), charge(f"card {CARD}", before)
    object.__setattr__(again, "content_version", 0)
    object.__setattr__(again, "content_sha256", hashlib.sha256(again.body).hexdigest())
    object.__setattr__(again, "original_content_sha256", None)
    assert engine.decided_together(first) == ["applied"]
    assert engine.decided_together(again) == ["duplicate"]


@SETTINGS
def test_a_claim_is_of_the_content_as_it_was_sent(before: PanSettings, after: PanSettings) -> None:
    first, again = (merge_copies([charge(f"card {CARD}", settings)])[0] for settings in (before, after))
    assert first.key == again.key
