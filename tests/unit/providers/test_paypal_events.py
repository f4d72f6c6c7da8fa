"""PayPal: what its events are called, and what money they moved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import Unparseable
from core.money import MoneyInvalid
from load.samples import paypal as samples_of
from providers import Adapter, ProvidersSettings, build_adapters
from providers.paypal import LEFT_TO_A_PERSON
from tests.unit.providers.shapes import NOW, changed, money, moved, only


def capture(event_type: str = "PAYMENT.CAPTURE.COMPLETED", value: str = "12.50", currency: str = "EUR") -> bytes:
    return samples_of.capture_event(
        event_type,
        event_id="WH-1",
        capture="C1",
        order="O1",
        merchant="M1",
        value=value,
        currency=currency,
        created=NOW,
    )


def refund(event_type: str = "PAYMENT.CAPTURE.REFUNDED", value: str = "12.50", currency: str = "EUR") -> bytes:
    return samples_of.refund_event(
        event_type,
        event_id="WH-2",
        refund="R1",
        capture="C1",
        merchant="M1",
        value=value,
        currency=currency,
        created=NOW,
    )


def dispute(event_type: str, outcome: str | None = None) -> bytes:
    return samples_of.dispute_event(
        event_type,
        event_id="WH-3",
        dispute="PP-D-1",
        capture="C1",
        merchant="M1",
        value="12.50",
        currency="EUR",
        created=NOW,
        outcome=outcome,
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (capture(), ("paypal:C1:capture", "capture", 1_250, "EUR", "C1")),
        (changed(capture(), "resource", "status", to="REFUNDED"), ("paypal:C1:capture", "capture", 1_250, "EUR", "C1")),
        (capture("PAYMENT.CAPTURE.PENDING"), None),
        (capture("PAYMENT.CAPTURE.DECLINED"), None),
        (capture("PAYMENT.CAPTURE.DENIED"), None),
        (refund(), ("paypal:R1:refund", "refund", 1_250, "EUR", "C1")),
        (refund("PAYMENT.CAPTURE.REVERSED"), ("paypal:R1:refund", "refund", 1_250, "EUR", "C1")),
        (changed(refund(), "resource", "status", to="PENDING"), None),
        (changed(refund(), "resource", "status", to="FAILED"), None),
        (changed(refund(), "resource", "status", to="CANCELLED"), None),
        (refund("PAYMENT.REFUND.PENDING"), None),
        (refund("PAYMENT.REFUND.FAILED"), None),
        (dispute("CUSTOMER.DISPUTE.CREATED"), None),
        (dispute("CUSTOMER.DISPUTE.UPDATED"), None),
        (dispute("CUSTOMER.DISPUTE.RESOLVED", "RESOLVED_BUYER_FAVOUR"), None),
        (dispute("CUSTOMER.DISPUTE.RESOLVED", "RESOLVED_SELLER_FAVOUR"), None),
    ],
)
def test_what_a_type_and_state_book(adapter: Adapter, body: bytes, expected: tuple[Any, ...] | None) -> None:
    assert moved(adapter, body) == expected


def payout_item(event_type: str) -> bytes:
    return samples_of.payout_item_event(
        event_type, event_id="WH-4", item="I1", batch="B1", value="5.00", currency="EUR", created=NOW
    )


@pytest.mark.parametrize("event_type", sorted(LEFT_TO_A_PERSON))
def test_what_moves_money_and_is_not_booked_is_for_a_person_and_says_so(adapter: Adapter, event_type: str) -> None:
    with pytest.raises(MoneyInvalid, match=f"{event_type}.*manual entry"):
        money(adapter, payout_item(event_type))


@pytest.mark.parametrize(
    "event_type",
    [
        "PAYMENT.PAYOUTS-ITEM.FAILED",
        "PAYMENT.PAYOUTS-ITEM.DENIED",
        "PAYMENT.PAYOUTS-ITEM.BLOCKED",
        "PAYMENT.PAYOUTSBATCH.SUCCESS",
        "PAYMENT.REFERENCED-PAYOUT-ITEM.FAILED",
        "INVOICING.INVOICE.CREATED",
    ],
)
def test_what_moves_no_money_books_nothing(adapter: Adapter, event_type: str) -> None:
    assert moved(adapter, payout_item(event_type)) is None
    assert only(adapter, payout_item(event_type)).entity_key == "paypal::I1"


@pytest.mark.parametrize(
    ("value", "currency", "amount_minor"),
    [
        ("12.50", "EUR", 1_250),
        ("12.5", "EUR", 1_250),
        ("12", "EUR", 1_200),
        ("0.01", "USD", 1),
        ("1250", "JPY", 1_250),
        ("1250.00", "JPY", 1_250),
        ("1250", "HUF", 125_000),
        ("1250.00", "HUF", 125_000),
        ("1250", "TWD", 125_000),
        ("12.5000", "eur", 1_250),
    ],
)
def test_amounts_are_read_without_a_float_into_isos_minor_units(
    adapter: Adapter, value: str, currency: str, amount_minor: int
) -> None:
    bodies = {make.__name__: make(value=value, currency=currency) for make in (capture, refund)}
    for movement, body in bodies.items():
        found = moved(adapter, body)
        assert found is not None
        assert found[1:4] == (movement, amount_minor, currency.upper())


@pytest.mark.parametrize(
    ("value", "currency"),
    [
        ("12.505", "EUR"),
        ("12.5", "JPY"),
        ("12.5", "HUF"),
        ("12.50", "TWD"),
        ("1e3", "EUR"),
        ("12,50", "EUR"),
        ("", "EUR"),
        (".5", "EUR"),
        ("--5", "EUR"),
        ("NaN", "EUR"),
        ("\u0661\u0662", "EUR"),
        ("9" * 16, "EUR"),
        ("12.50", "EURO"),
        ("12.50", ""),
        (12.5, "EUR"),
        (12, "EUR"),
        (True, "EUR"),
        (None, "EUR"),
        ("12.50", None),
    ],
)
def test_an_amount_that_cant_be_reported_loses_no_event_and_books_nothing(
    adapter: Adapter, value: object, currency: object
) -> None:
    body = changed(capture(), "resource", "amount", to={"value": value, "currency_code": currency})
    with pytest.raises(MoneyInvalid):
        money(adapter, body)


@pytest.mark.parametrize(
    "spoilt",
    [
        changed(capture(), "resource", "amount", to={"value": "1", "currency_code": "EUR", "total": "2"}),
        changed(capture(), "resource", "amount", to={"value": "1", "currency": "EUR", "currency_code": "EUR"}),
        changed(capture(), "resource", "amount", to={}),
        changed(capture(), "resource", "status", to="VOIDED"),
        changed(capture(), "resource", "status", to=...),
        changed(refund(), "resource", "status", to=...),
        changed(refund(), "resource", "status", to="REFUNDED"),
        changed(capture(), "event_type", to="PAYMENT.CAPTURE.REFUNDED"),
    ],
)
def test_a_resource_that_doesnt_say_what_moved_books_nothing(adapter: Adapter, spoilt: bytes) -> None:
    with pytest.raises(MoneyInvalid):
        money(adapter, spoilt)


@pytest.mark.parametrize(
    "spoilt",
    [
        changed(capture(), "resource", to=...),
        changed(capture(), "resource", to=[]),
        changed(capture(), "resource", "amount", to="12.50"),
        changed(capture(), "resource", "id", to=...),
        changed(capture(), "resource", "id", to=7),
        changed(capture(), "resource", "status", to=7),
    ],
)
def test_a_resource_that_cant_be_read_books_nothing(adapter: Adapter, spoilt: bytes) -> None:
    with pytest.raises(Unparseable):
        money(adapter, spoilt)


def v1_refund(**resource: object) -> bytes:
    """A refund as v1 writes it: of its sale or capture, below zero in the past."""
    document = {
        "id": "WH-5",
        "create_time": "2026-01-31T12:00:00Z",
        "resource_type": "sale",
        "event_type": "PAYMENT.SALE.REFUNDED",
        "resource": {
            "id": "R1",
            "amount": {"total": "-12.50", "currency": "EUR"},
            "state": "completed",
            "sale_id": "S1",
            **resource,
        },
    }
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("body", "payment"),
    [
        (v1_refund(), "S1"),
        (v1_refund(parent_payment="PAY-1"), "S1"),
        (v1_refund(parent_payment="PAY-1", sale_id=None, capture_id="C1"), "C1"),
        (v1_refund(amount={"total": "12.50", "currency": "EUR"}), "S1"),
        (v1_refund(sale_id=None, capture_id="C1"), "C1"),
        (
            v1_refund(sale_id=None, links=[{"rel": "self", "href": "https://api.paypal.com/v1/payments/refund/R1"}]),
            "R1",
        ),
        (changed(v1_refund(sale_id=None), "resource_type", to="refund"), "R1"),
    ],
)
def test_v1s_refunds_book_under_their_own_id_whatever_their_sign(adapter: Adapter, body: bytes, payment: str) -> None:
    assert moved(adapter, body) == ("paypal:R1:refund", "refund", 1_250, "EUR", payment)


def test_a_v1_event_whose_resource_is_the_refunded_sale_books_nothing(adapter: Adapter) -> None:
    with pytest.raises(MoneyInvalid):
        money(adapter, v1_refund(id="S1", sale_id=None))


def test_one_refund_under_two_event_ids_or_types_is_one_fact(adapter: Adapter) -> None:
    bodies = [refund(), refund("PAYMENT.CAPTURE.REVERSED"), changed(refund(), "id", to="WH-9")]
    assert len({only(adapter, body).event_key for body in bodies}) == 3
    assert len({(only(adapter, body).fact_key, only(adapter, body).fact_sha256) for body in bodies}) == 1


RELATED = {"related_ids": {"order_id": "O1", "authorization_id": "A1"}}
TO_CAPTURE = [{"rel": "up", "href": "https://api.paypal.com/v2/payments/captures/C1"}]
OF_C1 = {"seller_transaction_id": "C1"}


@pytest.mark.parametrize(
    ("event_type", "resource", "entity"),
    [
        ("PAYMENT.CAPTURE.COMPLETED", {"id": "C1", "supplementary_data": RELATED, "parent_payment": "PAY-1"}, "C1"),
        ("PAYMENT.CAPTURE.DENIED", {"id": "C1", "parent_payment": "PAY-1"}, "C1"),
        ("PAYMENT.SALE.COMPLETED", {"id": "S1", "parent_payment": "PAY-1"}, "S1"),
        ("PAYMENT.CAPTURE.REFUNDED", {"id": "R1", "links": TO_CAPTURE, "supplementary_data": RELATED}, "C1"),
        ("PAYMENT.CAPTURE.REVERSED", {"id": "R1", "supplementary_data": {"related_ids": {"capture_id": "C1"}}}, "C1"),
        ("PAYMENT.REFUND.PENDING", {"id": "R1", "links": TO_CAPTURE}, "C1"),
        ("PAYMENT.SALE.REFUNDED", {"id": "R1", "sale_id": "S1", "parent_payment": "PAY-1"}, "S1"),
        ("PAYMENT.CAPTURE.REFUNDED", {"id": "R1", "capture_id": "C1", "parent_payment": "PAY-1"}, "C1"),
        ("PAYMENT.CAPTURE.REFUNDED", {"id": "R1", "parent_payment": "PAY-1"}, "PAY-1"),
        ("CUSTOMER.DISPUTE.CREATED", {"dispute_id": "D1", "disputed_transactions": [OF_C1]}, "C1"),
        ("CUSTOMER.DISPUTE.UPDATED", {"dispute_id": "D1", "disputed_transactions": [OF_C1, OF_C1]}, "C1"),
        (
            "CUSTOMER.DISPUTE.RESOLVED",
            {"dispute_id": "D1", "disputed_transactions": [OF_C1, {"seller_transaction_id": "C2"}]},
            "D1",
        ),
        ("CUSTOMER.DISPUTE.CREATED", {"dispute_id": "D1", "disputed_transactions": []}, "D1"),
        ("CUSTOMER.DISPUTE.CREATED", {"dispute_id": "D1", "disputed_transactions": [{"seller": {}}]}, "D1"),
        ("CUSTOMER.DISPUTE.CREATED", {"dispute_id": "D1", "disputed_transactions": "none"}, "D1"),
        ("PAYMENT.AUTHORIZATION.CREATED", {"id": "A1", "supplementary_data": RELATED}, "O1"),
        ("PAYMENT.AUTHORIZATION.CREATED", {"id": "A1", "parent_payment": "PAY-1"}, "PAY-1"),
        ("CHECKOUT.ORDER.APPROVED", {"id": "O1"}, "O1"),
        ("X", {"order_id": "O1"}, "O1"),
        ("INVOICING.INVOICE.CREATED", {"invoice": {"id": "INV2-1"}}, "INV2-1"),
        ("MERCHANT.ONBOARDING.COMPLETED", {"merchant_id": "M1", "tracking_id": "T1"}, "M1"),
        ("X", {"links": "none", "supplementary_data": []}, "WH-1"),
        ("X", {}, "WH-1"),
    ],
)
def test_what_order_is_kept_for(adapter: Adapter, event_type: str, resource: dict[str, object], entity: str) -> None:
    of_refund = event_type.endswith((".REFUNDED", ".REVERSED")) or ".REFUND." in event_type
    body = changed(changed(capture(), "event_type", to=event_type), "resource", to=resource)
    body = changed(body, "resource_type", to="refund" if of_refund else "other")
    assert only(adapter, body).entity_key == f"paypal::{entity}"


def test_a_payments_capture_its_refunds_and_its_disputes_share_an_order(adapter: Adapter) -> None:
    reported = [capture(), refund(), refund("PAYMENT.CAPTURE.REVERSED")]
    reported += [dispute(f"CUSTOMER.DISPUTE.{what}") for what in ("CREATED", "UPDATED", "RESOLVED")]
    assert {only(adapter, body).entity_key for body in reported} == {"paypal::C1"}


ONBOARDING = ["MERCHANT.ONBOARDING.COMPLETED", "MERCHANT.PARTNER-CONSENT.REVOKED"]
ONBOARDING += [f"CUSTOMER.MERCHANT-INTEGRATION.{what}" for what in ("CAPABILITY-UPDATED", "SELLER-EMAIL-CONFIRMED")]


@pytest.mark.parametrize("event_type", ONBOARDING)
def test_onboarding_names_its_merchant(adapter: Adapter, event_type: str) -> None:
    resource = {"partner_client_id": "AXX1", "merchant_id": "M1", "tracking_id": "T1", "links": []}
    body = changed(changed(capture(), "event_type", to=event_type), "resource", to=resource)
    body = changed(body, "resource_type", to="merchant-onboarding")
    assert (only(adapter, body).account, only(adapter, body).entity_key) == ("M1", "paypal::M1")


def v1_sale(**resource: object) -> bytes:
    document = {
        "id": "WH-6",
        "create_time": "2026-01-31T12:00:00Z",
        "resource_type": "sale",
        "event_type": "PAYMENT.SALE.COMPLETED",
        "resource": {
            "id": "S1",
            "amount": {"total": "12.50", "currency": "EUR"},
            "state": "completed",
            "parent_payment": "PAY-1",
            **resource,
        },
    }
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("reported", "merchant"),
    [
        ([capture(), refund(), refund("PAYMENT.CAPTURE.REVERSED")], "M1"),
        ([v1_sale(), v1_refund()], ""),
        ([v1_sale(payee={"merchant_id": "M1"}), v1_refund(payer={"merchant_id": "M1"})], ""),
        ([v1_sale(), v1_refund(payer={"merchant_id": "M1"})], ""),
    ],
)
def test_a_payment_has_one_merchant(adapter: Adapter, reported: list[bytes], merchant: str) -> None:
    facts = [money(adapter, body) for body in reported]
    assert {fact.account for fact in facts if fact} == {merchant}
    assert {only(adapter, body).account for body in reported} == {merchant}


@pytest.mark.parametrize(
    "spoilt",
    [
        changed(capture(), "resource", "payee", to=...),
        changed(capture(), "resource", "payee", to={"email_address": "shop@example.com"}),
        changed(refund(), "resource", "payer", to=...),
        changed(refund("PAYMENT.CAPTURE.REVERSED"), "resource", "payer", to={"email_address": "shop@example.com"}),
    ],
)
def test_where_a_payment_could_get_a_second_merchant_a_person_says_which(adapter: Adapter, spoilt: bytes) -> None:
    with pytest.raises(MoneyInvalid, match="merchant_id.*manual entry"):
        money(adapter, spoilt)


@pytest.mark.parametrize("body", [capture(), refund(), dispute("CUSTOMER.DISPUTE.CREATED")])
def test_the_merchant_is_named_by_captures_refunds_and_disputes(adapter: Adapter, body: bytes) -> None:
    assert only(adapter, body).account == "M1"
    merchant = build_adapters(ProvidersSettings(entity="merchant"))["paypal"]
    assert only(merchant, body).entity_key == "paypal:M1"


def test_the_payer_of_a_capture_is_no_merchant(adapter: Adapter) -> None:
    body = changed(changed(capture(), "resource", "payee", to=...), "resource", "payer", to={"merchant_id": "CUSTOMER"})
    assert only(adapter, body).account == ""


def test_the_links_to_the_event_itself_are_no_content(adapter: Adapter) -> None:
    event = only(adapter, refund())
    assert only(adapter, changed(refund(), "links", to=[])).content_sha256 == event.content_sha256
    assert only(adapter, changed(refund(), "summary", to="other")).content_sha256 != event.content_sha256
    assert adapter.content_sha256(event.body, 1) == event.content_sha256


@pytest.mark.parametrize(("field", "to"), [("id", ...), ("id", ""), ("id", 7), ("event_type", ...), ("event_type", [])])
def test_an_event_without_id_or_type_is_poison(adapter: Adapter, field: str, to: object) -> None:
    with pytest.raises(Unparseable):
        only(adapter, changed(capture(), field, to=to))
