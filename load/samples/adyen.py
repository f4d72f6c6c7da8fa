"""Adyen's standard notifications of our own making: items, each signed within the body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import orjson

from core import strict_json
from core.errors import Unparseable
from load.samples.sender import Sample, Samples, Sending, SignedRequest
from providers.adyen import ITEM, ITEMS, build_signed_bytes
from providers.fields import an_object, object_at
from providers.signature import base64_mac


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
    wrapped = [{"NotificationRequestItem": _item(item)} for item in items]
    return orjson.dumps({"live": "true" if live else "false", "notificationItems": wrapped})


def _item(item: AdyenItem) -> dict[str, Any]:
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


def _sample_item(sample: Sample) -> AdyenItem:
    return AdyenItem(
        psp_reference=sample.movement,
        original_reference=sample.payment,
        merchant_account=sample.account,
        merchant_reference="order-1",
        event_code="REFUND",
        amount_minor=sample.amount_minor,
        currency=sample.currency,
        event_date=sample.at + timedelta(minutes=sample.delivery),
    )


def _batch(samples: Sequence[Sample]) -> bytes:
    return adyen_notification([_sample_item(one) for one in samples])


def _others() -> list[bytes]:
    codes = (
        *("AUTHORISATION", "CAPTURE", "CAPTURE_FAILED", "CHARGEBACK", "CANCEL_OR_REFUND", "PAYOUT_THIRDPARTY"),
        *("DISPUTE_DEFENSE_PERIOD_ENDED", "REPORT_AVAILABLE", "VOID_PENDING_REFUND", "X"),
    )
    return [adyen_notification([replace(_sample_item(Sample()), event_code=code)]) for code in codes]


def _sign(sending: Sending) -> SignedRequest:
    """
    :raises Unparseable: there are no items to sign
    """
    document, key = strict_json.load_json(sending.body), bytes.fromhex(sending.secret)
    wrapped = document.get(ITEMS) if isinstance(document, dict) else None
    if not isinstance(wrapped, list) or not wrapped:
        raise Unparseable(f"{ITEMS!r} isn't an array of items")
    for item in (an_object(object_at(wrapper).get(ITEM), f"{ITEM!r}") for wrapper in wrapped):
        extra = an_object(item.get("additionalData") or {}, "'additionalData'")
        item["additionalData"] = {**extra, "hmacSignature": base64_mac(key, build_signed_bytes(item)).decode("ascii")}
    return sending.posted({}, body=strict_json.dump_json(document))


def _of_code(code: str, sample: Sample) -> bytes:
    return adyen_notification([replace(_sample_item(sample), event_code=code)])


SAMPLES = Samples(
    lambda sample: _batch([sample]),
    _sign,
    _others,
    batch=_batch,
    by_type={code: partial(_of_code, code) for code in ("CAPTURE", "REFUND", "CHARGEBACK")},
)
