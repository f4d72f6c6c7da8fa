"""Checkout.com's webhook bodies of our own making."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from load.samples.sender import Sample, Samples, Sending, SignedRequest, tail


def payment_event(
    event_type: str,
    *,
    event_id: str,
    action: str,
    payment: str,
    amount_minor: int,
    currency: str,
    created: datetime,
    live: bool = True,
    delivery: int = 1,
) -> bytes:
    """``payment_approved``, ``payment_captured``, ``payment_refunded`` and their like: about 1.3 KB.

    ``action`` is the capture's or refund's own id. ``delivery`` numbers the deliveries of one event.
    """
    data: dict[str, Any] = {
        "id": payment,
        "action_id": action,
        "reference": f"order-{tail(payment)}",
        "amount": amount_minor,
        "currency": currency,
        "processed_on": _time(created),
        "response_code": "10000",
        "response_summary": "Approved",
        "balances": {
            "total_authorized": amount_minor,
            "total_voided": 0,
            "available_to_void": 0,
            "total_captured": amount_minor,
            "available_to_capture": 0,
            "total_refunded": amount_minor if event_type == "payment_refunded" else 0,
            "available_to_refund": 0,
        },
        "metadata": {"coupon": "SPRING", "basket": f"basket-{tail(payment)}"},
        "processing": {"acquirer_transaction_id": "sample-8657497", "acquirer_reference_number": "sample-1075481"},
        "event_links": {
            "payment": f"{_host(live)}/payments/{payment}",
            "payment_actions": f"{_host(live)}/payments/{payment}/actions",
            "refund": f"{_host(live)}/payments/{payment}/refunds",
        },
    }
    return _event(event_type, "gateway", event_id, data, created, live, delivery)


def dispute_event(
    event_type: str,
    *,
    event_id: str,
    dispute: str,
    payment: str,
    amount_minor: int,
    currency: str,
    created: datetime,
    live: bool = True,
    delivery: int = 1,
) -> bytes:
    """``dispute_evidence_required``, ``dispute_won``, ``dispute_lost`` and their like: about 0.9 KB."""
    data: dict[str, Any] = {
        "id": dispute,
        "date": _time(created),
        "category": "fraudulent",
        "amount": amount_minor,
        "currency": currency,
        "reason_code": "10.4",
        "payment_id": payment,
        "payment_action_id": f"act_{tail(payment)}",
        "payment_reference": f"order-{tail(payment)}",
        "payment_method": "VISA",
        "client_id": "cli_sampletraders0000000000",
        "processing_channel_id": "pc_sampletraders0000000000",
        "entity_id": "ent_sampletraders000000000",
    }
    return _event(event_type, "dispute", event_id, data, created, live, delivery)


def _event(
    event_type: str, source: str, event_id: str, data: dict[str, Any], created: datetime, live: bool, delivery: int
) -> bytes:
    host = _host(live)
    invocation = f"{host}/workflows/events/{event_id}/actions/wfa_sample00000000000000000"
    event = {
        "id": event_id,
        "source": source,
        "type": event_type,
        "version": "1.0.29",
        "created_on": _time(created),
        "data": data,
        "action_invocations": [
            {
                "workflow_id": "wf_sample000000000000000000",
                "workflow_action_id": "wfa_sample00000000000000000",
                "status": "pending" if delivery == 1 else "unsuccessful",
                "_links": {"self": {"href": invocation}},
            }
        ],
        "_links": {
            "self": {"href": f"{host}/workflows/events/{event_id}"},
            "subject": {"href": f"{host}/workflows/events/subject/{data['id']}"},
        },
    }
    return orjson.dumps(event)


def _host(live: bool) -> str:
    return "https://sample.api.checkout.com" if live else "https://sample.api.sandbox.checkout.com"


def _time(moment: datetime) -> str:
    """Formats a time with seven digits of fraction, as Checkout.com does."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "0Z"


def _sample(sample: Sample) -> bytes:
    return payment_event(
        "payment_refunded",
        event_id=f"evt_{sample.event}",
        action=f"act_{sample.movement}",
        payment=f"pay_{sample.payment}",
        delivery=sample.delivery,
        **sample.money,
    )


def _others() -> list[bytes]:
    paid: dict[str, Any] = {"event_id": "evt_1", "payment": "pay_1", **Sample().money}
    payments, disputes = ("approved", "captured", "returned"), ("accepted", "lost", "resolved", "arbitration_won")
    return [
        *(payment_event(f"payment_{stage}", action="act_1", **paid) for stage in payments),
        *(dispute_event(f"dispute_{stage}", dispute="dsp_1", **paid) for stage in ("evidence_required", *disputes)),
    ]


def _sign(sending: Sending) -> SignedRequest:
    return sending.posted({"Cko-Signature": sending.hex_mac()})


SAMPLES = Samples(_sample, _sign, _others)
