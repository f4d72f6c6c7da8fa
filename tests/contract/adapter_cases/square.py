"""Requests of Square, which signs the notification URL with the body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from load.samples import square
from providers.settings import SquareSettings
from tests.contract.adapter_cases.case import NOW, Case, Told


class SquareCase(Case):
    name = "square"
    secrets = ("new-secret-of-the-suite", "old-secret-of-the-suite")
    signature_headers = (b"x-square-hmacsha256-signature",)
    settings: ClassVar[Mapping[str, Any]] = {
        "square": SquareSettings(notification_urls={"default": "https://hooks.example.com/webhooks/square"})
    }

    def body(self, told: Told) -> bytes:
        return square.refund_event(
            "refund.created",
            event_id=told.event,
            refund=told.movement,
            payment=told.payment,
            account=told.account,
            amount_minor=told.amount_minor,
            currency="EUR",
            created=NOW,
        )

    def others(self) -> Sequence[bytes]:
        common: dict[str, Any] = {
            "event_id": "e1",
            "account": "a1",
            "amount_minor": 1_250,
            "currency": "EUR",
            "created": NOW,
        }
        return [
            square.payment_event("payment.updated", payment="p1", **common),
            square.dispute_event("dispute.created", dispute="d1", payment="p1", **common),
            square.dispute_event("dispute.state.updated", dispute="d1", payment="p1", state="LOST", **common),
            square.payout_event("payout.sent", payout="po1", **common),
        ]
