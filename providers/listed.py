"""Pages of providers' own lists of events: what reading them has in common."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from core.clock import to_rfc3339
from core.errors import Unparseable
from providers.fields import array_items
from providers.pointed import read_answer


def read_items(answer: bytes, name: str) -> tuple[Mapping[str, Any], list[bytes]]:
    """Reads the answer's document, and the exact bytes of each item of its array ``name``; none where it has no such
    array.

    :raises Unparseable: it isn't an object, or ``name`` is something else
    """
    document = read_answer(answer)
    items = document.get(name)
    if items is None:
        return document, []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Unparseable(f"{name!r} isn't a list of objects")
    return document, list(array_items(answer, name))


def read_documents(answer: bytes, name: str) -> list[Mapping[str, Any]]:
    """Reads the objects of the answer's array ``name``; none where it has no such array.

    :raises Unparseable: it isn't an object, or ``name`` is something else
    """
    document, _ = read_items(answer, name)
    return list(document.get(name) or ())


def build_page_address(url: str, **query: str | int | None) -> str:
    """Builds the address with its query; ``created__gte`` stands for ``created[gte]``, and None is left out."""
    given = {_bracket_name(name): value for name, value in query.items() if value is not None}
    return f"{url}?{urlencode(given)}"


def format_rfc3339_s(moment: datetime) -> str:
    return to_rfc3339(moment.replace(microsecond=0))


def _bracket_name(name: str) -> str:
    of, _, part = name.partition("__")
    return f"{of}[{part}]" if part else of
