"""Requests of Standard Webhooks senders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from core.money import Movement
from load.webhooks import standard_event
from providers import MoneyRule, StandardWebhooksSettings
from tests.contract.adapter_cases.case import NOW, Case, Told


class StandardWebhooksCase(Case):
    """The event's id is in a signed header; where the money is, settings say."""

    name = "standardwebhooks"
    secrets = ("whsec_bmV3LW9mLXRoZS1zdWl0ZQ==", "whsec_b2xkLW9mLXRoZS1zdWl0ZQ==")
    signature_headers = (b"webhook-id", b"webhook-timestamp", b"webhook-signature")
    settings: ClassVar[Mapping[str, Any]] = {
        "standardwebhooks": StandardWebhooksSettings(
            money=(MoneyRule(event_type="refund.created", movement=Movement.REFUND, id="/data/id"),)
        )
    }
    tolerance_s = 300

    def body(self, told: Told) -> bytes:
        body = standard_event(
            "refund.created",
            payment=told.payment,
            account=told.account,
            amount_minor=told.amount_minor,
            currency="EUR",
            occurred_at=NOW,
        )
        return self.spoiled(body, ("data", "id"), told.movement)
