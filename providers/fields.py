"""Reading providers' bodies: strict where something rests on it, and exact where parts of them are kept."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import quote

from core import strict_json
from core.clock import from_rfc3339
from core.errors import PayhookError, Unparseable
from core.event import Mode
from core.keys import join_key

Path: TypeAlias = tuple[str, ...]

_UNIX_S_MAX = 253_402_300_799
"""The last second of the year 9999, datetime's end."""
SEGMENT_CHARS_MAX = 255
"""Stripe says so of its ids (https://docs.stripe.com/upgrades); others' are shorter."""
_SPACE = re.compile(r"[ \t\n\r]*")
_read_value = json.JSONDecoder().raw_decode


class ContentVersionUnknown(PayhookError):
    def __init__(self, provider: str, version: int) -> None:
        self.provider = provider
        self.version = version
        super().__init__(f"content version {version} of {provider} isn't known here: upgrade the processor first")


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def an_object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unparseable(f"{name} isn't an object")
    return value


def text(document: Mapping[str, Any], name: str) -> str:
    """
    :raises Unparseable: not there, not a text, or empty
    """
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise Unparseable(f"{name!r} isn't a text with something in it")
    return value


def optional_text(document: Mapping[str, Any], name: str) -> str | None:
    """Returns the text; None where it is absent, null or empty.

    :raises Unparseable: there, and not a text
    """
    value = document.get(name)
    if value is not None and not isinstance(value, str):
        raise Unparseable(f"{name!r} isn't a text")
    return value or None


def optional_object(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the object; an empty one where it is absent or null.

    :raises Unparseable: there, and not an object
    """
    value = document.get(name)
    return {} if value is None else an_object(value, repr(name))


def optional_list(document: Mapping[str, Any], name: str) -> list[Any]:
    """Returns the list; an empty one where it is absent or null.

    :raises Unparseable: there, and not a list
    """
    value = document.get(name)
    if value is not None and not isinstance(value, list):
        raise Unparseable(f"{name!r} isn't a list")
    return value or []


def id_of(document: Mapping[str, Any], name: str) -> str:
    """Returns as text an id that is written as a JSON number, or as a text.

    :raises Unparseable: not there, empty, or neither of both
    """
    text_id = any_id(document, name)
    if text_id is None:
        raise Unparseable(f"{name!r} is neither a whole number nor a text with something in it")
    return text_id


def any_id(holder: object, *path: str) -> str | None:
    """Returns the id at the end of a path, a text or a JSON number, as text; None where there is none."""
    value = resolve(holder, path)
    if type(value) is int:
        return str(value)
    return value if isinstance(value, str) and value else None


def text_at(holder: object, *path: str) -> str | None:
    """Returns the text at the end of a path; None where there is none, or an empty one."""
    value = resolve(holder, path)
    return value if isinstance(value, str) and value else None


def object_at(holder: object, *path: str) -> dict[str, Any]:
    """Returns the object at the end of a path; an empty one where there is none."""
    value = resolve(holder, path)
    return value if isinstance(value, dict) else {}


def time_of(value: object) -> datetime | None:
    """Reads Unix seconds or RFC 3339. A time that can't be read is None: it decides nothing."""
    if type(value) is int and 0 <= value <= _UNIX_S_MAX:
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, str):
        try:
            return from_rfc3339(value)
        except ValueError:
            return None
    return None


def mode_of(document: Mapping[str, Any], name: str) -> Mode | None:
    """Returns the mode of a field that is ``live`` or ``test``; None where it isn't there.

    :raises Unparseable: it says something else
    """
    mode = document.get(name)
    if mode is None or mode == "live" or mode == "test":
        return mode
    raise Unparseable(f"{name!r} is neither live nor test")


def entity_key(kept_for: str, provider: str, account: str, payment: str) -> str:
    """Builds ``provider:account:payment``, or ``provider:account`` where order is kept for the merchant."""
    return join_key(provider, account) if kept_for == "merchant" else join_key(provider, account, payment)


def path_segment(reference: str) -> str:
    """Quotes an id as one segment of a URL's path (RFC 3986, 3.3). Ids are opaque: any text that fits there once
    encoded.

    :raises Unparseable: empty, too long, with a control character or half of a surrogate pair; or ``.`` or ``..``,
        which readers of URLs take out
    """
    is_plain = 0 < len(reference) <= SEGMENT_CHARS_MAX and reference not in (".", "..")
    if not is_plain or any(unicodedata.category(char) in ("Cc", "Cs") for char in reference):
        raise Unparseable("an id is no part of an address")
    return quote(reference, safe="")


def content_hash(document: Mapping[str, Any], left_out: Collection[str] = ()) -> str:
    """Hashes the canonical JSON (SHA-256, hex) without the top-level fields that differ between deliveries."""
    kept = {name: value for name, value in document.items() if name not in left_out}
    return hashlib.sha256(strict_json.dump_canonical_json(kept)).hexdigest()


@lru_cache(maxsize=256)
def parse_pointer(text: str) -> Path:
    """Parses a JSON pointer (RFC 6901).

    :raises ValueError: not a pointer to something within a document
    """
    if not text.startswith("/"):
        raise ValueError(f"a JSON pointer starts with '/': {text!r}")
    if "~" in text.replace("~0", "").replace("~1", ""):
        raise ValueError(f"in a JSON pointer '~' is written '~0': {text!r}")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def resolve(document: object, path: Path) -> object:
    """Returns what the path points to, None where there is nothing."""
    for part in path:
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list) and part.isascii() and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            return None
    return document


def array_items(body: bytes, *path: str) -> Iterator[bytes]:
    """Yields the exact bytes of each value in the array that the top object has at the end of ``path``, in order.

    So what is kept of an item is what was signed. The body was read by `core.strict_json` before, and the array found
    in it: nothing is checked again.
    """
    body_text = body.decode("utf-8")
    at = _skip_blanks(body_text, 0)
    for name in path:
        at = _find_key_value(body_text, name, at)
    at = _skip_blanks(body_text, at + 1)
    while body_text[at] != "]":
        _, end = _read_value(body_text, at)
        yield body_text[at:end].encode("utf-8")
        at = _skip_blanks(body_text, end)
        if body_text[at] == ",":
            at = _skip_blanks(body_text, at + 1)


def _find_key_value(text: str, name: str, at: int) -> int:
    at = _skip_blanks(text, at + 1)
    while True:
        key, at = _read_value(text, at)
        at = _skip_blanks(text, _skip_blanks(text, at) + 1)
        if key == name:
            return at
        _, at = _read_value(text, at)
        at = _skip_blanks(text, _skip_blanks(text, at) + 1)


def _skip_blanks(text: str, at: int) -> int:
    blanks = _SPACE.match(text, at)
    return blanks.end() if blanks else at
