"""Requests of Stripe."""

from __future__ import annotations

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
