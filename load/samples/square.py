"""Square's webhook bodies of our own making: each reports an object as it is now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import orjson

from load.samples.sender import Sample, Samples, Sending, SignedRequest
from providers.settings import SquareSettings
from providers.square import SquareAdapter

Object = dict[str, Any]


def payment_event(
    event_type: str,
    *,
    event_id: str,
    payment: str,
    account: str,
    amount_minor: int,
    currency: str,
    created: datetime,
    status: str = "COMPLETED",
    tip_minor: int = 0,
    source_type: str = "CARD",
) -> bytes:
    """``payment.created``, ``payment.updated``: about 1.1 KB."""
    subject: Object = {
        "amount_money": _money(amount_minor, currency),
        "approved_money": _money(amount_minor, currency),
        "card_details": {
            "avs_status": "AVS_ACCEPTED",
            "card": {"card_brand": "VISA", "card_type": "CREDIT", "exp_month": 11, "exp_year": 2031, "last_4": "0009"},
            "cvv_status": "CVV_ACCEPTED",
            "entry_method": "KEYED",
            "statement_description": "SQ *SAMPLE TRADERS",
            "status": "CAPTURED" if status == "COMPLETED" else "AUTHORIZED",
        },
        "created_at": _time(created),
        "delay_action": "CANCEL",
        "delay_duration": "PT168H",
        "id": payment,
        "location_id": "LSAMPLE000001",
        "order_id": f"order-{payment}",
        "receipt_number": payment[:4],
        "risk_evaluation": {"created_at": _time(created), "risk_level": "NORMAL"},
        "source_type": source_type,
        "status": status,
        "tip_money": _money(tip_minor, currency),
        "total_money": _money(amount_minor + tip_minor, currency),
        "updated_at": _time(created),
        "version_token": "v" * 45,
    }
    return _event(event_type, event_id, account, created, "payment", payment, subject)


def refund_event(
    event_type: str,
    *,
    event_id: str,
    refund: str,
    payment: str,
    account: str,
    amount_minor: int,
    currency: str,
    created: datetime,
    status: str = "COMPLETED",
    fee_minor: int | None = None,
) -> bytes:
    """``refund.created``, ``refund.updated``: about 0.6 KB. ``fee_minor``: what Square says of its fee, if anything."""
    subject: Object = {
        "amount_money": _money(amount_minor, currency),
        "created_at": _time(created),
        "destination_type": "CARD",
        "id": refund,
        "location_id": "LSAMPLE000001",
        "order_id": f"order-{refund}",
        "payment_id": payment,
        "reason": "two cups arrived broken",
        "status": status,
        "updated_at": _time(created),
        "version": 2,
    }
    if fee_minor is not None:
        subject["processing_fee"] = [{"amount_money": _money(fee_minor, currency), "type": "INITIAL"}]
    return _event(event_type, event_id, account, created, "refund", refund, subject)


def dispute_event(
    event_type: str,
    *,
    event_id: str,
    dispute: str,
    payment: str,
    account: str,
    amount_minor: int,
    currency: str,
    created: datetime,
    state: str = "EVIDENCE_REQUIRED",
) -> bytes:
    """``dispute.created``, ``dispute.state.updated``: about 0.6 KB."""
    subject: Object = {
        "amount_money": _money(amount_minor, currency),
        "brand_dispute_id": f"brand-{dispute}",
        "card_brand": "VISA",
        "created_at": _time(created),
        "disputed_payment": {"payment_id": payment},
        "due_at": _time(created),
        "id": dispute,
        "location_id": "LSAMPLE000001",
        "reason": "NOT_AS_DESCRIBED",
        "reported_at": _time(created),
        "state": state,
        "updated_at": _time(created),
        "version": 1,
    }
    return _event(event_type, event_id, account, created, "dispute", dispute, subject)


def payout_event(
    event_type: str,
    *,
    event_id: str,
    payout: str,
    account: str,
    amount_minor: int,
    currency: str,
    created: datetime,
) -> bytes:
    """``payout.sent``, ``payout.paid``, ``payout.failed``: about 0.5 KB."""
    subject: Object = {
        "amount_money": _money(amount_minor, currency),
        "arrival_date": created.date().isoformat(),
        "created_at": _time(created),
        "destination": {"id": "bact:sample000001", "type": "BANK_ACCOUNT"},
        "id": payout,
        "location_id": "LSAMPLE000001",
        "status": event_type.rpartition(".")[2].upper(),
        "type": "BATCH",
        "updated_at": _time(created),
        "version": 1,
    }
    return _event(event_type, event_id, account, created, "payout", payout, subject)


def _event(
    event_type: str, event_id: str, account: str, created: datetime, kind: str, own_id: str, subject: Object
) -> bytes:
    event = {
        "merchant_id": account,
        "location_id": "LSAMPLE000001",
        "type": event_type,
        "event_id": event_id,
        "created_at": _time(created),
        "data": {"type": kind, "id": own_id, "object": {kind: subject}},
    }
    return orjson.dumps(event)


def _money(amount_minor: int, currency: str) -> Object:
    return {"amount": amount_minor, "currency": currency}


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _sample(sample: Sample) -> bytes:
    ids: dict[str, Any] = {
        "event_id": sample.event,
        "refund": sample.movement,
        "payment": sample.payment,
        "account": sample.account,
    }
    return refund_event("refund.created", **ids, **sample.money)


def _others() -> list[bytes]:
    common: dict[str, Any] = {"event_id": "e1", "account": "a1", **Sample().money}
    disputed: dict[str, Any] = {"dispute": "d1", "payment": "p1", **common}
    return [
        payment_event("payment.updated", payment="p1", **common),
        dispute_event("dispute.created", **disputed),
        dispute_event("dispute.state.updated", state="LOST", **disputed),
        payout_event("payout.sent", payout="po1", **common),
    ]


def _sign(sending: Sending) -> SignedRequest:
    """
    :raises SettingError: the endpoint's notification URL isn't set
    """
    url = cast(SquareAdapter, sending.adapter).notification_url(sending.endpoint)
    return sending.posted({"x-square-hmacsha256-signature": sending.base64_mac(url + sending.body)})


_URLS = {"default": "https://hooks.example.com/webhooks/square"}
SAMPLES = Samples(_sample, _sign, _others, settings={"square": SquareSettings(notification_urls=_URLS)})
