"""Signs by Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets as random_secrets
from collections.abc import Sequence
from datetime import datetime

PREFIX = "whsec_"
KEY_BYTES_MIN, KEY_BYTES_MAX = 24, 64
"""The limits of the specification."""


def new_secret() -> str:
    return PREFIX + base64.b64encode(random_secrets.token_bytes(32)).decode("ascii")


def key_of(secret: str) -> bytes:
    """Decodes the key that a secret stands for.

    :raises ValueError: it isn't a secret of this form; the text doesn't tell what it is
    """
    encoded = secret.removeprefix(PREFIX)
    if encoded == secret:
        raise ValueError(f"a secret begins with {PREFIX}")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"what follows {PREFIX} isn't base64") from None
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise ValueError(f"a secret of {len(key)} bytes: expected {KEY_BYTES_MIN} to {KEY_BYTES_MAX}")
    return key


def signed_headers(message_id: str, body: bytes, keys: Sequence[bytes], now: datetime) -> dict[str, str]:
    """Makes the three headers; ``keys`` newest first, each signs, so that a receiver may know any of them.

    :raises ValueError: the id holds a dot, which ends it in what is signed
    """
    if "." in message_id:
        raise ValueError(f"expected an id without a dot, not {message_id!r}")
    sent_at = str(int(now.timestamp()))
    message = b"%b.%b.%b" % (message_id.encode("ascii"), sent_at.encode("ascii"), body)
    macs = (hmac.digest(key, message, hashlib.sha256) for key in keys)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": sent_at,
        "webhook-signature": " ".join("v1," + base64.b64encode(mac).decode("ascii") for mac in macs),
    }
