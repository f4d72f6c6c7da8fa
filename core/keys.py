"""Providers' own texts: as names that are kept raw, and as parts of keys, which are printable and never ambiguous."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import unquote

PART_CHARS_MAX = 256
"""Providers' ids are under 100 characters; what is longer is kept as its hash."""
NAME_CHARS_MAX = 340
"""A raw name has at most so many: encoded, each takes 12 at most, so `ENCODED_CHARS_MAX` holds every name."""
ENCODED_CHARS_MAX = 4_096

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/@+=,;!*()'$&?#[]{}|^<>\" ")


_NOT_IN_NAMES = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Controls, among them what separates columns in a row's hash, and halves of surrogate pairs."""


def name_of(text: str) -> str:
    """Returns a provider's text as a name is kept: unchanged, in its own letters.

    One of more than `NAME_CHARS_MAX` characters, or with control characters, becomes ``sha256-<hex of its bytes>``.
    """
    if len(text) > NAME_CHARS_MAX or _NOT_IN_NAMES.search(text) is not None:
        return _hash_text(text)
    return text


def encode_name(text: str) -> str:
    encoded = _encode_text(text)
    return encoded if len(encoded) <= ENCODED_CHARS_MAX else _hash_text(text)


def decode_name(encoded: str) -> str:
    """Returns the name that `encode_name` or `key_part` encoded. A text that neither made stays as it is."""
    if "%" not in encoded:
        return encoded
    name = unquote(encoded, errors="replace")
    return name if name_of(name) == name and _encode_text(name) == encoded else encoded


def key_part(text: str) -> str:
    """Encodes a part of a key: ``:``, ``%``, controls and non-ASCII are percent-encoded (UTF-8).

    A part of more than `PART_CHARS_MAX` characters becomes ``sha256-<hex of its bytes>``.
    """
    if len(text) <= PART_CHARS_MAX and text.isascii() and text.isidentifier():
        return text
    encoded = _encode_text(text)
    return encoded if len(encoded) <= PART_CHARS_MAX else _hash_text(text)


def _encode_text(text: str) -> str:
    if _PLAIN.issuperset(text):
        return text
    return "".join(
        char if char in _PLAIN else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in text
    )


def _hash_text(text: str) -> str:
    return "sha256-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def join_key(*parts: str) -> str:
    """Joins parts: ``join_key("stripe", "evt_1", "charge.refunded")`` is ``"stripe:evt_1:charge.refunded"``."""
    return ":".join([key_part(part) for part in parts])


def hash_key(key: str) -> bytes:
    """Returns the 16 bytes by which Redis and the index hold a key."""
    return hashlib.sha256(key.encode("utf-8")).digest()[:16]
