"""Keys made of providers' own texts: printable, bounded, and never ambiguous."""

from __future__ import annotations

import hashlib

PART_CHARS_MAX = 256
"""Providers' ids are under 100 characters; what is longer is kept as its hash."""

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/@+=,;!*()'$&?#[]{}|^<>\" ")


def key_part(text: str) -> str:
    """One part of a key: ``:``, ``%``, controls and non-ASCII are percent-encoded (UTF-8).

    A part of more than `PART_CHARS_MAX` characters becomes ``sha256-<hex of its bytes>``.
    """
    if len(text) <= PART_CHARS_MAX and text.isascii() and text.isidentifier():
        return text
    if _PLAIN.issuperset(text):
        encoded = text
    else:
        encoded = "".join(
            char if char in _PLAIN else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
            for char in text
        )
    if len(encoded) > PART_CHARS_MAX:
        return "sha256-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return encoded


def join_key(*parts: str) -> str:
    """``join_key("stripe", "evt_1", "charge.refunded")`` is ``"stripe:evt_1:charge.refunded"``."""
    return ":".join([key_part(part) for part in parts])


def hash16(key: str) -> bytes:
    """The 16-byte form of a key under which Redis and the index hold it."""
    return hashlib.sha256(key.encode("utf-8")).digest()[:16]
