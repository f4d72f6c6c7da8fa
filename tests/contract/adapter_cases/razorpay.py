"""Requests of Razorpay, whose events are named by their time and by what they are about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from load.samples import razorpay
from tests.contract.adapter_cases.case import NOW, Case, Told, number_in


class RazorpayCase(Case):
    name = "razorpay"
    secrets = ("new-secret-of-the-suite", "old-secret-of-the-suite")
    signature_headers = (b"x-razorpay-signature",)

    def body(self, told: Told) -> bytes:
        return razorpay.refund_event(
            "refund.created",
            refund=f"rfnd_{told.movement}",
            payment=f"pay_{told.payment}",
            account=f"acc_{told.account}",
            amount_minor=told.amount_minor,
            currency="EUR",
            created=NOW + timedelta(seconds=number_in(told.event)),
            paid_minor=5_000,
        )

    def others(self) -> Sequence[bytes]:
        common: dict[str, Any] = {"account": "acc_1", "amount_minor": 1_250, "created": NOW}
        paid = common | {"currency": "INR"}
        return [
            *(razorpay.payment_event(one, payment="pay_1", **paid) for one in ("payment.captured", "payment.failed")),
            razorpay.refund_event("refund.failed", refund="rfnd_1", payment="pay_1", **paid),
            razorpay.dispute_event("payment.dispute.created", dispute="disp_1", payment="pay_1", **paid),
            razorpay.dispute_event("payment.dispute.lost", dispute="disp_1", payment="pay_1", **paid),
            razorpay.settlement_event(settlement="setl_1", **common),
            *(razorpay.payout_event(one, payout="pout_1", **paid) for one in ("payout.processed", "payout.failed")),
        ]
