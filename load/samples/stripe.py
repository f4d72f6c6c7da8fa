"""Stripe's webhooks of our own making: an event around an object of the type that its own type names."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

import orjson

from load.samples.sender import Sample, Samples, Sending, SignedRequest, tail

STRIPE_API_VERSION = "2022-08-01"
"""The last one in which a charge carries its refunds, so that samples show them."""


def stripe_event(
    event_id: str,
    event_type: str,
    *,
    payment: str,
    account: str,
    amount_minor: int,
    currency: str,
    created: datetime,
    livemode: bool = True,
    object_id: str | None = None,
) -> bytes:
    """A Stripe event of about 1.1 KB around the payment intent ``payment``; ``account`` "" is the platform's own.

    The object follows from the type: charge, refund, dispute, payout, payment intent, else something else. Without
    ``object_id`` it is derived: the payment's one charge, dispute or intent, and a refund or payout an event.
    """
    prefix, build = _OBJECTS[_kind(event_type)]
    own = event_id if prefix in ("re", "po") else payment
    subject: dict[str, Any] = {
        "id": object_id or f"{prefix}_{tail(own)}",
        "amount": amount_minor,
        "created": int(created.timestamp()),
        "currency": currency.lower(),
        "livemode": livemode,
        "metadata": {"order_id": f"order-{tail(payment)}"},
        **build(event_type, payment, amount_minor),
    }
    event: dict[str, Any] = {
        "id": event_id,
        "object": "event",
        "account": account,
        "api_version": STRIPE_API_VERSION,
        "created": int(created.timestamp()),
        "data": {"object": subject},
        "livemode": livemode,
        "pending_webhooks": 1,
        "request": {"id": f"req_{tail(event_id)}", "idempotency_key": f"order-{tail(payment)}-1"},
        "type": event_type,
    }
    if not account:
        del event["account"]
    return orjson.dumps(event, option=orjson.OPT_INDENT_2)


def _kind(event_type: str) -> str:
    for kind in ("dispute", "refund.", "charge", "payout", "payment_intent"):
        if kind in event_type and not (kind == "refund." and event_type == "charge.refunded"):
            return kind
    return "other"


def _charge(event_type: str, payment: str, amount_minor: int) -> dict[str, Any]:
    refunded = event_type == "charge.refunded"
    refund = {
        "id": f"re_{tail(payment)}",
        "object": "refund",
        "amount": amount_minor,
        "balance_transaction": f"txn_r{tail(payment)}",
        "status": "succeeded",
    }
    return {
        "object": "charge",
        "amount_captured": amount_minor,
        "amount_refunded": amount_minor if refunded else 0,
        "balance_transaction": f"txn_{tail(payment)}",
        "billing_details": {"address": {"city": "Utrecht", "country": "NL"}, "name": "Robin Sample"},
        "captured": event_type != "charge.failed",
        "payment_intent": payment,
        "payment_method_details": {"card": {"brand": "visa", "last4": "0009", "network": "visa"}, "type": "card"},
        "refunds": {"object": "list", "data": [refund] if refunded else [], "has_more": False},
        "status": "failed" if event_type == "charge.failed" else "succeeded",
    }


def _refund(event_type: str, payment: str, _: int) -> dict[str, Any]:
    failed = event_type == "refund.failed"
    return {
        "object": "refund",
        "balance_transaction": f"txn_r{tail(payment)}",
        "charge": f"ch_{tail(payment)}",
        "destination_details": {"card": {"reference_status": "pending", "type": "refund"}, "type": "card"},
        "failure_balance_transaction": f"txn_f{tail(payment)}" if failed else None,
        "payment_intent": payment,
        "reason": "requested_by_customer",
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": "failed" if failed else "succeeded",
        "transfer_reversal": None,
    }


def _dispute(event_type: str, payment: str, amount_minor: int) -> dict[str, Any]:
    withdrawal = {"id": f"txn_d{tail(payment)}", "amount": -amount_minor, "fee": 0, "type": "adjustment"}
    return {
        "object": "dispute",
        "balance_transactions": [withdrawal],
        "charge": f"ch_{tail(payment)}",
        "evidence": {"customer_name": "Robin Sample", "product_description": None, "uncategorized_text": None},
        "evidence_details": {"has_evidence": False, "past_due": False, "submission_count": 0},
        "payment_intent": payment,
        "reason": "fraudulent",
        "status": "lost" if event_type.endswith(".closed") else "needs_response",
    }


def _payout(event_type: str, payment: str, _: int) -> dict[str, Any]:
    return {
        "object": "payout",
        "arrival_date": 1_893_456_000,
        "automatic": True,
        "balance_transaction": f"txn_p{tail(payment)}",
        "destination": f"ba_{tail(payment)}",
        "failure_code": "account_closed" if event_type == "payout.failed" else None,
        "method": "standard",
        "status": event_type.rpartition(".")[2],
        "type": "bank_account",
    }


def _payment_intent(event_type: str, payment: str, amount_minor: int) -> dict[str, Any]:
    succeeded = event_type == "payment_intent.succeeded"
    return {
        "object": "payment_intent",
        "amount_capturable": 0,
        "amount_received": amount_minor if succeeded else 0,
        "capture_method": "automatic",
        "confirmation_method": "automatic",
        "latest_charge": f"ch_{tail(payment)}" if succeeded else None,
        "payment_method_types": ["card", "ideal"],
        "status": event_type.rpartition(".")[2],
    }


def _other(event_type: str, payment: str, _: int) -> dict[str, Any]:
    """A customer knows no payment; an object of any other type belongs to one."""
    kind = event_type.partition(".")[0]
    return {
        "object": kind,
        "address": {"city": "Utrecht", "country": "NL", "line1": "Voorbeeldstraat 1", "postal_code": "3511 AA"},
        "email": "robin@example.com",
        "invoice_prefix": "SAMPLE",
        "name": "Robin Sample",
        "payment_intent": None if kind == "customer" else payment,
        "preferred_locales": ["nl", "en"],
    }


_OBJECTS = {
    "charge": ("ch", _charge),
    "refund.": ("re", _refund),
    "dispute": ("dp", _dispute),
    "payout": ("po", _payout),
    "payment_intent": ("pi", _payment_intent),
    "other": ("obj", _other),
}


def _sample(sample: Sample) -> bytes:
    body = orjson.loads(
        stripe_event(
            f"evt_{sample.event}",
            "refund.created",
            payment=f"pi_{sample.payment}",
            account=f"acct_{sample.account}",
            object_id=f"re_{sample.movement}",
            **sample.money,
        )
    )
    return orjson.dumps(body | {"pending_webhooks": sample.delivery})


def _of_type(event_type: str, sample: Sample) -> bytes:
    payment, account = f"pi_{sample.payment}", f"acct_{sample.account}"
    return stripe_event(f"evt_{sample.event}", event_type, payment=payment, account=account, **sample.money)


_TYPES = (
    *("charge.succeeded", "charge.refunded", "charge.dispute.created", "charge.dispute.closed", "payout.paid"),
    "customer.created",
)


def _others() -> list[bytes]:
    types = (
        *("charge.captured", "charge.refunded", "charge.dispute.created", "charge.dispute.closed", "payout.paid"),
        *("payout.failed", "refund.failed", "payment_intent.succeeded", "customer.created"),
    )
    about: dict[str, Any] = {"payment": "pi_1", "account": "acct_1", **Sample().money}
    return [stripe_event("evt_1", one, **about) for one in types]


def _sign(sending: Sending) -> SignedRequest:
    signature = sending.hex_mac(f"{sending.at_s}.".encode() + sending.body)
    return sending.posted({"Stripe-Signature": f"t={sending.at_s},v1={signature}"})


SAMPLES = Samples(_sample, _sign, _others, by_type={name: partial(_of_type, name) for name in _TYPES}, tolerance_s=300)
