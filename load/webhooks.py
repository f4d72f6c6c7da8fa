"""Webhook bodies of our own making, shaped and sized like the providers': what the demo, load and tests post.

Names, cards and places are invented. Nothing is signed here: the adapters' ``sign`` does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

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
    prefix, build = _STRIPE_OBJECTS[_stripe_kind(event_type)]
    own = event_id if prefix in ("re", "po") else payment
    subject: dict[str, Any] = {
        "id": object_id or f"{prefix}_{_tail(own)}",
        "amount": amount_minor,
        "created": int(created.timestamp()),
        "currency": currency.lower(),
        "livemode": livemode,
        "metadata": {"order_id": f"order-{_tail(payment)}"},
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
        "request": {"id": f"req_{_tail(event_id)}", "idempotency_key": f"order-{_tail(payment)}-1"},
        "type": event_type,
    }
    if not account:
        del event["account"]
    return orjson.dumps(event, option=orjson.OPT_INDENT_2)


@dataclass(frozen=True, slots=True)
class AdyenItem:
    """One item of a standard notification. ``original_reference`` is "" for the payment itself."""

    psp_reference: str
    original_reference: str
    merchant_account: str
    merchant_reference: str
    event_code: str
    amount_minor: int
    currency: str
    event_date: datetime
    success: bool = True


def adyen_notification(items: Sequence[AdyenItem], live: bool = True) -> bytes:
    """An Adyen standard notification of about 0.6 KB an item."""
    wrapped = [{"NotificationRequestItem": _adyen_item(item)} for item in items]
    return orjson.dumps({"live": "true" if live else "false", "notificationItems": wrapped})


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
        "id": f"mv_{_tail(payment)}",
        "payment": payment,
        "account": account,
        "amount": amount_minor,
        "currency": currency.upper(),
        "status": event_type.rpartition(".")[2],
        "method": {"type": "bank_transfer", "bank": "Example Savings Bank", "country": "NL"},
        "payer": {"name": "Robin Sample", "email": "robin@example.com", "reference": f"invoice-{_tail(payment)}"},
        "links": {"self": f"https://api.example.com/payments/{payment}", "receipt": None},
    }
    return orjson.dumps({"type": event_type, "timestamp": occurred_at.isoformat(), "data": subject})


def _adyen_item(item: AdyenItem) -> dict[str, Any]:
    body: dict[str, Any] = {
        "additionalData": {
            "authCode": "072194",
            "cardSummary": "0009",
            "expiryDate": "12/2031",
            "issuerCountry": "NL",
            "paymentMethodVariant": "visa",
            "shopperReference": f"shopper-{item.merchant_reference}",
        },
        "amount": {"currency": item.currency, "value": item.amount_minor},
        "eventCode": item.event_code,
        "eventDate": item.event_date.isoformat(timespec="seconds"),
        "merchantAccountCode": item.merchant_account,
        "merchantReference": item.merchant_reference,
        "originalReference": item.original_reference,
        "paymentMethod": "visa",
        "pspReference": item.psp_reference,
        "reason": "",
        "success": "true" if item.success else "false",
    }
    if not item.original_reference:
        del body["originalReference"]
        body["operations"] = ["CANCEL", "CAPTURE", "REFUND"]
    return body


def _tail(identifier: str) -> str:
    """``pi_123`` without its prefix."""
    return identifier.rpartition("_")[2]


def _stripe_kind(event_type: str) -> str:
    for kind in ("dispute", "refund.", "charge", "payout", "payment_intent"):
        if kind in event_type and not (kind == "refund." and event_type == "charge.refunded"):
            return kind
    return "other"


def _charge(event_type: str, payment: str, amount_minor: int) -> dict[str, Any]:
    refunded = event_type == "charge.refunded"
    refund = {
        "id": f"re_{_tail(payment)}",
        "object": "refund",
        "amount": amount_minor,
        "balance_transaction": f"txn_r{_tail(payment)}",
        "status": "succeeded",
    }
    return {
        "object": "charge",
        "amount_captured": amount_minor,
        "amount_refunded": amount_minor if refunded else 0,
        "balance_transaction": f"txn_{_tail(payment)}",
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
        "balance_transaction": f"txn_r{_tail(payment)}",
        "charge": f"ch_{_tail(payment)}",
        "destination_details": {"card": {"reference_status": "pending", "type": "refund"}, "type": "card"},
        "failure_balance_transaction": f"txn_f{_tail(payment)}" if failed else None,
        "payment_intent": payment,
        "reason": "requested_by_customer",
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": "failed" if failed else "succeeded",
        "transfer_reversal": None,
    }


def _dispute(event_type: str, payment: str, amount_minor: int) -> dict[str, Any]:
    withdrawal = {"id": f"txn_d{_tail(payment)}", "amount": -amount_minor, "fee": 1500, "type": "adjustment"}
    return {
        "object": "dispute",
        "balance_transactions": [withdrawal],
        "charge": f"ch_{_tail(payment)}",
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
        "balance_transaction": f"txn_p{_tail(payment)}",
        "destination": f"ba_{_tail(payment)}",
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
        "latest_charge": f"ch_{_tail(payment)}" if succeeded else None,
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


_STRIPE_OBJECTS = {
    "charge": ("ch", _charge),
    "refund.": ("re", _refund),
    "dispute": ("dp", _dispute),
    "payout": ("po", _payout),
    "payment_intent": ("pi", _payment_intent),
    "other": ("obj", _other),
}
