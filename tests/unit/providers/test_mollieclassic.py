"""Mollie's classic webhooks: an id comes, the payment is fetched, each stage that it shows is an event."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.errors import SettingError, Unparseable
from core.event import POISON_TYPE, Event, Mode
from core.money import MoneyInvalid
from load.samples import mollie as own
from providers import Adapter, ContentVersionUnknown, ProvidersSettings, Request, SignatureInvalid, build_adapters
from providers.mollieclassic import MollieClassicAdapter
from providers.port import Fetched, FetchingAdapter
from providers.settings import MollieSettings
from tests.unit.providers.shapes import NO_MONEY, NOW, refusal

KEY = "live_" + "A1b2C3d4E5" * 3
OLD = "test_" + "Z9y8X7w6V5" * 3
LATER = NOW + timedelta(days=2)
TIME, LATER_TIME = "2026-01-31T12:00:00+00:00", "2026-02-02T12:00:00+00:00"

ClassicRow = tuple[str, str, str | None, str | None, int | None, str | None, str | None]
"""event_key, entity_key, fact_key, movement, amount_minor, currency, occurred_at."""


@pytest.fixture
def adapter() -> MollieClassicAdapter:
    return MollieClassicAdapter(ProvidersSettings())


def payment(**told: Any) -> dict[str, Any]:
    return own.payment("tr_1", **{"amount_minor": 1_000, "currency": "EUR", "created": NOW, **told})


def refund(reference: str = "re_1", status: str = "refunded", amount_minor: int = 400) -> dict[str, Any]:
    return own.refund(reference, of="tr_1", amount_minor=amount_minor, currency="EUR", created=LATER, status=status)


def chargeback(reversed_at: datetime | None = None) -> dict[str, Any]:
    return own.chargeback("chb_1", of="tr_1", amount_minor=700, currency="EUR", created=NOW, reversed_at=reversed_at)


def capture(reference: str = "cpt_1", status: str = "succeeded") -> dict[str, Any]:
    return own.capture(reference, of="tr_1", amount_minor=250, currency="EUR", created=NOW, status=status)


def delivery(fetched: bytes, reference: str = "tr_1", status: int = 200, bearer: int = 0) -> Request:
    return Request(own.classic_delivery(reference), [], fetched=Fetched(status, fetched, bearer))


def events(adapter: Adapter, resource: dict[str, Any], mode: Mode = "live", **embedded: list[Any]) -> list[Event]:
    """The events of a delivery, which is proven first."""
    request = delivery(own.fetched(resource, **embedded), resource["id"])
    assert adapter.verify(request, [KEY], NOW) == 0
    told = adapter.events(request, mode)
    for event in told:
        assert event.content_sha256 == adapter.content_sha256(event.body, event.content_version)
        assert request.fetched is not None
        assert event.body in request.fetched.body
    return told


def row(adapter: Adapter, event: Event) -> ClassicRow:
    fact = adapter.money(event.body, event.event_type)
    assert (event.fact_key, event.fact_sha256) == ((fact.fact_key, fact.sha256) if fact else (None, None))
    moved = (fact.fact_key, fact.movement.value, fact.money.amount_minor, fact.money.currency) if fact else NO_MONEY
    return event.event_key, event.entity_key, *moved, event.occurred_at.isoformat() if event.occurred_at else None


def keys(told: list[Event]) -> list[str]:
    return [event.event_key.removeprefix("mollieclassic:") for event in told]


# --- what is wanted


def test_the_payment_is_asked_for_at_mollie_with_our_own_keys(samples: Path, adapter: MollieClassicAdapter) -> None:
    body = (samples / "mollie/classic_payment.form").read_bytes()
    wanted = adapter.wants(Request(body, []), [KEY, OLD])
    assert wanted is not None
    assert wanted.url == "https://api.mollie.com/v2/payments/tr_d0b0E3EA3v?embed=captures,refunds,chargebacks"
    assert (wanted.bearers, wanted.kept_s) == ((KEY, OLD), 0)


def test_an_order_is_asked_for_with_its_payments(adapter: MollieClassicAdapter) -> None:
    wanted = adapter.wants(Request(b"id=ord_pbjz8x", []), [KEY])
    assert wanted is not None
    assert wanted.url == "https://api.mollie.com/v2/orders/ord_pbjz8x?embed=payments,refunds"


def test_a_simulator_may_stand_for_mollie() -> None:
    settings = ProvidersSettings(mollie=MollieSettings(api_url="http://127.0.0.1:8099"))
    wanted = MollieClassicAdapter(settings).wants(Request(b"id=tr_1", []), [KEY])
    assert wanted is not None
    assert wanted.url.startswith("http://127.0.0.1:8099/v2/payments/tr_1?")


@pytest.mark.parametrize("url", ["", "api.mollie.com", "https://a/b", "https://a?b", "https://u:p@a", "ftp://a"])
def test_the_address_of_mollie_is_scheme_and_host(url: str) -> None:
    with pytest.raises(ValueError, match="api_url"):
        MollieSettings(api_url=url)


def test_it_says_that_it_has_to_fetch(adapters: dict[str, Adapter]) -> None:
    assert isinstance(adapters["mollieclassic"], FetchingAdapter)
    assert not isinstance(adapters["mollie"], FetchingAdapter)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"id=",
        b"id=tr_",
        b"ID=tr_1",
        b"tr_1",
        b"id=tr_1\n",
        b"id=tr_1&id=tr_2",
        b"id=tr_1&x=1",
        b"x=1&id=tr_1",
        b"id=tr_1/../../orders/ord_1",
        b"id=tr_1?embed=x",
        b"id=tr_1%2F..",
        b"id=tr_%31",
        b"id=tr_1#",
        b"id=tr_1+",
        b"id=tr_ 1",
        "id=tr_é".encode(),
        "id=tr_١".encode(),
        b"id=tr_1\x00",
        b"id=\xfftr_1",
        b"id=re_1",
        b"id=sub_1",
        b"id=chb_1",
        b"id=pl_1",
        b"id=stl_1",
        b"id=TR_1",
        b'{"id":"tr_1"}',
        b"id=tr_" + b"x" * 129,
    ],
)
def test_nothing_is_fetched_for_what_is_not_exactly_a_payments_or_an_orders_id(
    adapter: MollieClassicAdapter, body: bytes
) -> None:
    with pytest.raises(SignatureInvalid) as caught:
        adapter.wants(Request(body, []), [KEY])
    assert caught.value.reason == "malformed"
    assert refusal(adapter, Request(body, [], fetched=Fetched(200, own.fetched(payment()), 0)), KEY) == "malformed"


# --- what proves


def test_what_mollie_answers_to_our_key_proves_and_which_key_it_was_is_told(adapter: Adapter) -> None:
    for bearer in (0, 1):
        assert adapter.verify(delivery(own.fetched(payment()), bearer=bearer), [KEY, OLD], NOW) == bearer


@pytest.mark.parametrize("status", [404, 410])
def test_an_id_that_mollie_does_not_know_is_taken_and_tells_nothing(adapter: Adapter, status: int) -> None:
    request = delivery(b'{"status":404,"title":"Not Found"}', status=status)
    assert adapter.verify(request, [KEY], NOW) == 0
    assert adapter.events(request, "live") == []


def test_without_an_answer_nothing_is_proven(adapter: Adapter) -> None:
    assert refusal(adapter, Request(b"id=tr_1", []), KEY) == "missing"
    assert refusal(adapter, delivery(own.fetched(payment()), bearer=1), KEY) == "missing"
    with pytest.raises(Unparseable):
        adapter.events(Request(b"id=tr_1", []), "live")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "malformed"),
        (b"<html>maintenance</html>", "malformed"),
        (b"[]", "malformed"),
        (b'{"resource":"payment","id":"tr_1","id":"tr_1"}', "malformed"),
        (b'{"resource":"payment","id":"tr_2"}', "mismatch"),
        (b'{"resource":"payment","id":"TR_1"}', "mismatch"),
        (b'{"resource":"order","id":"tr_1"}', "mismatch"),
        (b'{"resource":"payment"}', "mismatch"),
        (b'{"id":"tr_1"}', "mismatch"),
    ],
)
def test_an_answer_about_something_else_proves_nothing_so_that_mollie_sends_again(
    adapter: Adapter, answer: bytes, reason: str
) -> None:
    assert refusal(adapter, delivery(answer), KEY) == reason


def test_every_other_id_than_the_fetched_ones_is_refused(adapter: Adapter) -> None:
    """The delivery altered by one bit names another payment, or nothing at all."""
    fetched = Fetched(200, own.fetched(payment() | {"id": "tr_5B8cwPMGnU"}), 0)
    body = b"id=tr_5B8cwPMGnU"
    assert refusal(adapter, Request(body, [], fetched=fetched), KEY) is None
    for at in range(8 * len(body)):
        altered = body[: at // 8] + bytes([body[at // 8] ^ (1 << at % 8)]) + body[at // 8 + 1 :]
        assert refusal(adapter, Request(altered, [], fetched=fetched), KEY) in ("malformed", "mismatch")


@pytest.mark.parametrize(
    "key",
    ["", "live_", "live_short", "dHar4XY7LxsDOtmnkVtjNVWXLSlXsM", "live_" + "é" * 30, KEY + "\n", "Live_" + "a" * 30],
)
def test_a_key_of_another_form_is_a_setting_error_and_never_sent(adapter: MollieClassicAdapter, key: str) -> None:
    with pytest.raises(SettingError):
        adapter.check_secret(key)
    with pytest.raises(SettingError):
        adapter.wants(Request(b"id=tr_1", []), [key])
    with pytest.raises(SettingError):
        adapter.verify(delivery(own.fetched(payment())), [key], NOW)


def test_a_new_secret_is_of_the_form_of_a_key(adapter: Adapter) -> None:
    assert adapter.new_secret() != adapter.new_secret()
    adapter.check_secret(adapter.new_secret())


def test_there_is_nothing_to_sign(adapter: Adapter) -> None:
    signed = adapter.sign(own.classic_delivery("tr_1"), KEY, NOW)
    assert signed.body == b"id=tr_1"
    assert signed.headers == {"Content-Type": "application/x-www-form-urlencoded"}


# --- identities


def test_the_public_sample_is_named_by_what_mollie_answers(samples: Path, adapter: Adapter) -> None:
    """The sample holds an id and nothing else: ``id=tr_d0b0E3EA3v``."""
    body = (samples / "mollie/classic_payment.form").read_bytes()
    answer = own.fetched(payment() | {"id": "tr_d0b0E3EA3v"})
    request = Request(body, [], fetched=Fetched(200, answer, 0))
    assert adapter.verify(request, [KEY], NOW) == 0
    (event,) = adapter.events(request, "live")
    assert row(adapter, event) == (
        "mollieclassic:tr_d0b0E3EA3v:payment.paid",
        "mollieclassic::tr_d0b0E3EA3v",
        "mollieclassic:tr_d0b0E3EA3v:capture",
        "capture",
        1_000,
        "EUR",
        TIME,
    )


def test_a_payment_with_all_that_can_happen_to_it(adapter: Adapter) -> None:
    told = events(
        adapter,
        payment(),
        refunds=[refund("re_1"), refund("re_2", "failed", 300), refund("re_3", "pending"), refund("re_4", "canceled")],
        chargebacks=[chargeback(LATER)],
    )
    entity = "mollieclassic::tr_1"
    assert [row(adapter, event) for event in told] == [
        ("mollieclassic:tr_1:payment.paid", entity, "mollieclassic:tr_1:capture", "capture", 1_000, "EUR", TIME),
        ("mollieclassic:re_1:refund.sent", entity, "mollieclassic:re_1:refund", "refund", 400, "EUR", None),
        ("mollieclassic:re_2:refund.sent", entity, "mollieclassic:re_2:refund", "refund", 300, "EUR", None),
        (
            "mollieclassic:re_2:refund.failed",
            entity,
            "mollieclassic:re_2:refund_failed",
            "refund_failed",
            300,
            "EUR",
            None,
        ),
        ("mollieclassic:re_3:refund.pending", entity, *NO_MONEY, LATER_TIME),
        ("mollieclassic:re_4:refund.canceled", entity, *NO_MONEY, None),
        (
            "mollieclassic:chb_1:chargeback.received",
            entity,
            "mollieclassic:chb_1:dispute_opened",
            "dispute_opened",
            700,
            "EUR",
            TIME,
        ),
        (
            "mollieclassic:chb_1:chargeback.reversed",
            entity,
            "mollieclassic:chb_1:dispute_won",
            "dispute_won",
            700,
            "EUR",
            LATER_TIME,
        ),
    ]


def test_each_event_holds_the_exact_bytes_of_what_it_tells_of(adapter: Adapter) -> None:
    spaced = json.dumps(json.loads(own.fetched(payment(), refunds=[refund("re_1"), refund("re_2")])), indent=3).encode()
    told = adapter.events(delivery(spaced), "live")
    assert [json.loads(event.body)["id"] for event in told] == ["tr_1", "re_1", "re_2"]
    assert told[0].body == spaced
    assert all(event.body in spaced for event in told)


@pytest.mark.parametrize(
    ("status", "occurred"),
    [("open", TIME), ("authorized", TIME), ("canceled", TIME), ("expired", TIME), ("failed", TIME), ("pending", None)],
)
def test_other_states_of_a_payment_are_events_that_move_nothing(
    adapter: Adapter, status: str, occurred: str | None
) -> None:
    (event,) = events(adapter, payment(status=status))
    assert row(adapter, event) == (f"mollieclassic:tr_1:payment.{status}", "mollieclassic::tr_1", *NO_MONEY, occurred)


def test_the_same_stage_again_is_the_same_event_whatever_else_has_changed(adapter: Adapter) -> None:
    (first,) = events(adapter, payment())
    again, *_ = events(
        adapter,
        payment() | {"settlementId": "stl_1", "amountRefunded": own.money(400, "EUR"), "metadata": None},
        refunds=[refund()],
        captures=[],
    )
    assert first.body != again.body
    for name in ("event_key", "content_sha256", "entity_key", "fact_key", "fact_sha256", "occurred_at"):
        assert getattr(first, name) == getattr(again, name), name


def test_another_stage_is_another_event_of_the_same_entity(adapter: Adapter) -> None:
    (opened,), (paid,) = events(adapter, payment(status="open")), events(adapter, payment())
    assert opened.event_key != paid.event_key
    assert opened.entity_key == paid.entity_key


def test_the_same_stage_with_another_amount_is_a_conflict(adapter: Adapter) -> None:
    (first,), (other,) = events(adapter, payment()), events(adapter, payment(amount_minor=1_001))
    assert first.event_key == other.event_key
    assert first.content_sha256 != other.content_sha256


def test_a_refund_told_on_its_way_and_when_it_arrived_and_after_it_failed_is_sent_once(adapter: Adapter) -> None:
    """Whichever of its states we happened to see."""
    seen = [
        next(event for event in events(adapter, payment(), refunds=[refund(status=status)])[1:])
        for status in ("processing", "refunded", "failed")
    ]
    assert len({(event.event_key, event.content_sha256, event.fact_sha256) for event in seen}) == 1
    assert seen[0].event_type == "refund.sent"


def test_a_chargeback_first_seen_when_it_was_reversed_was_received_too(adapter: Adapter) -> None:
    before = events(adapter, payment(), chargebacks=[chargeback()])[1:]
    after = events(adapter, payment(), chargebacks=[chargeback(LATER)])[1:]
    assert keys(before) == ["chb_1:chargeback.received"]
    assert keys(after) == ["chb_1:chargeback.received", "chb_1:chargeback.reversed"]
    assert before[0].content_sha256 == after[0].content_sha256


def test_an_order_tells_of_its_payments_and_refunds_as_the_payments_do(adapter: Adapter) -> None:
    order = own.order("ord_1", amount_minor=1_000, currency="EUR", created=NOW)
    by_order = events(adapter, order, payments=[payment()], refunds=[refund()])
    by_payment = events(adapter, payment(), refunds=[refund()])
    for name in ("event_key", "entity_key", "content_sha256", "fact_key", "fact_sha256"):
        assert [getattr(event, name) for event in by_order] == [getattr(event, name) for event in by_payment]


@pytest.mark.parametrize("mode", ["live", "test"])
@pytest.mark.parametrize("endpoint", ["live", "test"])
def test_the_mode_that_mollie_answers_routes_all_of_a_payments_events(
    adapter: Adapter, mode: Mode, endpoint: Mode
) -> None:
    told = events(adapter, payment(mode=mode), endpoint, refunds=[refund()])
    assert {event.mode for event in told} == {mode}


def test_where_no_mode_is_answered_the_endpoint_decides(adapter: Adapter) -> None:
    without = {name: value for name, value in payment().items() if name != "mode"}
    assert [event.mode for event in events(adapter, without, "test")] == ["test"]


def test_order_may_be_kept_for_all_of_mollie() -> None:
    adapter = build_adapters(ProvidersSettings(entity="merchant"))["mollieclassic"]
    assert {event.entity_key for event in events(adapter, payment(), refunds=[refund()])} == {"mollieclassic:"}


@pytest.mark.parametrize(
    "broken",
    [
        7,
        None,
        {},
        {"resource": "refund", "id": "re_9"},
        {"resource": "refund", "status": "refunded"},
        {"resource": "refund", "id": 9, "status": "refunded"},
        {"resource": "terminal", "id": "term_1", "status": "active"},
        {"resource": "chargeback", "id": "chb_9", "reversedAt": 7},
        {"resource": "refund", "id": "re_9", "status": "refunded", "paymentId": 9},
    ],
)
def test_a_resource_that_cannot_be_read_costs_only_itself(adapter: Adapter, broken: Any) -> None:
    told = events(adapter, payment(), refunds=[refund("re_1"), broken, refund("re_2")])
    assert [event.event_type for event in told] == ["payment.paid", "refund.sent", POISON_TYPE, "refund.sent"]
    assert json.loads(told[2].body) == broken


@pytest.mark.parametrize("changed", [{"_embedded": {"refunds": {}}}, {"_embedded": 7}, {"mode": "beta"}])
def test_an_answer_whose_parts_cannot_be_told_apart_is_kept_whole_for_a_person(
    adapter: Adapter, changed: dict[str, Any]
) -> None:
    answer = json.dumps(payment() | changed).encode()
    (event,) = adapter.events(delivery(answer), "live")
    assert (event.event_type, event.body, event.mode) == (POISON_TYPE, answer, "live")


@pytest.mark.parametrize("embedded", [None, {}, {"refunds": None}, {"refunds": []}])
def test_a_payment_with_nothing_embedded_is_told_alone(adapter: Adapter, embedded: Any) -> None:
    answer = json.dumps(payment() | {"_embedded": embedded}).encode()
    assert keys(adapter.events(delivery(answer), "live")) == ["tr_1:payment.paid"]


def test_the_content_hash_of_other_versions(adapter: Adapter) -> None:
    body = own.fetched(payment())
    assert adapter.content_sha256(body, 0) == hashlib.sha256(body).hexdigest()
    with pytest.raises(ContentVersionUnknown):
        adapter.content_sha256(body, 2)


# --- money


def test_a_payment_books_what_was_captured_of_it_where_that_is_said(adapter: Adapter) -> None:
    (event,) = events(adapter, payment(captured_minor=600))
    assert row(adapter, event)[2:6] == ("mollieclassic:tr_1:capture", "capture", 600, "EUR")


def test_with_manual_capture_the_captures_book_and_the_payment_does_not(adapter: Adapter) -> None:
    told = events(
        adapter,
        payment(manual=True, captured_minor=500),
        captures=[capture("cpt_1"), capture("cpt_2"), capture("cpt_3", "pending"), capture("cpt_4", "failed")],
    )
    assert [(row(adapter, event)[0], row(adapter, event)[2]) for event in told] == [
        ("mollieclassic:tr_1:payment.paid", None),
        ("mollieclassic:cpt_1:capture.succeeded", "mollieclassic:cpt_1:capture"),
        ("mollieclassic:cpt_2:capture.succeeded", "mollieclassic:cpt_2:capture"),
        ("mollieclassic:cpt_3:capture.pending", None),
        ("mollieclassic:cpt_4:capture.failed", None),
    ]


def test_two_partial_refunds_of_a_payment_are_two_facts(adapter: Adapter) -> None:
    told = events(adapter, payment(), refunds=[refund("re_1"), refund("re_2")])[1:]
    assert [event.fact_key for event in told] == ["mollieclassic:re_1:refund", "mollieclassic:re_2:refund"]


@pytest.mark.parametrize("stage", ["refund.failed", "payment.paid", "chargeback.reversed"])
def test_a_stage_that_the_body_does_not_show_books_nothing(adapter: Adapter, stage: str) -> None:
    with pytest.raises(Unparseable, match="stage"):
        adapter.money(json.dumps(refund(status="refunded")).encode(), stage)


@pytest.mark.parametrize(
    "amount",
    [
        None,
        {},
        "4.00",
        {"value": 4, "currency": "EUR"},
        {"value": "4,00", "currency": "EUR"},
        {"value": "4.001", "currency": "EUR"},
        {"value": "4.00", "currency": "EU"},
    ],
)
def test_an_amount_that_cannot_be_trusted_loses_no_event_and_books_nothing(adapter: Adapter, amount: Any) -> None:
    told = events(adapter, payment(), refunds=[refund() | {"amount": amount}])[1]
    assert (told.event_key, told.fact_key) == ("mollieclassic:re_1:refund.sent", None)
    with pytest.raises((MoneyInvalid, Unparseable)):
        adapter.money(told.body, told.event_type)
