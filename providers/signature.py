"""Signature checks for adapters. Texts are compared as bytes, in constant time."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from core.errors import SettingError
from core.http_fields import split_list
from providers.port import Request, SignatureInvalid

TOLERANCE_S = 300
"""What providers say that their signatures hold, unless they say otherwise."""

SIGNATURES_MAX = 16
"""The most signatures of one request, so that a header can't buy unbounded work: secrets roll two at a time."""

KEY_BITS_MIN = 2048
"""The least bits of an RSA key: shorter ones can be broken."""
PublicKey: TypeAlias = RSAPublicKey | EllipticCurvePublicKey

_HEX_KEY = re.compile(r"(?:[0-9A-Fa-f]{2})+")
_TIMESTAMP = re.compile(rb"[0-9]{10}")


def sha256_mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def hex_mac(key: bytes, message: bytes) -> bytes:
    return sha256_mac(key, message).hex().encode("ascii")


def base64_mac(key: bytes, message: bytes) -> bytes:
    return base64.b64encode(sha256_mac(key, message))


def text_key(provider: str, secret: str, where: str) -> bytes:
    """Returns the key of a provider whose secrets are keys as they stand. ``where``: what to copy instead of nothing.

    :raises SettingError: it is empty, or no Unicode text
    """
    if not secret:
        raise secret_error(provider, f"an empty secret proves nothing; copy {where}")
    try:
        return secret.encode("utf-8")
    except UnicodeEncodeError:
        raise secret_error(provider, "the secret isn't Unicode text") from None


def hex_key(provider: str, secret: str) -> bytes:
    """Returns the key of a provider whose secrets are hexadecimal digits.

    :raises SettingError: it is anything else
    """
    if not _HEX_KEY.fullmatch(secret):
        raise secret_error(provider, "an HMAC key is pairs of hexadecimal digits; copy it from the webhook's settings")
    return bytes.fromhex(secret)


@lru_cache(maxsize=64)
def public_key(provider: str, secret: str) -> PublicKey:
    """Reads the key of a provider that signs with its private key: its public key, in one line.

    That line is what stands in a PEM file between ``BEGIN PUBLIC KEY`` and ``END PUBLIC KEY``, its line ends taken out.

    :raises SettingError: it is anything else, or an RSA key that is too short
    """
    try:
        key = load_der_public_key(base64.b64decode(secret, validate=True))
    except (ValueError, UnsupportedAlgorithm) as wrong:
        raise secret_error(provider, "expected the provider's public key: its PEM file's base64 in one line") from wrong
    if isinstance(key, EllipticCurvePublicKey) or (isinstance(key, RSAPublicKey) and key.key_size >= KEY_BITS_MIN):
        return key
    raise secret_error(provider, f"expected a public key of RSA with {KEY_BITS_MIN} bits or of an elliptic curve")


def public_line(key: PublicKey) -> str:
    return base64.b64encode(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode("ascii")


def unowned_public_key() -> str:
    """Makes a public key without a private half: it proves nothing until the provider's is in its place."""
    return public_line(generate_private_key(65537, KEY_BITS_MIN).public_key())


def sent(request: Request, header: bytes) -> list[bytes]:
    """Returns the only signature that a header holds, for `find_matching`.

    :raises SignatureInvalid: ``missing`` or ``several``
    """
    value = request.one(header)
    if value is None:
        raise SignatureInvalid("missing")
    return [value]


def timestamp(raw: bytes) -> int:
    """Reads ten ASCII digits and nothing else: ``int()`` takes ``1_700`` and Arabic digits.

    :raises SignatureInvalid: ``malformed``
    """
    if not _TIMESTAMP.fullmatch(raw):
        raise SignatureInvalid("malformed")
    return int(raw)


def parse_timed_signatures(header: bytes, separator: bytes, time: bytes, scheme: bytes) -> tuple[bytes, list[bytes]]:
    """Parses the time and the signatures of ``t=…,v1=…[,v1=…]`` and its like; parts of other names don't count.

    :raises SignatureInvalid: ``malformed``, no time or several
    """
    sent_at: bytes | None = None
    signatures: list[bytes] = []
    for part in split_list(header, separator):
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


def find_matching(signatures: Sequence[bytes], expected: Iterable[bytes]) -> int:
    """Returns the index of the first expected signature that was sent; every pair is compared.

    :raises SignatureInvalid: ``missing`` or ``mismatch``
    """
    if not signatures:
        raise SignatureInvalid("missing")
    if len(signatures) > SIGNATURES_MAX:
        raise SignatureInvalid("malformed")
    found_at = -1
    for index, signature in enumerate(expected):
        for sent in signatures:
            if hmac.compare_digest(sent, signature) and found_at < 0:
                found_at = index
    if found_at < 0:
        raise SignatureInvalid("mismatch")
    return found_at


def is_signed(key: PublicKey, signature: bytes, message: bytes) -> bool:
    """Whether the private half of the key made the signature: SHA-256, with RSA (PKCS #1 v1.5) or ECDSA."""
    try:
        if isinstance(key, RSAPublicKey):
            key.verify(signature, message, PKCS1v15(), SHA256())
        else:
            key.verify(signature, message, ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def verifying(keys: Iterable[PublicKey], signatures: Sequence[bytes], message: bytes) -> int:
    """Returns the index of the first key by which one of the signatures, which are in base64, is good.

    :raises SignatureInvalid: ``missing``, ``malformed`` or ``mismatch``
    """
    if not signatures:
        raise SignatureInvalid("missing")
    if len(signatures) > SIGNATURES_MAX:
        raise SignatureInvalid("malformed")
    decoded = [decode_base64(signature) for signature in signatures]
    for index, key in enumerate(keys):
        if any(is_signed(key, signature, message) for signature in decoded):
            return index
    raise SignatureInvalid("mismatch")


def decode_base64(signature: bytes) -> bytes:
    """Decodes base64 in its one spelling: the last letter's spare bits are zero.

    :raises SignatureInvalid: ``malformed``
    """
    try:
        decoded = base64.b64decode(signature, validate=True)
    except binascii.Error as wrong:
        raise SignatureInvalid("malformed") from wrong
    if base64.b64encode(decoded) != signature:
        raise SignatureInvalid("malformed")
    return decoded


def secret_error(provider: str, problem: str) -> SettingError:
    return SettingError(f"secrets/{provider}", problem)
