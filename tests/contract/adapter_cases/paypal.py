"""Requests of PayPal, signed with a key and a certificate of our own; the certificate is at hand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from core.clock import to_rfc3339
from load.samples.paypal import capture_event, dispute_event, payout_item_event, refund_event
from providers import Request
from tests.contract.adapter_cases.case import NOW, SAMPLE, Case, Told
from tests.paypal_signer import LIVE_URL, delivery


class PayPalCase(Case):
    """Which certificate a request names isn't signed: another one of PayPal's would be another key."""

    name = "paypal"
    secrets = ("1AB23456CD789012E", "9ZY87654XW321098V")
    signature_headers = (
        b"paypal-transmission-id",
        b"paypal-transmission-time",
        b"paypal-transmission-sig",
        b"paypal-auth-algo",
    )
    fetched_from = LIVE_URL
    tolerance_s = 300
    taken_s = 4 * 86_400

    def body(self, told: Told) -> bytes:
        return refund_event(
            "PAYMENT.CAPTURE.REFUNDED",
            event_id=told.event,
            refund=told.movement,
            capture=told.payment,
            merchant=told.account,
            value=f"{told.amount_minor // 100}.{told.amount_minor % 100:02}",
            currency="EUR",
            created=NOW,
            delivery=told.delivery,
        )

    def request(self, body: bytes, secret: str, told: Told = SAMPLE) -> Request:
        transmission_id = hashlib.sha256(body).hexdigest()[:36]
        return delivery(body, secret, transmission_id=transmission_id, time=to_rfc3339(NOW))

    def others(self) -> Sequence[bytes]:
        common: dict[str, Any] = {"event_id": "WH-1", "value": "12.50", "currency": "EUR", "created": NOW}
        return [
            capture_event("PAYMENT.CAPTURE.COMPLETED", capture="cap1", order="ord1", merchant="m1", **common),
            dispute_event("CUSTOMER.DISPUTE.CREATED", dispute="PP-1", capture="cap1", merchant="m1", **common),
            payout_item_event("PAYMENT.PAYOUTS-ITEM.SUCCEEDED", item="item1", batch="batch1", **common),
        ]
