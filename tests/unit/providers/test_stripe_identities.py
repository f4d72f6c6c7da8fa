"""Stripe's public samples: what each event is called, what order is kept for, and what money it moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from providers import Adapter
from tests.unit.providers.shapes import NO_MONEY, Row, only, row

EVENT, OLD_EVENT = "stripe:evt_000000000000000000000000", "stripe:evt_00000000000000"
INTENT, CHARGE = "stripe::pi_000000000000000000000000", "stripe::ch_000000000000000000000000"

IDENTITIES: dict[str, Row] = {
    "charge.succeeded": (
        f"{EVENT}:charge.succeeded",
        INTENT,
        "stripe:ch_000000000000000000000000:capture",
        "capture",
        2_000,
        "USD",
        "2022-03-26T18:40:32+00:00",
    ),
    "charge.failed": (f"{EVENT}:charge.failed", INTENT, *NO_MONEY, "2022-03-26T18:40:28+00:00"),
    # The only refund of the charge: its total grew from 0 to 100. The charge has no payment intent.
    "charge.refunded": (
        f"{EVENT}:charge.refunded",
        CHARGE,
        "stripe:re_000000000000000000000000:refund",
        "refund",
        100,
        "USD",
        "2022-03-26T18:39:09+00:00",
    ),
    # Its status is warning_needs_response: an inquiry, nothing was withdrawn.
    "charge.dispute.created": (f"{EVENT}:charge.dispute.created", CHARGE, *NO_MONEY, "2022-03-26T18:39:00+00:00"),
    "charge.dispute.funds_withdrawn": (
        f"{OLD_EVENT}:charge.dispute.funds_withdrawn",
        "stripe::ch_00000000000000",
        "stripe:dp_00000000000000:dispute_opened",
        "dispute_opened",
        25_000,
        "USD",
        "2012-01-18T02:24:38+00:00",
    ),
    "payout.paid": (
        f"{EVENT}:payout.paid",
        "stripe::po_000000000000000000000000",
        "stripe:po_000000000000000000000000:payout_paid",
        "payout_paid",
        1_100,
        "USD",
        "2022-03-26T18:40:45+00:00",
    ),
    # An intent reports what its charge books.
    "payment_intent.succeeded": (f"{EVENT}:payment_intent.succeeded", INTENT, *NO_MONEY, "2022-03-26T18:40:33+00:00"),
    "payment_intent.created": (f"{EVENT}:payment_intent.created", INTENT, *NO_MONEY, "2022-03-26T18:40:32+00:00"),
    "payment_intent.processing": (
        f"{OLD_EVENT}:payment_intent.processing",
        "stripe::pi_00000000000000",
        *NO_MONEY,
        "2020-01-08T15:58:29+00:00",
    ),
    "payment_intent.requires_action": (
        f"{EVENT}:payment_intent.requires_action",
        INTENT,
        *NO_MONEY,
        "2022-03-26T18:40:04+00:00",
    ),
    "payment_intent.payment_failed": (
        f"{EVENT}:payment_intent.payment_failed",
        INTENT,
        *NO_MONEY,
        "2022-03-26T18:40:29+00:00",
    ),
    "payment_intent.amount_capturable_updated": (
        f"{EVENT}:payment_intent.amount_capturable_updated",
        INTENT,
        *NO_MONEY,
        "2022-03-26T18:40:22+00:00",
    ),
    "checkout.session.completed.payment_mode": (
        f"{OLD_EVENT}:checkout.session.completed",
        "stripe::pi_00000000000000",
        *NO_MONEY,
        "2012-01-18T02:24:38+00:00",
    ),
    # A draft: nobody has tried to pay it, so it is an entity of its own.
    "invoice.created": (
        f"{EVENT}:invoice.created",
        "stripe::in_000000000000000000000000",
        *NO_MONEY,
        "2022-03-26T18:41:50+00:00",
    ),
    "invoice.paid": (f"{EVENT}:invoice.paid", INTENT, *NO_MONEY, "2022-03-26T18:40:15+00:00"),
    "customer.subscription.updated": (
        f"{EVENT}:customer.subscription.updated",
        "stripe::sub_000000000000000000000000",
        *NO_MONEY,
        "2022-03-26T18:41:46+00:00",
    ),
    "setup_intent.created": (
        f"{EVENT}:setup_intent.created",
        "stripe::seti_000000000000000000000000",
        *NO_MONEY,
        "2022-03-26T19:12:12+00:00",
    ),
    "mandate.updated": (
        f"{OLD_EVENT}:mandate.updated",
        "stripe::mandate_000000000000000000000000",
        *NO_MONEY,
        "2012-01-18T02:24:38+00:00",
    ),
    "openapi_event_plan.created": (
        "stripe:evt_1Pgc76B7WZ01zgkWwyRHS12y:plan.created",
        "stripe::price_1PgafmB7WZ01zgkW6dKueIc5",
        *NO_MONEY,
        "2009-02-13T23:31:30+00:00",
    ),
    # A connected account's event.
    "vector_dotnet_v1_v0": (
        "stripe:evt_123:customer.created",
        "stripe:acct_123:cus_123",
        *NO_MONEY,
        "2018-08-02T10:10:20+00:00",
    ),
    # A thin event that is related to nothing.
    "thin_v2_billing_meter_error": (
        "stripe:evt_234:v1.billing.meter.error_report_triggered",
        "stripe::evt_234",
        *NO_MONEY,
        "2022-02-15T00:27:45.330000+00:00",
    ),
}
"""By sample; the payloads were read, and times in Unix seconds converted, without the adapter."""
LIVE = {"thin_v2_billing_meter_error"}


@pytest.mark.parametrize("name", IDENTITIES)
def test_each_sample_is_named_and_books_as_written_down(samples: Path, adapter: Adapter, name: str) -> None:
    body = (samples / f"stripe/{name}.json").read_bytes()
    assert row(adapter, body) == IDENTITIES[name]
    assert only(adapter, body).mode == ("live" if name in LIVE else "test")
