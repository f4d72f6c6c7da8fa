"""Exact bytes of parts of a body, so that what is kept is what was signed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_SPACE = re.compile(r"[ \t\n\r]*")
_read_value = json.JSONDecoder().raw_decode


def array_items(body: bytes, *path: str) -> Iterator[bytes]:
    """The exact bytes of each value in the array that the top object has at the end of ``path``, in order.

    The body was read by `core.strict_json` before, and the array found in it: nothing is checked again.
    """
    whole = body.decode("utf-8")
    at = _skip(whole, 0)
    for name in path:
        at = _key_value(whole, name, at)
    at = _skip(whole, at + 1)
    while whole[at] != "]":
        _, end = _read_value(whole, at)
        yield whole[at:end].encode("utf-8")
        at = _skip(whole, end)
        if whole[at] == ",":
            at = _skip(whole, at + 1)


def _key_value(whole: str, wanted: str, at: int) -> int:
    """Where the value of a key of the object at ``at`` starts."""
    at = _skip(whole, at + 1)
    while True:
        key, at = _read_value(whole, at)
        at = _skip(whole, _skip(whole, at) + 1)
        if key == wanted:
            return at
        _, at = _read_value(whole, at)
        at = _skip(whole, _skip(whole, at) + 1)


def _skip(whole: str, at: int) -> int:
    found = _SPACE.match(whole, at)
    return found.end() if found else at
