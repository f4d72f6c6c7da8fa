"""Razorpay's webhook bodies of our own making: an event is named by what is in it, its id is in a header."""

from __future__ import annotations

import secrets as random_secrets
from datetime import datetime, timedelta
from typing import Any

import orjson

from load.samples.sender import Sample, Samples, Sending, SignedRequest, tail

Entity = dict[str, Any]


def payment_event(
    event_type: str, *, payment: str, account: str, amount_minor: int, currency: str, created: datetime
) -> bytes:
    """``payment.authorized``, ``payment.captured``, ``payment.failed``: about 0.7 KB."""
    return _event(event_type, account, created, payment=_payment(event_type, payment, amount_minor, currency, created))


def refund_event(
    event_type: str,
    *,
    refund: str,
    payment: str,
    account: str,
    amount_minor: int,
    currency: str,
    created: datetime,
    paid_minor: int | None = None,
) -> bytes:
    """``refund.created``, ``refund.processed``, ``refund.failed``: about 1.1 KB.

    ``paid_minor`` is the payment's amount, by default the refund's.
    """
    paid = amount_minor if paid_minor is None else paid_minor
    entity: Entity = {
        "id": refund,
        "entity": "refund",
        "amount": amount_minor,
        "currency": currency,
        "payment_id": payment,
        "notes": {"reason": "two cups arrived broken"},
        "receipt": None,
        "acquirer_data": {"arn": None},
        "created_at": _seconds(created),
        "batch_id": None,
        "status": "failed" if event_type == "refund.failed" else "processed",
        "speed_processed": "normal",
        "speed_requested": "optimum",
    }
    refunded = {
        **_payment("payment.captured", payment, paid, currency, created),
        "amount_refunded": amount_minor,
        "refund_status": "full" if paid == amount_minor else "partial",
    }
    return _event(event_type, account, created, refund=entity, payment=refunded)


def dispute_event(
    event_type: str,
    *,
    dispute: str,
    payment: str,
    account: str,
    amount_minor: int,
    currency: str,
    created: datetime,
    phase: str = "chargeback",
) -> bytes:
    """``payment.dispute.created``, ``.won``, ``.lost``, ``.closed``: about 1.1 KB."""
    status = event_type.rpartition(".")[2]
    entity: Entity = {
        "id": dispute,
        "entity": "dispute",
        "payment_id": payment,
        "amount": amount_minor,
        "currency": currency,
        "amount_deducted": 0 if phase in ("fraud", "retrieval") else amount_minor,
        "reason_code": "goods_or_services_not_received_or_partially_received",
        "respond_by": _seconds(created) + 604_800,
        "status": "open" if status == "created" else status,
        "phase": phase,
        "evidence": {"amount": amount_minor, "summary": None, "shipping_proof": None, "submitted_at": None},
        "created_at": _seconds(created),
    }
    disputed = _payment("payment.captured", payment, amount_minor, currency, created)
    return _event(event_type, account, created, payment=disputed, dispute=entity)


def settlement_event(*, settlement: str, account: str, amount_minor: int, created: datetime) -> bytes:
    """``settlement.processed``: about 0.3 KB. It names no currency."""
    entity: Entity = {
        "id": settlement,
        "entity": "settlement",
        "amount": amount_minor,
        "status": "processed",
        "fees": 0,
        "tax": 0,
        "utr": f"{_seconds(created)}utr0001",
        "created_at": _seconds(created),
    }
    return _event("settlement.processed", account, created, settlement=entity)


def payout_event(
    event_type: str, *, payout: str, account: str, amount_minor: int, currency: str, created: datetime
) -> bytes:
    """RazorpayX: ``payout.initiated``, ``.processed``, ``.reversed``, ``.failed``: about 0.6 KB."""
    status = event_type.rpartition(".")[2]
    entity: Entity = {
        "id": payout,
        "entity": "payout",
        "fund_account_id": f"fa_{tail(payout)}",
        "amount": amount_minor,
        "currency": currency,
        "notes": {"batch": "friday"},
        "fees": 590,
        "tax": 90,
        "status": "processing" if status == "initiated" else status,
        "purpose": "payout",
        "utr": None if status == "initiated" else "933815233814",
        "mode": "IMPS",
        "reference_id": f"payrun-{tail(payout)}",
        "narration": "Sample Traders Payout",
        "batch_id": None,
        "status_details": {"description": "As reported by the bank", "source": "beneficiary_bank", "reason": status},
        "created_at": _seconds(created),
        "fee_type": "",
    }
    return _event(event_type, account, created, payout=entity)


def _event(event_type: str, account: str, created: datetime, **entities: Entity) -> bytes:
    event = {
        "entity": "event",
        "account_id": account,
        "event": event_type,
        "contains": list(entities),
        "payload": {kind: {"entity": entity} for kind, entity in entities.items()},
        "created_at": _seconds(created),
    }
    return orjson.dumps(event)


def _payment(event_type: str, payment: str, amount_minor: int, currency: str, created: datetime) -> Entity:
    captured = event_type == "payment.captured"
    return {
        "id": payment,
        "entity": "payment",
        "amount": amount_minor,
        "currency": currency,
        "base_amount": amount_minor,
        "status": event_type.rpartition(".")[2],
        "order_id": f"order_{tail(payment)}",
        "invoice_id": None,
        "international": currency != "INR",
        "method": "netbanking",
        "amount_refunded": 0,
        "amount_transferred": 0,
        "refund_status": None,
        "captured": captured,
        "description": "Six cups and a kettle",
        "card_id": None,
        "bank": "SBIN",
        "wallet": None,
        "vpa": None,
        "email": "robin@example.com",
        "contact": "+910000000000",
        "notes": {"order": f"order-{tail(payment)}"},
        "fee": amount_minor // 50 if captured else None,
        "tax": 0 if captured else None,
        "error_code": "BAD_REQUEST_ERROR" if event_type == "payment.failed" else None,
        "error_description": None,
        "acquirer_data": {"bank_transaction_id": "0125836177"},
        "created_at": _seconds(created),
    }


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _sample(sample: Sample) -> bytes:
    money = sample.money | {"created": sample.at + timedelta(seconds=sample.number("event"))}
    return refund_event(
        "refund.created",
        refund=f"rfnd_{sample.movement}",
        payment=f"pay_{sample.payment}",
        account=f"acc_{sample.account}",
        paid_minor=5_000,
        **money,
    )


def _others() -> list[bytes]:
    common: dict[str, Any] = {"account": "acc_1", "amount_minor": 1_250, "created": Sample().at}
    moved = common | {"currency": "INR"}
    paid = moved | {"payment": "pay_1"}
    return [
        *(payment_event(one, **paid) for one in ("payment.captured", "payment.failed")),
        refund_event("refund.failed", refund="rfnd_1", **paid),
        *(dispute_event(f"payment.dispute.{one}", dispute="disp_1", **paid) for one in ("created", "lost")),
        settlement_event(settlement="setl_1", **common),
        *(payout_event(one, payout="pout_1", **moved) for one in ("payout.processed", "payout.failed")),
    ]


def _sign(sending: Sending) -> SignedRequest:
    event_id = sending.event_id or random_secrets.token_hex(7)
    return sending.posted({"X-Razorpay-Signature": sending.hex_mac(), "x-razorpay-event-id": event_id})


SAMPLES = Samples(_sample, _sign, _others, unsigned=frozenset({"x-razorpay-event-id"}))
