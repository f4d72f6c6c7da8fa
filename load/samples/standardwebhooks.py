"""Standard Webhooks of our own making, laid out as the default JSON pointers have it."""

from __future__ import annotations

import base64
import secrets as random_secrets
from datetime import datetime

import orjson

from core.money import Movement
from load.samples.sender import Sample, Samples, Sending, SignedRequest, tail
from providers.settings import MoneyRule, StandardWebhooksSettings
from providers.signature import base64_mac


def standard_event(
    event_type: str,
    *,
    payment: str,
    account: str,
    amount_minor: int,
    currency: str,
    occurred_at: datetime,
) -> bytes:
    """A Standard Webhooks body of about 0.4 KB, laid out as the default JSON pointers have it."""
    subject = {
        "id": f"mv_{tail(payment)}",
        "payment": payment,
        "account": account,
        "amount": amount_minor,
        "currency": currency.upper(),
        "status": event_type.rpartition(".")[2],
        "method": {"type": "bank_transfer", "bank": "Example Savings Bank", "country": "NL"},
        "payer": {"name": "Robin Sample", "email": "robin@example.com", "reference": f"invoice-{tail(payment)}"},
        "links": {"self": f"https://api.example.com/payments/{payment}", "receipt": None},
    }
    return orjson.dumps({"type": event_type, "timestamp": occurred_at.isoformat(), "data": subject})


def _sample(sample: Sample) -> bytes:
    body = orjson.loads(
        standard_event(
            "refund.created",
            payment=sample.payment,
            account=sample.account,
            amount_minor=sample.amount_minor,
            currency=sample.currency,
            occurred_at=sample.at,
        )
    )
    return orjson.dumps(body | {"data": body["data"] | {"id": sample.movement}})


def _sign(sending: Sending) -> SignedRequest:
    encoded = sending.secret.removeprefix("whsec_")
    key = base64.b64decode(encoded + "=" * (-len(encoded) % 4))
    message_id = sending.event_id or "msg_" + random_secrets.token_hex(12)
    signature = base64_mac(key, f"{message_id}.{sending.at_s}.".encode() + sending.body)
    headers = {"webhook-id": message_id, "webhook-timestamp": str(sending.at_s)}
    return sending.posted(headers | {"webhook-signature": f"v1,{signature.decode()}"})


_MONEY = (MoneyRule(event_type="refund.created", movement=Movement.REFUND, id="/data/id"),)
SAMPLES = Samples(
    _sample, _sign, settings={"standardwebhooks": StandardWebhooksSettings(money=_MONEY)}, tolerance_s=300
)
