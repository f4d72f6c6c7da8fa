"""The ``Idempotency-Key`` header: a structured-field string (RFC 8941, 3.3.3), as the IETF's draft has it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from core.errors import PayhookError

HEADER = "Idempotency-Key"
KEY_CHARS_MAX = 255

_QUOTED = re.compile(rb'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_BARE = re.compile(rb"[!#-+\--:<-\[\]-~]+")
"""Printable ASCII without blanks and without what a quoted string, a list or a parameter is made of."""
_ESCAPED = re.compile(rb'\\(["\\])')


class KeyMalformed(PayhookError):
    """A header that names no key; what it holds isn't repeated."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{HEADER}: {problem}")


def read_key(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The key of 1 to `KEY_CHARS_MAX` printable ASCII characters, None where there is no such header.

    The draft wants it quoted. Many clients send it bare, so ``"k-1"`` and ``k-1`` are the same key; a bare one can't
    hold blanks, ``"``, ``\\``, ``,`` or ``;``, so that a list or a parameter isn't taken for a key.

    :param headers: as ASGI gives them: raw, names in lower case
    :raises KeyMalformed: not such a key, or more than one header
    """
    values = [value for name, value in headers if name == b"idempotency-key"]
    if not values:
        return None
    if len(values) > 1:
        raise KeyMalformed("one such header is wanted, not several")
    raw = values[0].strip(b" \t")
    if quoted := _QUOTED.fullmatch(raw):
        key = _ESCAPED.sub(rb"\1", quoted[1])
    elif _BARE.fullmatch(raw):
        key = raw
    else:
        raise KeyMalformed('a string in double quotes is wanted, such as "8e03978e-40d5-43e8-bc93-6894a57f9324"')
    if not 0 < len(key) <= KEY_CHARS_MAX:
        raise KeyMalformed(f"1 to {KEY_CHARS_MAX} characters are wanted")
    return key.decode("ascii")
