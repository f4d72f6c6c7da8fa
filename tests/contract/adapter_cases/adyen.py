"""Requests of Adyen's standard notifications."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from load.webhooks import AdyenItem, adyen_notification
from providers import Request
from tests.contract.adapter_cases.case import NOW, Case, Told, flips


class AdyenCase(Case):
    """The signature is in the body, one an item, and covers eight fields of it."""

    name = "adyen"
    secrets = ("0123456789ABCDEF" * 4, "FEDCBA9876543210" * 4)
    signature_headers = ()
    SIGNED = (
        ("pspReference",),
        ("originalReference",),
        ("merchantAccountCode",),
        ("merchantReference",),
        ("eventCode",),
        ("success",),
        ("amount", "value"),
        ("amount", "currency"),
        ("additionalData", "hmacSignature"),
    )

    def body(self, told: Told) -> bytes:
        return self.batch([told])

    def batch(self, told: Sequence[Told]) -> bytes:
        return adyen_notification([self._item(one) for one in told])

    def altered(self, request: Request) -> Iterator[Request]:
        for number, wrapper in enumerate(json.loads(request.body)["notificationItems"]):
            for name in self.SIGNED:
                value: Any = wrapper["NotificationRequestItem"]
                for step in name:
                    value = value[step]
                at = _nth(request.body, f'"{name[-1]}":'.encode(), number)
                start = request.body.index(str(value).encode(), at + len(name[-1]) + 3)
                end = start + len(str(value).encode())
                for flipped in flips(request.body[start:end]):
                    yield replace(request, body=request.body[:start] + flipped + request.body[end:])

    def resigned(self, request: Request, values: Sequence[bytes]) -> Iterator[Request]:
        """Of one item a signature can't come several times: that would be a key twice in one object."""
        whole = json.loads(request.body)
        signature = whole["notificationItems"][0]["NotificationRequestItem"]["additionalData"]["hmacSignature"].encode()
        member = b'"hmacSignature":"' + signature + b'"'
        members = b",".join(b'"hmacSignature":"' + value + b'"' for value in values) or b'"other":""'
        yield replace(request, body=request.body.replace(member, members, 1))

    @staticmethod
    def _item(told: Told) -> AdyenItem:
        return AdyenItem(
            psp_reference=told.movement,
            original_reference=told.payment,
            merchant_account=told.account,
            merchant_reference="order-1",
            event_code="REFUND",
            amount_minor=told.amount_minor,
            currency="EUR",
            event_date=NOW + timedelta(minutes=told.delivery),
        )

    def others(self) -> Sequence[bytes]:
        codes = (
            "AUTHORISATION",
            "CAPTURE",
            "CAPTURE_FAILED",
            "CHARGEBACK",
            "CANCEL_OR_REFUND",
            "DISPUTE_DEFENSE_PERIOD_ENDED",
            "PAYOUT_THIRDPARTY",
            "REPORT_AVAILABLE",
            "VOID_PENDING_REFUND",
            "X",
        )
        return [adyen_notification([replace(self._item(Told()), event_code=code)]) for code in codes]


def _nth(body: bytes, wanted: bytes, number: int) -> int:
    """Where the text stands for the ``number``th time, counted from 0."""
    at = -1
    for _ in range(number + 1):
        at = body.index(wanted, at + 1)
    return at
