"""Mollie's webhook bodies of our own making, next-gen and classic, and what its API answers for a payment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from core.money import decimals_of
from load.samples.sender import Sample, Samples, Sending, SignedRequest

Object = dict[str, Any]

_PAYMENT_TIMES = {
    "authorized": "authorizedAt",
    "paid": "paidAt",
    "canceled": "canceledAt",
    "expired": "expiredAt",
    "failed": "failedAt",
}


def nextgen_event(
    event_type: str, *, event_id: str, entity: str, created: datetime, snapshot: Object | None = None
) -> bytes:
    """A next-gen event of about 1.1 KB with the ``snapshot`` of what it is about; without one, the simple payload."""
    event: Object = {
        "resource": "event",
        "id": event_id,
        "type": event_type,
        "entityId": entity,
        "createdAt": _time(created),
        "_links": {
            "self": _link(f"webhook-events/{event_id}"),
            "documentation": {"href": "https://docs.example.com/webhook-events", "type": "text/html"},
        },
    }
    if snapshot is not None:
        event["_embedded"] = {"entity": snapshot}
    return orjson.dumps(event)


def classic_delivery(reference: str) -> bytes:
    """All that a classic webhook says."""
    return b"id=" + reference.encode("ascii")


def fetched(resource: Object, **embedded: Sequence[Object]) -> bytes:
    """Returns what Mollie's API answers: a payment with its captures, refunds and chargebacks, or an order with its
    own."""
    return orjson.dumps({**resource, "_embedded": {name: list(found) for name, found in embedded.items()}})


def payment(
    reference: str,
    *,
    amount_minor: int,
    currency: str,
    created: datetime,
    status: str = "paid",
    mode: str = "live",
    captured_minor: int | None = None,
    manual: bool = False,
) -> Object:
    """A payment; ``captured_minor`` where Mollie says how much of it was captured."""
    made: Object = {
        "resource": "payment",
        "id": reference,
        "mode": mode,
        "createdAt": _time(created),
        "amount": money(amount_minor, currency),
        "amountRefunded": money(0, currency),
        "amountRemaining": money(amount_minor, currency),
        "description": f"Order {reference[3:]}",
        "method": "creditcard",
        "metadata": {"order": reference[3:]},
        "status": status,
        "profileId": "pfl_sampletraders",
        "sequenceType": "oneoff",
        "details": {"cardLabel": "Mastercard", "cardNumber": "0009", "cardHolder": "A. Sample"},
        "_links": {"self": _link(f"payments/{reference}")},
    }
    if status in _PAYMENT_TIMES:
        made[_PAYMENT_TIMES[status]] = _time(created)
    if captured_minor is not None:
        made["amountCaptured"] = money(captured_minor, currency)
    if manual:
        made["captureMode"] = "manual"
    return made


def order(reference: str, *, amount_minor: int, currency: str, created: datetime, mode: str = "live") -> Object:
    """An order, whose payments and refunds are embedded."""
    return {
        "resource": "order",
        "id": reference,
        "mode": mode,
        "createdAt": _time(created),
        "amount": money(amount_minor, currency),
        "status": "paid",
        "orderNumber": reference[4:],
        "_links": {"self": _link(f"orders/{reference}")},
    }


def capture(
    reference: str, *, of: str, amount_minor: int, currency: str, created: datetime, status: str = "succeeded"
) -> Object:
    """A capture of a payment whose captures are made by hand."""
    return _part("capture", reference, of, amount_minor, currency, created) | {"status": status}


def refund(
    reference: str, *, of: str, amount_minor: int, currency: str, created: datetime, status: str = "refunded"
) -> Object:
    """A refund of a payment."""
    part = _part("refund", reference, of, amount_minor, currency, created)
    return part | {"status": status, "description": "two cups arrived broken"}


def chargeback(
    reference: str,
    *,
    of: str,
    amount_minor: int,
    currency: str,
    created: datetime,
    reversed_at: datetime | None = None,
) -> Object:
    """A chargeback of a payment."""
    part = _part("chargeback", reference, of, amount_minor, currency, created)
    return part | {"reversedAt": None if reversed_at is None else _time(reversed_at), "reason": None}


def payout(reference: str, *, amount_minor: int, currency: str, created: datetime, status: str = "completed") -> Object:
    """A payout to the merchant's bank account."""
    return {
        "resource": "payout",
        "id": reference,
        "mode": "live",
        "balanceId": "bal_sampletraders",
        "amount": money(amount_minor, currency),
        "status": status,
        "createdAt": _time(created),
        "completedAt": _time(created) if status == "completed" else None,
        "_links": {"self": _link(f"payouts/{reference}")},
    }


def money(amount_minor: int, currency: str) -> Object:
    """``{"currency": "EUR", "value": "10.00"}``"""
    decimals = decimals_of(currency)
    digits = str(abs(amount_minor)).rjust(decimals + 1, "0")
    value = f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits
    return {"currency": currency, "value": f"-{value}" if amount_minor < 0 else value}


def _part(kind: str, reference: str, of: str, amount_minor: int, currency: str, created: datetime) -> Object:
    return {
        "resource": kind,
        "id": reference,
        "mode": "live",
        "amount": money(amount_minor, currency),
        "paymentId": of,
        "createdAt": _time(created),
        "_links": {"self": _link(f"payments/{of}/{kind}s/{reference}"), "payment": _link(f"payments/{of}")},
    }


def _link(path: str) -> Object:
    return {"href": f"https://api.example.com/v2/{path}", "type": "application/hal+json"}


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _sample(sample: Sample) -> bytes:
    given_back = refund(f"re_{sample.movement}", of=f"tr_{sample.payment}", **sample.money)
    body = orjson.loads(
        nextgen_event(
            "refund.refunded",
            event_id=f"event_{sample.event}",
            entity=given_back["id"],
            created=sample.at,
            snapshot=given_back,
        )
    )
    body["_links"]["self"]["href"] = f"https://api.example.com/{sample.delivery}"
    return orjson.dumps(body)


def _others() -> list[bytes]:
    common = Sample().money
    snapshots = {
        "payment.paid": payment("tr_1", captured_minor=1_250, **common),
        "capture.succeeded": capture("cpt_1", of="tr_1", **common),
        "business-account-transfer.processed": payout("batr_1", **common),
        "chargeback.reversed": chargeback("chb_1", of="tr_1", reversed_at=Sample().at, **common),
        "payout.completed": payout("po_1", **common),
    }
    return [
        nextgen_event(kind, event_id="event_1", entity=found["id"], created=Sample().at, snapshot=found)
        for kind, found in snapshots.items()
    ]


def _sign(sending: Sending) -> SignedRequest:
    return sending.posted({"X-Mollie-Signature": f"sha256={sending.hex_mac()}"})


SAMPLES = Samples(_sample, _sign, _others)
