"""Paddle: what its events are called, and what money they moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import Unparseable
from core.money import MoneyInvalid
from load.samples import paddle as samples_of
from providers import Adapter, ProvidersSettings, build_adapters
from tests.unit.providers.shapes import NO_MONEY, NOW, Row, changed, money, moved, only, row


def delivered(name: str, published: bytes) -> bytes:
    """A published sample as Paddle delivers it: of most only ``data`` is published, so the rest is ours."""
    if not name.startswith("entity_"):
        return published
    event_type = name.removeprefix("entity_").encode()
    envelope = (
        b'{"event_id":"evt_of_ours","event_type":"%b","occurred_at":"2024-04-12T10:18:49.5Z",'
        b'"notification_id":"ntf_of_ours","data":%b}'
    )
    return envelope % (event_type, published)


IDENTITIES: dict[str, Row] = {
    "entity_adjustment.created": (  # a partial refund that Paddle hasn't approved yet
        "paddle:evt_of_ours:adjustment.created",
        "paddle::txn_01hvcc93znj3mpqt1tenkjb04y",
        *NO_MONEY,
        "2024-04-12T10:18:49.500000+00:00",
    ),
    "entity_payout.paid": (
        "paddle:evt_of_ours:payout.paid",
        "paddle::pay_01gsz4vmqbjk3x4vvtafffd540",
        "paddle:pay_01gsz4vmqbjk3x4vvtafffd540:payout_paid",
        "payout_paid",
        10_000,
        "USD",
        "2024-04-12T10:18:49.500000+00:00",
    ),
    "entity_subscription.activated": (
        "paddle:evt_of_ours:subscription.activated",
        "paddle::sub_01hv8x29kz0t586xy6zn1a62ny",
        *NO_MONEY,
        "2024-04-12T10:18:49.500000+00:00",
    ),
    "entity_transaction.completed": (
        "paddle:evt_of_ours:transaction.completed",
        "paddle::txn_01hv8wptq8987qeep44cyrewp9",
        "paddle:txn_01hv8wptq8987qeep44cyrewp9:capture",
        "capture",
        56_589,
        "USD",
        "2024-04-12T10:18:49.500000+00:00",
    ),
    "entity_transaction.paid": (  # the same payment, before it is completed
        "paddle:evt_of_ours:transaction.paid",
        "paddle::txn_01hv8wptq8987qeep44cyrewp9",
        *NO_MONEY,
        "2024-04-12T10:18:49.500000+00:00",
    ),
    "vector_customer_created": (
        "paddle:evt_01hs0tqfme2xwb2hvwv87p8y3w:customer.created",
        "paddle::ctm_01hs0tqf76sxmp7ba5e4mw1sc8",
        *NO_MONEY,
        "2024-03-15T10:32:38.286848+00:00",
    ),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_each_public_sample_is_named_and_booked_as_read_by_hand(samples: Path, adapter: Adapter, name: str) -> None:
    published = (samples / f"paddle/{name}.json").read_bytes()
    assert row(adapter, delivered(name, published)) == IDENTITIES[name]


@pytest.mark.parametrize("name", [name for name in IDENTITIES if name.startswith("entity_")])
def test_what_an_event_is_about_is_no_event_by_itself(samples: Path, adapter: Adapter, name: str) -> None:
    with pytest.raises(Unparseable):
        only(adapter, (samples / f"paddle/{name}.json").read_bytes())


def transaction(event_type: str = "transaction.completed", **more: Any) -> bytes:
    reported: dict[str, Any] = {"amount_minor": 1_250, "currency": "EUR", "delivery": 1, **more}
    return samples_of.transaction_event(event_type, event_id="evt_1", transaction="txn_1", occurred_at=NOW, **reported)


def adjustment(event_type: str = "adjustment.updated", **more: Any) -> bytes:
    reported: dict[str, Any] = {"adjustment": "adj_1", "amount_minor": 400, "currency": "EUR", **more}
    return samples_of.adjustment_event(event_type, event_id="evt_2", transaction="txn_1", occurred_at=NOW, **reported)


def payout(event_type: str = "payout.paid") -> bytes:
    return samples_of.payout_event(
        event_type, event_id="evt_3", payout="pay_1", amount_minor=9_000, currency="EUR", occurred_at=NOW
    )


def test_a_transaction_and_its_adjustments_are_one_entity(adapter: Adapter) -> None:
    assert only(adapter, transaction()).entity_key == only(adapter, adjustment()).entity_key == "paddle::txn_1"
    merchant = build_adapters(ProvidersSettings(entity="merchant"))["paddle"]
    assert only(merchant, transaction()).entity_key == only(merchant, payout()).entity_key == "paddle:"


def test_a_delivery_has_an_id_of_its_own_that_is_no_content(adapter: Adapter) -> None:
    first, again = only(adapter, transaction()), only(adapter, transaction(delivery=2))
    assert first.body != again.body
    assert (first.event_key, first.content_sha256) == (again.event_key, again.content_sha256)
    assert adapter.content_sha256(first.body, 1) == first.content_sha256


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"event_id":1,"event_type":"x"}', b'{"event_id":"e"}', b"\xff"])
def test_what_is_no_event_is_unparseable(adapter: Adapter, body: bytes) -> None:
    with pytest.raises(Unparseable):
        only(adapter, body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (transaction(), ("paddle:txn_1:capture", "capture", 1_084, "EUR", "txn_1")),
        *(
            (adjustment(event_type), ("paddle:adj_1:refund", "refund", 367, "EUR", "txn_1"))
            for event_type in ("adjustment.created", "adjustment.updated")
        ),
        (
            adjustment("adjustment.created", action="chargeback"),
            ("paddle:adj_1:dispute_opened", "dispute_opened", 367, "EUR", "txn_1"),
        ),
        (
            adjustment("adjustment.created", action="chargeback_reverse", adjustment="adj_2"),
            ("paddle:adj_2:dispute_won", "dispute_won", 367, "EUR", "txn_1"),
        ),
        (payout(), ("paddle:pay_1:payout_paid", "payout_paid", 9_000, "EUR", None)),
    ],
)
def test_each_movement_books_under_its_own_id(
    adapter: Adapter, body: bytes, expected: tuple[str, str, int, str, str | None]
) -> None:
    assert moved(adapter, body) == expected


@pytest.mark.parametrize(
    "body",
    [
        transaction("transaction.paid"),
        transaction("transaction.updated"),
        adjustment(status="pending_approval"),
        adjustment(status="rejected"),
        adjustment(action="chargeback", status="reversed"),
        adjustment(action="credit"),
        adjustment(action="credit_reverse"),
        changed(adjustment(action="chargeback_warning"), "data", "payout_totals", to=None),
        payout("payout.created"),
    ],
)
def test_reports_of_something_else_move_nothing(adapter: Adapter, body: bytes) -> None:
    assert moved(adapter, body) is None


def of_a_sale(**payout_totals: str) -> bytes:
    """120.00 with 20.00 of tax, of which Paddle keeps 6.50."""
    reported = {"total": "12000", "grand_total": "12000", "tax": "2000", "fee": "650", "earnings": "9350"}
    totals = {**reported, "subtotal": "10000", "currency_code": "EUR"}
    body = changed(transaction(), "data", "details", "totals", to=totals)
    return changed(body, "data", "details", "payout_totals", to={**totals, **payout_totals} if payout_totals else None)


def test_what_a_merchant_of_record_owes_is_neither_its_fee_nor_the_tax(adapter: Adapter) -> None:
    assert moved(adapter, of_a_sale()) == ("paddle:txn_1:capture", "capture", 9_350, "EUR", "txn_1")


def test_what_is_owed_is_in_the_currency_of_the_payouts(adapter: Adapter) -> None:
    in_dollars = of_a_sale(earnings="10098", currency_code="USD", exchange_rate="1.08")
    assert moved(adapter, in_dollars) == ("paddle:txn_1:capture", "capture", 10_098, "USD", "txn_1")


def test_a_refund_takes_what_was_earned_and_not_the_tax(adapter: Adapter) -> None:
    totals = {"total": "12000", "tax": "2000", "fee": "650", "earnings": "9350", "currency_code": "EUR"}
    body = changed(adjustment(), "data", "payout_totals", to={**totals, "chargeback_fee": None})
    assert moved(adapter, body) == ("paddle:adj_1:refund", "refund", 9_350, "EUR", "txn_1")


def subscription(event_type: str, **more: Any) -> bytes:
    data = {"id": "sub_1", "status": "active", "customer_id": "ctm_1", "currency_code": "EUR", "items": [], **more}
    event = {"event_id": "evt_4", "event_type": event_type, "occurred_at": "2026-01-31T12:00:00.5Z", "data": data}
    return json.dumps({**event, "notification_id": "ntf_41"}).encode()


def test_a_subscriptions_first_event_belongs_to_the_subscription(adapter: Adapter) -> None:
    """It names the transaction that it came from, and no later event does."""
    created = only(adapter, subscription("subscription.created", transaction_id="txn_1"))
    activated = only(adapter, subscription("subscription.activated"))
    assert created.entity_key == activated.entity_key == "paddle::sub_1"
    assert created.event_key == "paddle:evt_4:subscription.created"


def test_a_payment_method_is_an_entity_of_its_own(adapter: Adapter) -> None:
    body = changed(subscription("payment_method.saved", transaction_id="txn_1"), "data", "id", to="paymtd_1")
    assert only(adapter, body).entity_key == "paddle::paymtd_1"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (adjustment(action="chargeback_warning"), "by hand"),
        (adjustment(action="chargeback_warning_reverse"), "by hand"),
        (adjustment(action="something_new"), "by hand"),
        (adjustment(status="something_new"), "isn't one that is known"),
        (adjustment(status="reversed"), "isn't one that is known"),
        (changed(transaction(), "data", "details", "payout_totals", "currency_code", to=None), "currency"),
        (changed(payout(), "data", "currency_code", to="EURO"), "three letters"),
    ],
)
def test_what_can_not_be_reported_for_sure_is_not_booked(adapter: Adapter, body: bytes, problem: str) -> None:
    with pytest.raises(MoneyInvalid, match=problem):
        money(adapter, body)


@pytest.mark.parametrize(
    "amount",
    [
        *(1250, 12.5, True, None, ["1250"]),
        *("", "12.50", "1250.0", "1e3", "+1250", " 1250", "1250\n", "1_250", "١٢٥٠", "nan", "9" * 17, "9" * 5_000),
    ],
)
@pytest.mark.parametrize(
    ("body", "path"),
    [
        (transaction(), ("data", "details", "payout_totals", "earnings")),
        (
            changed(transaction(), "data", "details", "payout_totals", to=None),
            ("data", "details", "totals", "earnings"),
        ),
        (adjustment(), ("data", "payout_totals", "earnings")),
        (payout(), ("data", "amount")),
    ],
    ids=["capture", "capture, by totals", "refund", "payout"],
)
def test_an_amount_is_a_text_of_digits_and_nothing_like_it(
    adapter: Adapter, body: bytes, path: tuple[str, ...], amount: Any
) -> None:
    with pytest.raises(MoneyInvalid):
        money(adapter, changed(body, *path, to=amount))


@pytest.mark.parametrize("path", [("data",), ("data", "details"), ("data", "details", "totals"), ("data", "id")])
def test_a_movement_that_is_not_reported_whole_is_not_booked(adapter: Adapter, path: tuple[str, ...]) -> None:
    with pytest.raises(Unparseable):
        money(adapter, changed(changed(transaction(), "data", "details", "payout_totals", to=...), *path, to=None))


@pytest.mark.parametrize("currency", ["JPY", "KRW", "USD", "BHD"])
def test_minor_units_are_those_of_the_currency(adapter: Adapter, currency: str) -> None:
    expected = ("paddle:txn_1:capture", "capture", 1_084, currency, "txn_1")
    assert moved(adapter, transaction(currency=currency)) == expected


def test_the_largest_amount_is_read_to_the_last_digit(adapter: Adapter) -> None:
    exact = changed(transaction(), "data", "details", "payout_totals", "earnings", to="999999999999999")
    fact = money(adapter, exact)
    assert fact is not None
    assert fact.money.amount_minor == 999_999_999_999_999
