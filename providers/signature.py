"""What signature checks have in common. Texts are compared as bytes, in constant time."""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from core.errors import SettingError
from providers.port import Request, SignatureInvalid

SIGNATURES_MAX = 16
"""Of one request, so that a header can't buy unbounded work: secrets roll two at a time."""

_TIMESTAMP = re.compile(rb"[0-9]{10}")


def sha256_mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def hex_mac(key: bytes, message: bytes) -> bytes:
    """The HMAC-SHA256 in lower-case hexadecimal digits."""
    return sha256_mac(key, message).hex().encode("ascii")


def base64_mac(key: bytes, message: bytes) -> bytes:
    """The HMAC-SHA256 in base64."""
    return base64.b64encode(sha256_mac(key, message))


def text_key(provider: str, secret: str, where: str) -> bytes:
    """The key of a provider whose secrets are keys as they stand. ``where``: what to copy instead of nothing.

    :raises SettingError: it is empty, or no Unicode text
    """
    if not secret:
        raise secret_error(provider, f"an empty secret proves nothing; copy {where}")
    try:
        return secret.encode("utf-8")
    except UnicodeEncodeError:
        raise secret_error(provider, "the secret isn't Unicode text") from None


def sent(request: Request, header: bytes) -> list[bytes]:
    """The one signature that a header holds, for `matching`.

    :raises SignatureInvalid: ``missing`` or ``several``
    """
    value = request.one(header)
    if value is None:
        raise SignatureInvalid("missing")
    return [value]


def timestamp(raw: bytes) -> int:
    """Ten ASCII digits and nothing else: ``int()`` takes ``1_700`` and Arabic digits.

    :raises SignatureInvalid: ``malformed``
    """
    if not _TIMESTAMP.fullmatch(raw):
        raise SignatureInvalid("malformed")
    return int(raw)


def timed_signatures(header: bytes, separator: bytes, time: bytes, scheme: bytes) -> tuple[bytes, list[bytes]]:
    """The time and the signatures of ``t=…,v1=…[,v1=…]`` and its like; parts of other names don't count.

    :raises SignatureInvalid: ``malformed``, no time or several
    """
    sent_at: bytes | None = None
    signatures: list[bytes] = []
    for part in header.split(separator):
        name, _, value = part.partition(b"=")
        if name == scheme:
            signatures.append(value)
        elif name == time:
            if sent_at is not None:
                raise SignatureInvalid("malformed")
            sent_at = value
    if sent_at is None:
        raise SignatureInvalid("malformed")
    return sent_at, signatures


def check_age(signed_at: int, now: datetime, tolerance_s: int) -> None:
    """
    :raises SignatureInvalid: ``stale`` or ``future``, more than ``tolerance_s`` away
    """
    age_s = now.timestamp() - signed_at
    if age_s > tolerance_s:
        raise SignatureInvalid("stale")
    if age_s < -tolerance_s:
        raise SignatureInvalid("future")


def matching(signatures: Sequence[bytes], expected: Iterable[bytes]) -> int:
    """The index of the first expected signature that was sent; every pair is compared.

    :raises SignatureInvalid: ``missing`` or ``mismatch``
    """
    if not signatures:
        raise SignatureInvalid("missing")
    if len(signatures) > SIGNATURES_MAX:
        raise SignatureInvalid("malformed")
    found = -1
    for index, wanted in enumerate(expected):
        for sent in signatures:
            if hmac.compare_digest(sent, wanted) and found < 0:
                found = index
    if found < 0:
        raise SignatureInvalid("mismatch")
    return found


def secret_error(provider: str, problem: str) -> SettingError:
    return SettingError(f"secrets/{provider}", problem)
