"""Requests of Paddle Billing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from load.samples import paddle
from tests.contract.adapter_cases.case import NOW, Case, Told


class PaddleCase(Case):
    name = "paddle"
    secrets = ("pdl_ntfset_new_of_the_suite", "pdl_ntfset_old_of_the_suite")
    signature_headers = (b"paddle-signature",)
    tolerance_s = 60

    def body(self, told: Told) -> bytes:
        return paddle.adjustment_event(
            "adjustment.created",
            event_id=f"evt_{told.event}",
            adjustment=f"adj_{told.movement}",
            transaction=f"txn_{told.payment}",
            amount_minor=told.amount_minor,
            currency="EUR",
            occurred_at=NOW,
            delivery=told.delivery,
        )

    def others(self) -> Sequence[bytes]:
        common: dict[str, Any] = {"event_id": "evt_1", "amount_minor": 1_250, "currency": "EUR", "occurred_at": NOW}
        return [
            paddle.transaction_event("transaction.completed", transaction="txn_1", **common),
            paddle.adjustment_event(
                "adjustment.updated", adjustment="adj_1", transaction="txn_1", action="chargeback", **common
            ),
            paddle.payout_event("payout.paid", payout="pay_1", **common),
        ]
