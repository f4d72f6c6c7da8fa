"""Braintree's samples: what each is called and what it moved, and every kind of the SDK as the SDK reads it."""

from __future__ import annotations

import warnings
from datetime import UTC
from pathlib import Path
from urllib.parse import urlencode

import pytest

from core.money import MoneyInvalid
from providers import Request
from providers.braintree import LEFT_TO_A_PERSON
from tests.unit.providers.braintree_shapes import ADAPTER, Moved, moved
from tests.unit.providers.shapes import NO_MONEY, Row, names

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the SDK warns of names of its own
    from braintree import BraintreeGateway, Configuration, Environment
    from braintree.webhook_notification import WebhookNotification

SDK = BraintreeGateway(Configuration(Environment.Sandbox, "merchant", public_key="public", private_key="private"))
KINDS = sorted(kind for name, kind in vars(WebhookNotification.Kind).items() if not name.startswith("_"))

IDENTITIES: dict[str, Row] = {
    "DisputeOpened": (
        "braintree:dispute/my_id/2026-11-21T01%3A21%3A01Z:dispute_opened",
        "braintree::my_id",
        "braintree:my_id:dispute_opened",
        "dispute_opened",
        10_000,
        "USD",
        "2026-11-21T01:21:01+00:00",
    ),
    "SubscriptionChargedSuccessfully": (  # the SDK's transaction has no currency: it can't be booked
        "braintree:subscription/my_id/2026-11-21T01%3A21%3A01Z:subscription_charged_successfully",
        "braintree::my_id",
        *NO_MONEY,
        "2026-11-21T01:21:01+00:00",
    ),
    "TransactionSettled": (
        "braintree:transaction/my_id/2026-11-21T01%3A21%3A01Z:transaction_settled",
        "braintree::my_id",
        "braintree:my_id:capture",
        "capture",
        10_000,
        "USD",
        "2026-11-21T01:21:01+00:00",
    ),
    "pay_subscription_cancelled": (  # its transactions were settled long ago
        "braintree:subscription/358bw6/2021-02-15T18%3A13%3A22Z:subscription_canceled",
        "braintree::358bw6",
        *NO_MONEY,
        "2021-02-15T18:13:22+00:00",
    ),
}


def test_every_sample_is_named_and_books_as_written_down_by_hand(samples: Path) -> None:
    assert names(samples / "braintree") == sorted(IDENTITIES)
    for name, expected in IDENTITIES.items():
        (event,) = ADAPTER.events(Request((samples / f"braintree/{name}.form").read_bytes(), []), "live")
        assert event.occurred_at is not None
        if name == "SubscriptionChargedSuccessfully":
            with pytest.raises(MoneyInvalid):
                moved(event)
            booked: Moved | None = None
        else:
            booked = moved(event)
        reported = (
            event.event_key,
            event.entity_key,
            *(booked[:4] if booked else NO_MONEY),
            event.occurred_at.isoformat(),
        )
        assert reported == expected, name


MOVEMENTS = {
    "disbursement": "payout_paid",
    "dispute_accepted": "dispute_lost",
    "dispute_auto_accepted": "dispute_lost",
    "dispute_expired": "dispute_lost",
    "dispute_lost": "dispute_lost",
    "dispute_opened": "dispute_opened",
    "transaction_retried": "capture",
    "transaction_settled": "capture",
    "transaction_settlement_declined": "capture_failed",
}
"""Of the SDK's samples; every other kind moves nothing."""
SAMPLES_THAT_BOOK_NOTHING = {
    "dispute_won",
    "local_payment_funded",
    "subscription_charged_successfully",
    "transaction_disbursed",
}
"""One is won in part, the others name no currency."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_that_the_sdk_knows_is_read_as_the_sdk_reads_it(kind: str) -> None:
    sample = SDK.webhook_testing.sample_notification(kind, "my_id")
    *_, event = ADAPTER.events(Request(urlencode(sample).encode(), []), "live")
    read = SDK.webhook_notification.parse(sample["bt_signature"], sample["bt_payload"])
    assert (event.event_type, event.occurred_at) == (read.kind, read.timestamp.replace(tzinfo=UTC))
    assert event.poison is None
    try:
        booked = moved(event)
    except MoneyInvalid:
        assert kind in LEFT_TO_A_PERSON | SAMPLES_THAT_BOOK_NOTHING
        return
    assert (None if booked is None else booked[1]) == MOVEMENTS.get(kind)
