"""Square: what its events are called, and what money they moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import Unparseable
from core.money import MoneyInvalid
from load.samples import square as samples_of
from providers import Adapter, ProvidersSettings, build_adapters
from tests.unit.providers.shapes import NO_MONEY, NOW, Row, changed, money, moved, only, row

IDENTITIES: dict[str, Row] = {
    "CatalogVersionUpdatedEvent": (
        "square:aeaaa5f6-c4fd-4e93-b688-71b50706266f:catalog.version.updated",
        "square:6SSW7HV8K2ST5:732b6677-1acb-4d81-b09c-5a3a49399d8f",
        *NO_MONEY,
        "2019-10-29T17:26:16.808603+00:00",
    ),
    "DisputeCreatedEvent": (
        "square:ce8464b5-6628-4ac2-9264-e06c34df3e82:dispute.created",
        "square:0HPGX5JYE6EE1:fbmsaEOpoARDKxiSGH1fqPuqoqFZY",
        "square:ORSEVtZAJxb37RA1EiGw:dispute_opened",
        "dispute_opened",
        8_801,
        "USD",
        "2020-02-19T21:24:53.258000+00:00",
    ),
    "GiftCardActivityCreatedEvent": (
        "square:875f2038-6015-492e-9f29-d040b3809e49:gift_card.activity.created",
        "square:C337NFWQT2A6W:gcact_c8f8cbf1f24b448d8ecf39ed03f97864",
        *NO_MONEY,
        "2020-12-17T03:41:35.157000+00:00",
    ),
    "InvoiceDeletedEvent": (
        "square:742ef00c-446b-4fca-b3d5-f177d816ee54:invoice.deleted",
        "square:031FEV2Q6VMPK:inv%3A0-ChCHu2mZEabLeeHahQnXDjZQECY",
        *NO_MONEY,
        "2020-06-18T18:23:11+00:00",
    ),
    "InvoicePaymentMadeEvent": (
        "square:891e3589-462f-4215-9b61-f6df2d4432b7:invoice.payment_made",
        "square:031FEV2Q6VMPK:inv%3A0-ChCHu2mZEabLeeHahQnXDjZQECY",
        *NO_MONEY,
        "2020-06-18T18:23:11+00:00",
    ),
    "OrderCreatedEvent": (
        "square:116038d3-2948-439f-8679-fc86dbf80f69:order.created",
        "square:5S9MXCS9Y99KK:eA3vssLHKJrv9H0IdJCM3gNqfdcZY",
        *NO_MONEY,
        "2020-04-16T23:14:26.129000+00:00",
    ),
    "PaymentCreatedEvent": (  # approved, not completed; its data.id isn't its payment's
        "square:13b867cf-db3d-4b1c-90b6-2f32a9d78124:payment.created",
        "square:6SSW7HV8K2ST5:hYy9pRFVxpDsO1FB05SunFWUe9JZY",
        *NO_MONEY,
        "2020-02-06T21:27:30.792000+00:00",
    ),
    "PayoutSentEvent": (  # its currency is called currency_code
        "square:7116e4a4-7622-42b0-b16c-c164d7ec7302:payout.sent",
        "square:MLEWJTMNJN37Z:po_070431e4-e351-11eb-a8bb-02420a140009",
        "square:po_070431e4-e351-11eb-a8bb-02420a140009:payout_paid",
        "payout_paid",
        457,
        "EUR",
        "1970-01-01T00:20:28.481000+00:00",
    ),
    "RefundCreatedEvent": (  # pending
        "square:bc316346-6691-4243-88ed-6d651a0d0c47:refund.created",
        "square:6SSW7HV8K2ST5:KkAkhdMsgzn59SM8A89WgKwekxLZY",
        *NO_MONEY,
        "2020-02-06T21:27:41.852000+00:00",
    ),
    "TerminalCheckoutCreatedEvent": (
        "square:7229a692-def5-4a7e-b4f3-80638aa2f24d:terminal.checkout.created",
        "square:7NZR58EPNGNPC:dhgENdnFOPXqO",
        *NO_MONEY,
        "2020-04-10T14:43:55.262000+00:00",
    ),
    "vector_test_notification": (
        "square:ac3ac95b-f97d-458c-a6e6-18981597e05f:webhooks.test_notification",
        "square:MLEFBHHSJGVHD:bc368e64-01aa-407e-b46e-3231809b1129",
        *NO_MONEY,
        "2022-07-13T20:30:59.037339+00:00",
    ),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_each_public_sample_is_named_and_booked_as_read_by_hand(samples: Path, adapter: Adapter, name: str) -> None:
    assert row(adapter, (samples / f"square/{name}.json").read_bytes()) == IDENTITIES[name]


def payment(event_type: str = "payment.updated", amount: int = 1_250, currency: str = "USD", **more: Any) -> bytes:
    return samples_of.payment_event(
        event_type,
        event_id="e-1",
        payment="PAYMENT1",
        account="M1",
        amount_minor=amount,
        currency=currency,
        created=NOW,
        **more,
    )


def refund(event_type: str = "refund.updated", refund: str = "REFUND1", status: str = "COMPLETED") -> bytes:
    return samples_of.refund_event(
        event_type,
        event_id=f"e-{refund}",
        refund=refund,
        payment="PAYMENT1",
        account="M1",
        amount_minor=400,
        currency="USD",
        created=NOW,
        status=status,
    )


def dispute(event_type: str, state: str) -> bytes:
    return samples_of.dispute_event(
        event_type,
        event_id="e-1",
        dispute="DISPUTE1",
        payment="PAYMENT1",
        account="M1",
        amount_minor=1_250,
        currency="USD",
        created=NOW,
        state=state,
    )


def payout(event_type: str, amount: int = 9_000) -> bytes:
    return samples_of.payout_event(
        event_type, event_id="e-1", payout="po_1", account="M1", amount_minor=amount, currency="USD", created=NOW
    )


@pytest.mark.parametrize("body", [payment(), refund(), dispute("dispute.created", "EVIDENCE_REQUIRED")])
def test_order_is_kept_for_the_payment(adapter: Adapter, body: bytes) -> None:
    assert only(adapter, body).entity_key == "square:M1:PAYMENT1"
    assert only(build_adapters(ProvidersSettings(entity="merchant"))["square"], body).entity_key == "square:M1"


def test_an_event_about_nothing_is_an_entity_of_its_own(adapter: Adapter) -> None:
    assert only(adapter, b'{"event_id":"e-1","type":"x"}').entity_key == "square::e-1"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"event_id":1,"type":"x"}', b'{"event_id":"e"}', b"\xff"])
def test_what_is_no_event_is_unparseable(adapter: Adapter, body: bytes) -> None:
    with pytest.raises(Unparseable):
        only(adapter, body)


@pytest.mark.parametrize(
    ("body", "fact_key", "movement", "amount_minor", "of"),
    [
        (payment("payment.created"), "square:PAYMENT1:capture", "capture", 1_250, "PAYMENT1"),
        (payment("payment.updated"), "square:PAYMENT1:capture", "capture", 1_250, "PAYMENT1"),
        (payment(tip_minor=200), "square:PAYMENT1:capture", "capture", 1_450, "PAYMENT1"),
        (refund("refund.created"), "square:REFUND1:refund", "refund", 400, "PAYMENT1"),
        (refund("refund.updated"), "square:REFUND1:refund", "refund", 400, "PAYMENT1"),
        *(
            (dispute("dispute.created", state), "square:DISPUTE1:dispute_opened", "dispute_opened", 1_250, "PAYMENT1")
            for state in ("EVIDENCE_REQUIRED", "PROCESSING", "ACCEPTED")
        ),
        *(
            (dispute(event_type, state), f"square:DISPUTE1:{movement}", movement, 1_250, "PAYMENT1")
            for event_type in ("dispute.state.updated", "dispute.state.changed")
            for state, movement in (
                ("EVIDENCE_REQUIRED", "dispute_opened"),
                ("PROCESSING", "dispute_opened"),
                ("WON", "dispute_won"),
                ("LOST", "dispute_lost"),
                ("ACCEPTED", "dispute_lost"),
            )
        ),
        (payout("payout.sent"), "square:po_1:payout_paid", "payout_paid", 9_000, None),
        (payout("payout.paid"), "square:po_1:payout_paid", "payout_paid", 9_000, None),
        (payout("payout.paid", -500), "square:po_1:payout_paid", "payout_paid", -500, None),
        (payout("payout.failed"), "square:po_1:payout_failed", "payout_failed", 9_000, None),
    ],
)
def test_each_movement_books_under_its_own_id(
    adapter: Adapter, body: bytes, fact_key: str, movement: str, amount_minor: int, of: str | None
) -> None:
    assert moved(adapter, body) == (fact_key, movement, amount_minor, "USD", of)
    assert money(adapter, body) == money(adapter, changed(body, "event_id", to="e-2"))


@pytest.mark.parametrize(
    "body",
    [
        *(payment(status=status) for status in ("APPROVED", "PENDING", "CANCELED", "FAILED")),
        *(payment(source_type=source) for source in ("CASH", "EXTERNAL")),
        *(refund(status=status) for status in ("PENDING", "REJECTED", "FAILED")),
        changed(refund(), "data", "object", "refund", "destination_type", to="CASH"),
        dispute("dispute.created", "INQUIRY_EVIDENCE_REQUIRED"),
        dispute("dispute.state.updated", "INQUIRY_PROCESSING"),
        dispute("dispute.state.updated", "INQUIRY_CLOSED"),
        changed(payment(), "type", to="invoice.payment_made"),
        changed(payment(), "type", to="order.updated"),
    ],
)
def test_reports_of_something_else_move_nothing(adapter: Adapter, body: bytes) -> None:
    assert moved(adapter, body) is None


def by_gift_card(body: bytes = b"") -> bytes:
    return changed(
        body or payment(), "data", "object", "payment", "card_details", "card", "card_brand", to="SQUARE_GIFT_CARD"
    )


def test_a_gift_card_that_is_sold_and_then_redeemed_brings_its_money_once(adapter: Adapter) -> None:
    sold = moved(adapter, payment(amount=5_000))
    redeemed = [
        moved(adapter, by_gift_card(payment(event_type))) for event_type in ("payment.created", "payment.updated")
    ]
    assert (sold and sold[2], redeemed) == (5_000, [None, None])


@pytest.mark.parametrize(
    ("brand", "moves"), [("SQUARE_GIFT_CARD", False), ("VISA", True), (None, True), (["SQUARE_GIFT_CARD"], True)]
)
def test_a_refund_onto_a_gift_card_takes_no_money_away(adapter: Adapter, brand: object, moves: bool) -> None:
    details = {"card_details": {"card": {"card_brand": brand, "last_4": "0009"}, "entry_method": "KEYED"}}
    body = changed(refund(), "data", "object", "refund", "destination_details", to=details)
    assert (moved(adapter, body) is not None) == moves


@pytest.mark.parametrize("broken", [None, 7, [], {}, {"card": None}, {"card": {"card_brand": 7}}])
def test_a_payment_whose_card_can_not_be_read_is_none_by_gift_card(adapter: Adapter, broken: object) -> None:
    assert moved(adapter, changed(payment(), "data", "object", "payment", "card_details", to=broken)) is not None


def of_older_api(body: bytes) -> bytes:
    """A dispute as older versions of the API write it."""
    document = json.loads(body)
    reported = document["data"]["object"]["dispute"]
    reported["dispute_id"] = reported.pop("id")
    reported["reported_date"] = reported.pop("reported_at")
    return json.dumps(document).encode()


@pytest.mark.parametrize("state", ["EVIDENCE_REQUIRED", "WON", "LOST", "ACCEPTED"])
def test_a_dispute_of_an_older_api_is_the_same_fact(adapter: Adapter, state: str) -> None:
    """Both of Square's events tell of one change."""
    older, newer = of_older_api(dispute("dispute.state.changed", state)), dispute("dispute.state.updated", state)
    assert money(adapter, older) is not None
    assert money(adapter, older) == money(adapter, newer)
    assert only(adapter, older).entity_key == only(adapter, newer).entity_key


@pytest.mark.parametrize(
    ("done", "undone"),
    [
        (payout("payout.paid"), payout("payout.failed")),
        (dispute("dispute.created", "EVIDENCE_REQUIRED"), dispute("dispute.state.updated", "WON")),
    ],
)
def test_what_gives_back_and_what_it_gives_back_name_each_other(adapter: Adapter, done: bytes, undone: bytes) -> None:
    first, second = money(adapter, done), money(adapter, undone)
    assert first is not None
    assert second is not None
    assert (first.pair, second.pair) == (second.fact_key, first.fact_key)


def test_a_payment_a_refund_and_a_loss_have_nothing_that_gives_them_back(adapter: Adapter) -> None:
    for body in (payment(), refund(), dispute("dispute.state.updated", "LOST")):
        fact = money(adapter, body)
        assert fact is not None
        assert fact.pair is None


def test_a_payment_that_is_reported_again_after_a_refund_is_the_same_fact(adapter: Adapter) -> None:
    again = changed(payment(), "data", "object", "payment", "refunded_money", to={"amount": 400, "currency": "USD"})
    assert money(adapter, payment("payment.created")) == money(adapter, again)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (dispute("dispute.state.updated", "SOMETHING_NEW"), "isn't one that is known"),
        (changed(dispute("dispute.created", "WON"), "data", "object", "dispute", "state", to=None), "isn't said"),
        (changed(payment(), "data", "object", "payment", "status", to=7), "isn't said"),
        (changed(refund(), "data", "object", "refund", "status", to=["COMPLETED"]), "isn't said"),
        (changed(payment(), "data", "object", "payment", "total_money", to=...), "no amount"),
        (changed(payout("payout.paid"), "data", "object", "payout", "amount_money", "currency_code", to="EUR"), "two"),
        (changed(payout("payout.paid"), "data", "object", "payout", "amount_money", "currency", to=...), "currency"),
        (changed(payout("payout.paid"), "data", "object", "payout", "amount_money", "currency", to=["USD"]), "three"),
    ],
)
def test_what_can_not_be_reported_for_sure_is_not_booked(adapter: Adapter, body: bytes, problem: str) -> None:
    with pytest.raises(MoneyInvalid, match=problem):
        money(adapter, body)


@pytest.mark.parametrize("amount", [12.5, 1250.0, "1250", True, None, [1250], {"value": 1250}, 10**16])
def test_an_amount_is_an_integer_and_nothing_like_it(adapter: Adapter, amount: Any) -> None:
    with pytest.raises(MoneyInvalid):
        money(adapter, changed(payment(), "data", "object", "payment", "total_money", "amount", to=amount))


@pytest.mark.parametrize("source", [["CASH"], {}, 7, None])
def test_a_source_that_can_not_be_read_is_not_cash(adapter: Adapter, source: object) -> None:
    assert moved(adapter, changed(payment(), "data", "object", "payment", "source_type", to=source)) is not None


@pytest.mark.parametrize("currency", ["JPY", "USD", "BHD"])
def test_minor_units_are_those_of_the_currency(adapter: Adapter, currency: str) -> None:
    assert moved(adapter, payment(currency=currency)) == (
        "square:PAYMENT1:capture",
        "capture",
        1_250,
        currency,
        "PAYMENT1",
    )


@pytest.mark.parametrize("path", [("data",), ("data", "object"), ("data", "object", "payment")])
def test_an_event_without_what_it_reports_is_named_and_not_booked(adapter: Adapter, path: tuple[str, ...]) -> None:
    with pytest.raises(Unparseable):
        money(adapter, changed(payment(), *path, to=None))
