"""Paddle's webhook bodies of our own making: amounts are texts of digits in minor units."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from load.samples.sender import Sample, Samples, Sending, SignedRequest, tail


def transaction_event(
    event_type: str,
    *,
    event_id: str,
    transaction: str,
    amount_minor: int,
    currency: str,
    occurred_at: datetime,
    delivery: int = 1,
) -> bytes:
    """``transaction.paid``, ``transaction.completed``: about 1.5 KB.

    ``delivery`` numbers the deliveries of one event.
    """
    tax = amount_minor // 12
    totals = {
        "fee": str(amount_minor // 20),
        "tax": str(tax),
        "total": str(amount_minor),
        "credit": "0",
        "balance": "0",
        "discount": "0",
        "earnings": str(amount_minor - tax - amount_minor // 20),
        "subtotal": str(amount_minor - tax),
        "grand_total": str(amount_minor),
        "currency_code": currency,
        "credit_to_balance": "0",
    }
    payout_totals = {**totals, "exchange_rate": "1.0"} if event_type == "transaction.completed" else None
    card = {"type": "visa", "last4": "0009", "expiry_year": 2031, "expiry_month": 12, "cardholder_name": "Robin Sample"}
    data: dict[str, Any] = {
        "id": transaction,
        "items": [{"price": _price(amount_minor - tax, currency), "quantity": 1, "proration": None}],
        "origin": "web",
        "status": event_type.rpartition(".")[2],
        "details": {"totals": totals, "line_items": [], "tax_rates_used": [], "payout_totals": payout_totals},
        "checkout": {"url": f"https://shop.example.com/pay?_ptxn={transaction}"},
        "payments": [
            {
                "amount": str(amount_minor),
                "status": "captured",
                "created_at": _time(occurred_at),
                "error_code": None,
                "captured_at": _time(occurred_at),
                "method_details": {"card": card, "type": "card"},
                "payment_method_id": f"paymtd_{tail(transaction)}",
                "payment_attempt_id": f"attempt-{tail(transaction)}",
            }
        ],
        "billed_at": _time(occurred_at),
        "created_at": _time(occurred_at),
        "updated_at": _time(occurred_at),
        "customer_id": f"ctm_{tail(transaction)}",
        "currency_code": currency,
        "invoice_number": "325-10566",
        "collection_mode": "automatic",
        "subscription_id": None,
    }
    return _event(event_type, event_id, data, occurred_at, delivery)


def adjustment_event(
    event_type: str,
    *,
    event_id: str,
    adjustment: str,
    transaction: str,
    amount_minor: int,
    currency: str,
    occurred_at: datetime,
    action: str = "refund",
    status: str = "approved",
    delivery: int = 1,
) -> bytes:
    """``adjustment.created``, ``adjustment.updated``: about 0.9 KB. ``action`` also: chargeback, chargeback_reverse."""
    tax = amount_minor // 12
    totals = {
        "fee": "0",
        "tax": str(tax),
        "total": str(amount_minor),
        "earnings": str(amount_minor - tax),
        "subtotal": str(amount_minor - tax),
        "currency_code": currency,
        "retained_fee": "0",
    }
    item = {
        "id": f"adjitm_{tail(adjustment)}",
        "type": "partial",
        "amount": str(amount_minor),
        "totals": {"tax": str(tax), "total": str(amount_minor), "subtotal": str(amount_minor - tax)},
        "item_id": f"txnitm_{tail(transaction)}",
        "proration": None,
    }
    data: dict[str, Any] = {
        "id": adjustment,
        "items": [item],
        "action": action,
        "reason": "two cups arrived broken",
        "status": status,
        "totals": totals,
        "payout_totals": {**totals, "chargeback_fee": None},
        "created_at": _time(occurred_at),
        "updated_at": _time(occurred_at),
        "customer_id": f"ctm_{tail(transaction)}",
        "currency_code": currency,
        "transaction_id": transaction,
        "subscription_id": None,
        "credit_applied_to_balance": None,
        "tax_rates_used": None,
        "type": "partial",
    }
    return _event(event_type, event_id, data, occurred_at, delivery)


def payout_event(
    event_type: str,
    *,
    event_id: str,
    payout: str,
    amount_minor: int,
    currency: str,
    occurred_at: datetime,
    delivery: int = 1,
) -> bytes:
    """``payout.created``, ``payout.paid``: about 0.2 KB."""
    data = {
        "id": payout,
        "status": "paid" if event_type == "payout.paid" else "unpaid",
        "amount": str(amount_minor),
        "currency_code": currency,
        "remittance_reference": f"remittance-{tail(payout)}",
    }
    return _event(event_type, event_id, data, occurred_at, delivery)


def _event(event_type: str, event_id: str, data: dict[str, Any], occurred_at: datetime, delivery: int) -> bytes:
    event = {
        "data": data,
        "event_id": event_id,
        "event_type": event_type,
        "occurred_at": _time(occurred_at),
        "notification_id": f"ntf_{tail(event_id)}{delivery}",
    }
    return orjson.dumps(event)


def _price(amount_minor: int, currency: str) -> dict[str, Any]:
    return {
        "id": "pri_samplekettle0000000000",
        "name": "Kettle",
        "type": "standard",
        "status": "active",
        "quantity": {"maximum": 100, "minimum": 1},
        "tax_mode": "account_setting",
        "product_id": "pro_samplekettle0000000000",
        "unit_price": {"amount": str(amount_minor), "currency_code": currency},
        "description": "Kettle, enamelled, 1.5 l",
        "billing_cycle": None,
        "trial_period": None,
    }


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _sample(sample: Sample) -> bytes:
    return adjustment_event(
        "adjustment.created",
        event_id=f"evt_{sample.event}",
        adjustment=f"adj_{sample.movement}",
        transaction=f"txn_{sample.payment}",
        amount_minor=sample.amount_minor,
        currency=sample.currency,
        occurred_at=sample.at,
        delivery=sample.delivery,
    )


def _others() -> list[bytes]:
    common: dict[str, Any] = {"event_id": "evt_1", "amount_minor": 1_250, "currency": "EUR", "occurred_at": Sample().at}
    adjusted = common | {"adjustment": "adj_1", "transaction": "txn_1", "action": "chargeback"}
    return [
        transaction_event("transaction.completed", transaction="txn_1", **common),
        adjustment_event("adjustment.updated", **adjusted),
        payout_event("payout.paid", payout="pay_1", **common),
    ]


def _sign(sending: Sending) -> SignedRequest:
    signature = sending.hex_mac(f"{sending.at_s}:".encode() + sending.body)
    return sending.posted({"Paddle-Signature": f"ts={sending.at_s};h1={signature}"})


SAMPLES = Samples(_sample, _sign, _others, tolerance_s=60)
