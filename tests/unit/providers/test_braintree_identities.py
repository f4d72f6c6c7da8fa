"""Braintree: every kind that the SDK knows is read as the SDK reads it."""

from __future__ import annotations

import warnings
from datetime import UTC
from urllib.parse import urlencode

import pytest

from core.money import MoneyInvalid
from providers import Request
from providers.braintree_money import EVENT_TYPES
from tests.unit.providers.samples.braintree import ADAPTER

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the SDK warns of names of its own
    from braintree import BraintreeGateway, Configuration, Environment
    from braintree.webhook_notification import WebhookNotification

SDK = BraintreeGateway(Configuration(Environment.Sandbox, "merchant", public_key="public", private_key="private"))
KINDS = sorted(kind for name, kind in vars(WebhookNotification.Kind).items() if not name.startswith("_"))

MOVEMENTS = {
    "disbursement": "payout_paid",
    "dispute_accepted": "dispute_lost",
    "dispute_auto_accepted": "dispute_lost",
    "dispute_expired": "dispute_lost",
    "dispute_lost": "dispute_lost",
    "dispute_opened": "dispute_opened",
    "dispute_won": "dispute_won",
    "transaction_retried": "capture",
    "transaction_settled": "capture",
    "transaction_settlement_declined": "capture_failed",
}
"""Of the SDK's samples; every other kind moves nothing."""
SAMPLES_THAT_BOOK_NOTHING = {
    "local_payment_funded",
    "refund_failed",
    "subscription_charged_successfully",
    "transaction_disbursed",
}
"""They name no currency."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_that_the_sdk_knows_is_read_as_the_sdk_reads_it(kind: str) -> None:
    sample = SDK.webhook_testing.sample_notification(kind, "my_id")
    *_, event = ADAPTER.events(Request(urlencode(sample).encode(), []), "live")
    read = SDK.webhook_notification.parse(sample["bt_signature"], sample["bt_payload"])
    assert (event.event_type, event.occurred_at) == (read.kind, read.timestamp.replace(tzinfo=UTC))
    assert event.poison is None
    try:
        fact = ADAPTER.money(event.body, event.event_type)
    except MoneyInvalid:
        assert kind in EVENT_TYPES.person | SAMPLES_THAT_BOOK_NOTHING
        return
    assert (None if fact is None else fact.movement.value) == MOVEMENTS.get(kind)
