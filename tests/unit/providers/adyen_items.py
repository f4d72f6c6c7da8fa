"""Adyen's items and their signatures, made without the adapter."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

KEY = "AB" * 32
OTHER_KEY = "CD" * 32


def item(**changed: Any) -> dict[str, Any]:
    fields = {
        "pspReference": "PSP1",
        "originalReference": "ORIGINAL1",
        "merchantAccountCode": "Main",
        "merchantReference": "order-1",
        "amount": {"value": 1000, "currency": "EUR"},
        "eventCode": "CAPTURE",
        "success": "true",
        "eventDate": "2026-01-31T13:00:00+01:00",
        **changed,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def signature(of: dict[str, Any], key: str = KEY) -> str:
    amount = of.get("amount") or {}
    value = amount.get("value")
    parts = [
        of.get("pspReference") or "",
        of.get("originalReference") or "",
        of.get("merchantAccountCode") or "",
        of.get("merchantReference") or "",
        "" if value is None else str(value),
        amount.get("currency") or "",
        of.get("eventCode") or "",
        of.get("success") or "",
    ]
    digest = hmac.new(bytes.fromhex(key), ":".join(parts).encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def signed(of: dict[str, Any], key: str = KEY) -> dict[str, Any]:
    return {**of, "additionalData": {**of.get("additionalData", {}), "hmacSignature": signature(of, key)}}


def body(*items: dict[str, Any], live: Any = "true") -> bytes:
    wrapped = [{"NotificationRequestItem": one} for one in items]
    return json.dumps({"live": live, "notificationItems": wrapped}).encode()
