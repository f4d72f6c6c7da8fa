"""Requests of Stripe."""

from __future__ import annotations

from collections.abc import Sequence

from load.webhooks import stripe_event
from tests.contract.adapter_cases.case import NOW, Case, Told


class StripeCase(Case):
    name = "stripe"
    secrets = ("whsec_new_of_the_suite", "whsec_old_of_the_suite")
    signature_headers = (b"stripe-signature",)
    tolerance_s = 300

    def body(self, told: Told) -> bytes:
        body = stripe_event(
            f"evt_{told.event}",
            "refund.created",
            payment=f"pi_{told.payment}",
            account=f"acct_{told.account}",
            amount_minor=told.amount_minor,
            currency="EUR",
            created=NOW,
            object_id=f"re_{told.movement}",
        )
        return self.spoiled(body, ("pending_webhooks",), told.delivery)

    def others(self) -> Sequence[bytes]:
        types = (
            "charge.captured",
            "charge.refunded",
            "charge.dispute.created",
            "charge.dispute.closed",
            "payout.paid",
            "payout.failed",
            "refund.failed",
            "payment_intent.succeeded",
            "customer.created",
        )
        return [
            stripe_event(
                "evt_1", one, payment="pi_1", account="acct_1", amount_minor=1_250, currency="EUR", created=NOW
            )
            for one in types
        ]
