"""Adyen's platform webhook bodies of our own making: transfers between balance accounts and banks."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import orjson

from load.samples.sender import Sample, Samples, Sending, SignedRequest
from providers.signature import base64_mac

Object = dict[str, Any]


def payout_event(
    *,
    transfer: str,
    sequence: int,
    account: str,
    amount_minor: int,
    currency: str,
    created: datetime,
    status: str = "booked",
    live: bool = True,
    queued_s: int = 1,
) -> bytes:
    """A transfer to a seller's bank account: about 1.1 KB. ``amount_minor`` is in Adyen's minor units."""
    data = _transfer(transfer, sequence, account, amount_minor, currency, created, status) | {
        "category": "bank",
        "direction": "outgoing",
        "type": "bankTransfer",
        "priority": "regular",
        "counterparty": {"transferInstrumentId": "SE0000000000000000000001"},
        "description": "weekly payout",
    }
    return _event("balancePlatform.transfer.updated", data, created, live, queued_s)


def platform_payment_event(
    *,
    transfer: str,
    sequence: int,
    payment: str,
    account: str,
    amount_minor: int,
    currency: str,
    created: datetime,
    kind: str = "refund",
    status: str = "refunded",
    live: bool = True,
    queued_s: int = 1,
) -> bytes:
    """One balance account's share of a payment or of its refund: about 1.1 KB."""
    incoming = kind in ("capture", "payment")
    data = _transfer(transfer, sequence, account, amount_minor, currency, created, status) | {
        "category": "platformPayment",
        "categoryData": {
            "modificationMerchantReference": f"{kind}-{payment}",
            "modificationPspReference": f"M{transfer}",
            "paymentMerchantReference": f"order-{payment}",
            "platformPaymentType": "Default",
            "pspPaymentReference": payment,
            "type": "platformPayment",
        },
        "direction": "incoming" if incoming else "outgoing",
        "type": kind,
        "description": f"share of order-{payment}",
    }
    return _event("balancePlatform.transfer.updated", data, created, live, queued_s)


def _transfer(
    transfer: str, sequence: int, account: str, amount_minor: int, currency: str, created: datetime, status: str
) -> Object:
    return {
        "balancePlatform": "SamplePlatform",
        "creationDate": _time(created),
        "id": transfer,
        "accountHolder": {"description": "Sample Traders", "id": "AH00000000000000000000001"},
        "amount": {"currency": currency, "value": amount_minor},
        "balanceAccount": {"description": "Sample Traders, sales", "id": account},
        "balances": [{"currency": currency, "received": 0, "reserved": -amount_minor}],
        "eventId": f"EV{transfer}{sequence}",
        "events": [
            {
                "bookingDate": _time(created),
                "id": f"EV{transfer}{number}",
                "mutations": [{"currency": currency, "received": -amount_minor}],
                "status": "received" if number < sequence else status,
                "type": "accounting",
            }
            for number in range(1, sequence + 1)
        ],
        "reason": "approved",
        "reference": f"ref-{transfer}",
        "sequenceNumber": sequence,
        "status": status,
    }


def _event(event_type: str, data: Object, created: datetime, live: bool, queued_s: int) -> bytes:
    document = {
        "data": data,
        "environment": "live" if live else "test",
        "timestamp": (created + timedelta(seconds=queued_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "type": event_type,
    }
    return orjson.dumps(document)


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _sample(sample: Sample) -> bytes:
    return platform_payment_event(
        transfer=sample.movement,
        sequence=sample.number("event"),
        payment=sample.payment,
        account=sample.account,
        queued_s=sample.delivery,
        **sample.money,
    )


def _payout_sample(sample: Sample) -> bytes:
    return payout_event(
        transfer=sample.movement,
        sequence=sample.number("event"),
        account=sample.account,
        queued_s=sample.delivery,
        **sample.money,
    )


def _sign(sending: Sending) -> SignedRequest:
    signature = base64_mac(bytes.fromhex(sending.secret), sending.body).decode("ascii")
    return sending.posted({"HmacSignature": signature, "Protocol": "HmacSHA256"})


_SETTINGS = {"adyen": {"platforms": {"SamplePlatform": "SampleShop"}}}
SAMPLES = Samples(_sample, _sign, settings=_SETTINGS, unsigned=frozenset({"protocol"}), books=False)
"""A seller's share of a refund: it belongs to a payment, and the standard webhooks book it."""
PAYOUTS = replace(SAMPLES, refund=_payout_sample, books=True, of_payment=False)
"""A payout to a seller's bank books."""
