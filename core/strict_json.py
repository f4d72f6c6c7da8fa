"""JSON without surprises: what two readers could read differently is refused (RFC 8259, I-JSON RFC 7493).

orjson reads; one walk over its result finds what it lets through. Only a body with numbers that aren't
64-bit integers is read a second time, so that no amount ever passes through a float.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import orjson

from core.errors import Unparseable

DEPTH_MAX = 64
"""Containers within containers; providers' bodies nest under 15."""
INT_MIN = -(2**63)
INT_MAX = 2**64 - 1
INT_CHARS_MAX = 20

Document: TypeAlias = dict[str, Any] | list[Any]


def load_json(body: bytes) -> Document:
    """Reads the object or array in ``body``. Integers are int, other numbers Decimal, never float.

    :raises Unparseable: not JSON in UTF-8; a byte order mark, NaN or Infinity, a key twice in one object,
        half a surrogate pair, nesting beyond `DEPTH_MAX`, an integer beyond 64 bits, or a bare scalar
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as wrong:
        raise Unparseable(wrong.msg) from wrong
    if type(document) is not dict and type(document) is not list:
        raise Unparseable("expected an object or an array at the top")
    texts, has_floats = _scan_document(document)
    if 2 * texts != _count_quotes(body):
        raise Unparseable("a key comes twice in one object")
    return _parse_exactly(body) if has_floats else document


def dump_json(document: object) -> bytes:
    return orjson.dumps(document, default=_write_number)


def dump_canonical_json(document: object) -> bytes:
    """Spells equal documents alike: keys sorted, no blanks, UTF-8, numbers as they were written."""
    return orjson.dumps(document, default=_write_number, option=orjson.OPT_SORT_KEYS)


def _scan_document(document: Document) -> tuple[int, bool]:
    texts, has_floats = 0, False
    level: list[Any] = [document]
    for _ in range(DEPTH_MAX):
        below: list[Any] = []
        for node in level:
            if type(node) is dict:
                texts += len(node)
                children = node.values()
            else:
                children = node
            for child in children:
                kind = type(child)
                if kind is str:
                    texts += 1
                elif kind is dict or kind is list:
                    below.append(child)
                elif kind is float:
                    has_floats = True
        if not below:
            return texts, has_floats
        level = below
    raise Unparseable(f"nested deeper than {DEPTH_MAX}")


def _count_quotes(body: bytes) -> int:
    """Counts the quotes that open or close a text. orjson drops the first of two equal keys, but this counts it."""
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return body.count(b'"')


def _parse_exactly(body: bytes) -> Document:
    try:
        document: Document = json.loads(body.decode("utf-8"), parse_float=Decimal, parse_int=_parse_int64)
    except InvalidOperation as wrong:
        raise Unparseable("a number's exponent is beyond all bounds") from wrong
    return document


def _parse_int64(digits: str) -> int:
    if len(digits) <= INT_CHARS_MAX and INT_MIN <= (number := int(digits)) <= INT_MAX:
        return number
    raise Unparseable("an integer is beyond 64 bits")


def _write_number(value: object) -> orjson.Fragment:
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value))
    raise TypeError(f"{type(value).__name__} isn't of a JSON document")
