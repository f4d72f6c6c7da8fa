"""Requests of Checkout.com."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from load.samples import checkout
from tests.contract.adapter_cases.case import NOW, Case, Told


class CheckoutCase(Case):
    name = "checkout"
    secrets = ("new-secret-of-the-suite", "old-secret-of-the-suite")
    signature_headers = (b"cko-signature",)

    def body(self, told: Told) -> bytes:
        return checkout.payment_event(
            "payment_refunded",
            event_id=f"evt_{told.event}",
            action=f"act_{told.movement}",
            payment=f"pay_{told.payment}",
            amount_minor=told.amount_minor,
            currency="EUR",
            created=NOW,
            delivery=told.delivery,
        )

    def others(self) -> Sequence[bytes]:
        common: dict[str, Any] = {"event_id": "evt_1", "amount_minor": 1_250, "currency": "EUR", "created": NOW}
        return [
            checkout.payment_event("payment_approved", action="act_1", payment="pay_1", **common),
            checkout.payment_event("payment_captured", action="act_1", payment="pay_1", **common),
            checkout.payment_event("payment_returned", action="act_1", payment="pay_1", **common),
            *(
                checkout.dispute_event(f"dispute_{stage}", dispute="dsp_1", payment="pay_1", **common)
                for stage in ("evidence_required", "accepted", "lost", "resolved", "arbitration_won")
            ),
        ]
