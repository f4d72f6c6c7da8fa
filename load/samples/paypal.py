"""PayPal's webhook bodies of our own making, as its v2 API writes them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson

from load.samples.sender import CannotSign, Sample, Samples, Sending, SignedRequest

LIVE = "https://api.paypal.com"
SANDBOX = "https://api.sandbox.paypal.com"


def capture_event(
    event_type: str,
    *,
    event_id: str,
    capture: str,
    order: str,
    merchant: str,
    value: str,
    currency: str,
    created: datetime,
    live: bool = True,
) -> bytes:
    """``PAYMENT.CAPTURE.COMPLETED``, ``.PENDING`` or ``.DECLINED``: about 1.4 KB. ``value`` such as ``"12.50"``."""
    money = {"currency_code": currency, "value": value}
    resource: dict[str, Any] = {
        **_resource(
            f"{_host(live)}/v2/payments/captures/{capture}", f"{_host(live)}/v2/checkout/orders/{order}", created
        ),
        "id": capture,
        "amount": money,
        "final_capture": True,
        "disbursement_mode": "INSTANT",
        "payee": {"email_address": "shop@example.com", "merchant_id": merchant},
        "seller_protection": {"status": "ELIGIBLE", "dispute_categories": ["ITEM_NOT_RECEIVED"]},
        "seller_receivable_breakdown": {
            "gross_amount": money,
            "paypal_fee": {"currency_code": currency, "value": "0"},
            "net_amount": money,
        },
        "status": event_type.rpartition(".")[2],
        "supplementary_data": {"related_ids": {"order_id": order}},
    }
    return _event(event_type, "capture", event_id, resource, created, live)


def refund_event(
    event_type: str,
    *,
    event_id: str,
    refund: str,
    capture: str,
    merchant: str,
    value: str,
    currency: str,
    created: datetime,
    live: bool = True,
    delivery: int = 1,
) -> bytes:
    """``PAYMENT.CAPTURE.REFUNDED`` or ``.REVERSED``: about 1.3 KB. It names no order, only its capture.

    ``delivery`` numbers the deliveries of one event: the links to the event name the host that sent it.
    """
    money = {"currency_code": currency, "value": value}
    resource: dict[str, Any] = {
        **_resource(
            f"{_host(live)}/v2/payments/refunds/{refund}", f"{_host(live)}/v2/payments/captures/{capture}", created
        ),
        "id": refund,
        "amount": money,
        "note_to_payer": "Thank you for your patience",
        "payer": {"email_address": "shop@example.com", "merchant_id": merchant},
        "seller_payable_breakdown": {
            "gross_amount": money,
            "paypal_fee": {"currency_code": currency, "value": "0"},
            "net_amount": money,
            "total_refunded_amount": money,
        },
        "status": "COMPLETED",
    }
    return _event(event_type, "refund", event_id, resource, created, live, delivery)


def dispute_event(
    event_type: str,
    *,
    event_id: str,
    dispute: str,
    capture: str,
    merchant: str,
    value: str,
    currency: str,
    created: datetime,
    outcome: str | None = None,
    live: bool = True,
) -> bytes:
    """``CUSTOMER.DISPUTE.CREATED``, ``.UPDATED`` or ``.RESOLVED`` (with its outcome): about 1.2 KB."""
    resource: dict[str, Any] = {
        "dispute_id": dispute,
        "create_time": _time(created),
        "update_time": _time(created),
        "disputed_transactions": [
            {
                "seller_transaction_id": capture,
                "seller": {"merchant_id": merchant, "name": "Example Shop"},
                "items": [],
                "seller_protection_eligible": True,
            }
        ],
        "reason": "MERCHANDISE_OR_SERVICE_NOT_RECEIVED",
        "status": "RESOLVED" if outcome else "OPEN",
        "dispute_amount": {"currency_code": currency, "value": value},
        "dispute_life_cycle_stage": "INQUIRY",
        "dispute_channel": "INTERNAL",
        "messages": [{"posted_by": "BUYER", "time_posted": _time(created), "content": "It never came."}],
        "links": [{"href": f"{_host(live)}/v1/customer/disputes/{dispute}", "rel": "self", "method": "GET"}],
    }
    if outcome:
        resource["dispute_outcome"] = {"outcome_code": outcome}
    return _event(event_type, "dispute", event_id, resource, created, live)


def payout_item_event(
    event_type: str,
    *,
    event_id: str,
    item: str,
    batch: str,
    value: str,
    currency: str,
    created: datetime,
    live: bool = True,
) -> bytes:
    """``PAYMENT.PAYOUTS-ITEM.SUCCEEDED`` and its like: about 1.1 KB. The merchant pays somebody."""
    resource: dict[str, Any] = {
        "transaction_status": "SUCCESS",
        "payout_item_id": item,
        "payout_batch_id": batch,
        "payout_item_fee": {"currency": currency, "value": "0.25"},
        "payout_item": {
            "recipient_type": "EMAIL",
            "amount": {"currency": currency, "value": value},
            "note": "Your share of January",
            "receiver": "robin@example.com",
            "sender_item_id": f"share-{item}",
        },
        "time_processed": _time(created),
        "transaction_id": f"T{item}",
        "links": [{"href": f"{_host(live)}/v1/payments/payouts-item/{item}", "rel": "self", "method": "GET"}],
    }
    return _event(event_type, "payouts_item", event_id, resource, created, live)


def _event(
    event_type: str,
    resource_type: str,
    event_id: str,
    resource: dict[str, Any],
    created: datetime,
    live: bool,
    delivery: int = 1,
) -> bytes:
    own = f"{_host(live)}/v1/notifications/webhooks-events/{event_id}"
    if delivery > 1:
        own = own.replace("//api.", f"//api-{delivery}.")
    return orjson.dumps(
        {
            "id": event_id,
            "event_version": "1.0",
            "create_time": _time(created),
            "resource_type": resource_type,
            "resource_version": "2.0",
            "event_type": event_type,
            "summary": f"A sample of {event_type.replace('.', ' ').lower()}",
            "resource": resource,
            "links": [
                {"href": own, "rel": "self", "method": "GET"},
                {"href": f"{own}/resend", "rel": "resend", "method": "POST"},
            ],
        }
    )


def _resource(own: str, above: str, created: datetime) -> dict[str, Any]:
    return {
        "create_time": _time(created),
        "update_time": _time(created),
        "invoice_id": "invoice-1001",
        "links": [
            {"href": own, "rel": "self", "method": "GET"},
            {"href": above, "rel": "up", "method": "GET"},
        ],
    }


def _host(live: bool) -> str:
    return LIVE if live else SANDBOX


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _sample(sample: Sample) -> bytes:
    return refund_event(
        "PAYMENT.CAPTURE.REFUNDED",
        event_id=sample.event,
        refund=sample.movement,
        capture=sample.payment,
        merchant=sample.account,
        value=sample.amount,
        currency=sample.currency,
        created=sample.at,
        delivery=sample.delivery,
    )


def _others() -> list[bytes]:
    common: dict[str, Any] = {"event_id": "WH-1", "value": "12.50", "currency": "EUR", "created": Sample().at}
    of_capture = common | {"capture": "cap1", "merchant": "m1"}
    return [
        capture_event("PAYMENT.CAPTURE.COMPLETED", order="ord1", **of_capture),
        dispute_event("CUSTOMER.DISPUTE.CREATED", dispute="PP-1", **of_capture),
        payout_item_event("PAYMENT.PAYOUTS-ITEM.SUCCEEDED", item="item1", batch="batch1", **common),
    ]


def _sign(sending: Sending) -> SignedRequest:
    raise CannotSign(
        sending.adapter.name, "the private key is PayPal's; resend an event from the dashboard of its sandbox"
    )


SAMPLES = Samples(_sample, _sign, _others, tolerance_s=300)
