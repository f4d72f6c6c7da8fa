"""Requests of Mollie's next-gen webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from load.samples import mollie
from tests.contract.adapter_cases.case import NOW, Case, Told


class MollieCase(Case):
    name = "mollie"
    secrets = ("new-secret-of-the-suite", "old-secret-of-the-suite")
    signature_headers = (b"x-mollie-signature",)

    def body(self, told: Told) -> bytes:
        refund = mollie.refund(
            f"re_{told.movement}", of=f"tr_{told.payment}", amount_minor=told.amount_minor, currency="EUR", created=NOW
        )
        body = mollie.nextgen_event(
            "refund.refunded", event_id=f"event_{told.event}", entity=refund["id"], created=NOW, snapshot=refund
        )
        return self.spoiled(body, ("_links", "self", "href"), f"https://api.example.com/{told.delivery}")

    def others(self) -> Sequence[bytes]:
        common: dict[str, Any] = {"amount_minor": 1_250, "currency": "EUR", "created": NOW}
        told = {
            "payment.paid": mollie.payment("tr_1", captured_minor=1_250, **common),
            "capture.succeeded": mollie.capture("cpt_1", of="tr_1", **common),
            "business-account-transfer.processed": mollie.payout("batr_1", **common),
            "chargeback.reversed": mollie.chargeback("chb_1", of="tr_1", reversed_at=NOW, **common),
            "payout.completed": mollie.payout("po_1", **common),
        }
        return [
            mollie.nextgen_event(kind, event_id="event_1", entity=resource["id"], created=NOW, snapshot=resource)
            for kind, resource in told.items()
        ]
