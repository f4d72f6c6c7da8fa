"""GoCardless's webhook bodies of our own making: batches of events, without amounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from load.samples.sender import Sample, Samples, Sending, SignedRequest


@dataclass(frozen=True, slots=True)
class GoCardlessEvent:
    """One event of a batch. ``links`` names what it is about: payment, refund, mandate, payout, subscription, ..."""

    event_id: str
    resource_type: str
    action: str
    links: dict[str, str]
    created: datetime
    cause: str = "payment_confirmed"
    organisation: str = ""
    """The merchant, in the webhooks of a partner's app."""


def batch(events: Sequence[GoCardlessEvent], delivery: int = 1) -> bytes:
    """A webhook of about 0.4 KB an event. ``delivery`` numbers the deliveries: each has an id of its own."""
    meta = {"webhook_id": f"WB{delivery:012d}"}
    return orjson.dumps({"events": [_event(event) for event in events], "meta": meta})


def payment_event(
    action: str,
    *,
    event_id: str,
    payment: str,
    created: datetime,
    organisation: str = "",
    delivery: int = 1,
) -> bytes:
    """A batch of one: ``submitted``, ``confirmed``, ``paid_out``, ``failed``, ... of a payment."""
    event = GoCardlessEvent(
        event_id, "payments", action, {"payment": payment}, created, f"payment_{action}", organisation
    )
    return batch([event], delivery)


def _event(event: GoCardlessEvent) -> dict[str, Any]:
    subject = event.resource_type.removesuffix("s").replace("_", " ").capitalize()
    links = {**event.links, "organisation": event.organisation} if event.organisation else event.links
    return {
        "id": event.event_id,
        "created_at": event.created.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "resource_type": event.resource_type,
        "action": event.action,
        "links": links,
        "details": {
            "origin": "gocardless",
            "cause": event.cause,
            "description": f"{subject} {event.action.replace('_', ' ')}. The bank had its time to say no.",
        },
        "metadata": {},
        "resource_metadata": {"order": f"order-{event.event_id}"},
    }


def _sample(samples: Sequence[Sample]) -> bytes:
    events = [
        GoCardlessEvent(
            sample.event,
            "refunds",
            "created",
            {"payment": sample.payment, "refund": sample.movement, "amount": str(sample.amount_minor)},
            sample.at,
            organisation=sample.account,
        )
        for sample in samples
    ]
    return batch(events, delivery=samples[0].delivery)


def _others() -> list[bytes]:
    actions = ("confirmed", "paid_out", "charged_back")
    return [payment_event(one, event_id="EV1", payment="PM1", created=Sample().at) for one in actions]


def _sign(sending: Sending) -> SignedRequest:
    return sending.posted({"Webhook-Signature": sending.hex_mac()})


SAMPLES = Samples(lambda sample: _sample([sample]), _sign, _others, batch=_sample, books=False)
