"""Mollie's classic webhooks: each stage that a fetched payment shows is an event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.event import POISON_TYPE, Mode
from load.samples import mollie as own
from providers import Adapter, ProvidersSettings, Request, build_adapters
from providers.port import Fetched
from tests.unit.providers.mollieclassic_answers import (
    KEY,
    LATER,
    LATER_TIME,
    TIME,
    chargeback,
    delivery,
    events,
    keys,
    payment,
    refund,
    row,
)
from tests.unit.providers.shapes import NO_MONEY, NOW


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
    reported = events(
        adapter,
        payment(),
        refunds=[refund("re_1"), refund("re_2", "failed", 300), refund("re_3", "pending"), refund("re_4", "canceled")],
        chargebacks=[chargeback(LATER)],
    )
    entity = "mollieclassic::tr_1"
    assert [row(adapter, event) for event in reported] == [
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
    reported = adapter.events(delivery(spaced), "live")
    assert [json.loads(event.body)["id"] for event in reported] == ["tr_1", "re_1", "re_2"]
    assert reported[0].body == spaced
    assert all(event.body in spaced for event in reported)


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


def test_a_refund_reported_on_its_way_and_when_it_arrived_and_after_it_failed_is_sent_once(adapter: Adapter) -> None:
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
    reported = events(adapter, payment(mode=mode), endpoint, refunds=[refund()])
    assert {event.mode for event in reported} == {mode}


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
    reported = events(adapter, payment(), refunds=[refund("re_1"), broken, refund("re_2")])
    assert [event.event_type for event in reported] == ["payment.paid", "refund.sent", POISON_TYPE, "refund.sent"]
    assert json.loads(reported[2].body) == broken


@pytest.mark.parametrize("changed", [{"_embedded": {"refunds": {}}}, {"_embedded": 7}, {"mode": "beta"}])
def test_an_answer_whose_parts_cannot_be_reported_apart_is_kept_whole_for_a_person(
    adapter: Adapter, changed: dict[str, Any]
) -> None:
    answer = json.dumps(payment() | changed).encode()
    (event,) = adapter.events(delivery(answer), "live")
    assert (event.event_type, event.body, event.mode) == (POISON_TYPE, answer, "live")


@pytest.mark.parametrize("embedded", [None, {}, {"refunds": None}, {"refunds": []}])
def test_a_payment_with_nothing_embedded_is_reported_alone(adapter: Adapter, embedded: Any) -> None:
    answer = json.dumps(payment() | {"_embedded": embedded}).encode()
    assert keys(adapter.events(delivery(answer), "live")) == ["tr_1:payment.paid"]
