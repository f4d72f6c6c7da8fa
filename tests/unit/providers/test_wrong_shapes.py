"""A field that decides about money and isn't of its kind never passes for an absent one, or for zero."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core.errors import Unparseable
from core.money import MoneyInvalid, MovementUnknown
from providers import ProvidersSettings, Request, build_adapters
from tests.unit.providers.samples import adyenplatform, mollie, paypal, razorpay, square, stripe
from tests.unit.providers.samples.table import each
from tests.unit.providers.shapes import changed

ADAPTERS = build_adapters(ProvidersSettings.model_validate({**adyenplatform.SETTINGS, **square.SETTINGS}))
NO_LISTS, NO_OBJECTS = each("", "x", 0, True, False, {}), each("", "x", 0, True, False, [])
FEES = {"amount_captured": 1_000, "application_fee_amount": 123}


def list_bodies() -> Iterator[tuple[str, str, bytes]]:
    """Each with its provider, and the field in it that has the wrong kind."""
    for shape in NO_LISTS:
        for kind in ("created", "closed", "funds_withdrawn", "funds_reinstated"):
            body = stripe.dispute(kind, status="lost", balance_transactions=shape)
            yield "stripe", f"balance_transactions of {kind}", body
        yield (
            "stripe",
            "transactions, prevented",
            stripe.dispute("created", status="prevented", balance_transactions=shape),
        )
        yield "square", "processing_fee", square.of_payment("processing_fee", to=shape)
        yield (
            "square",
            "payout_fee",
            changed(square.payout("payout.paid"), "data", "object", "payout", "payout_fee", to=shape),
        )
        breakdown = {**paypal.BREAKDOWN, "platform_fees": shape}
        yield "paypal", "platform_fees", paypal.of_capture("seller_receivable_breakdown", to=breakdown)
        resource = {"dispute_id": "PP-D-1", "money_movements": shape}
        yield "paypal", "money_movements", paypal.about("CUSTOMER.DISPUTE.RESOLVED", resource)
        resource = {"dispute_id": "PP-D-1", "adjudications": shape}
        yield "paypal", "adjudications", paypal.about("CUSTOMER.DISPUTE.RESOLVED", resource)
    for shape in NO_OBJECTS:
        taken = stripe.charge(application_fee={} if shape == "x" else shape, **FEES)
        yield "stripe", "application_fee", stripe.event("charge.succeeded", taken)
        yield "square", "external_details", square.of_payment("external_details", to=shape)
        yield "paypal", "breakdown", paypal.of_capture("seller_receivable_breakdown", to=shape)
        yield "paypal", "breakdown of a refund", paypal.of_refund("seller_payable_breakdown", to=shape)
        breakdown = {**paypal.BREAKDOWN, "paypal_fee": shape}
        yield "paypal", "paypal_fee", paypal.of_capture("seller_receivable_breakdown", to=breakdown)
        resource = {"dispute_id": "PP-D-1", "dispute_outcome": shape}
        yield "paypal", "dispute_outcome", paypal.about("CUSTOMER.DISPUTE.RESOLVED", resource)
        for name in ("payment_method_details", "transfer_data"):
            told = stripe.charge(application_fee="fee_1", **FEES, **{name: shape})
            yield "stripe", name, stripe.event("charge.succeeded", told)
        yield "stripe", "destination_details", stripe.event("refund.created", stripe.refund(destination_details=shape))
        yield "stripe", "previous_attributes", stripe.event("charge.captured", stripe.charge(), shape)
        yield "mollie", "details", mollie.event("payment.paid", mollie.payment(method="paypal", details=shape))
        yield "square", "card_details", square.of_payment("card_details", to=shape)
        yield "square", "card", square.of_payment("card_details", to={"card": shape})
    yield "paypal", "a dispute without its id", paypal.about("CUSTOMER.DISPUTE.RESOLVED", {})
    taken = stripe.charge(captured=0, application_fee="fee_1", **(FEES | {"amount_captured": 700}))
    yield "stripe", "captured", stripe.event("charge.captured", taken)
    for shape in each("", "x", 0, True, False, None):
        untimed = {**stripe.transaction("txn_1", -1_000, 1), "created": shape}
        if type(shape) is not int:
            body = stripe.disputed("funds_withdrawn", "needs_response", untimed, stripe.transaction("txn_2", 1_000, 2))
            yield "stripe", "created of a balance transaction", body
            body = changed(razorpay.SETTLEMENT, "payload", "settlement", "entity", "currency", to=shape or "")
            yield "razorpay", "currency of a settlement", body
            yield "razorpay", "base_currency", razorpay.of_payment("base_currency", to=shape or "")
    for shape in each("", "0", False):
        lost = stripe.dispute("closed", status="lost", amount=shape, balance_transactions=...)
        yield "stripe", "amount of a lost dispute", lost
        unrefunded = stripe.charge(amount_refunded=shape, refunds=None)
        yield "stripe", "amount_refunded", stripe.event("charge.refunded", unrefunded)
        yield "razorpay", "fee", razorpay.of_payment("fee", to=shape)
        yield "razorpay", "fees", razorpay.of_payout("payout.processed", shape)
        for kind in ("created", "won", "lost"):
            body = razorpay.of_dispute("amount_deducted", to=shape, event_type=kind)
            yield "razorpay", f"amount_deducted, {kind}", body
    for shape in NO_LISTS:
        yield "adyenplatform", "balances", changed(adyenplatform.payout(), "data", "balances", to=shape)
    failed = adyenplatform.payout(status="failed")
    for name, value in (("category", None), ("category", "new"), ("direction", None), ("type", "new")):
        yield "adyenplatform", f"{name} of a transfer that failed", changed(failed, "data", name, to=value)


@pytest.mark.parametrize(("provider", "field", "body"), [*list_bodies()])
def test_a_field_of_the_wrong_kind_leaves_something_for_a_person(provider: str, field: str, body: bytes) -> None:
    adapter, failures = ADAPTERS[provider], []
    for event in adapter.events(Request(body, []), "live"):
        try:
            adapter.money(event.body, event.event_type)
        except (MoneyInvalid, MovementUnknown, Unparseable) as failure:
            failures.append(failure)
    assert failures, f"{field} of a wrong kind is passed over"
