"""The body, raw, within its limits of type, size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.types import Receive

from ingest.errors import cut_off, encoded, too_large, too_slow, wrong_type
from ingest.overload import Held

DIGITS_MAX = 12
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
FORM_PROVIDERS = frozenset({"braintree", "mollieclassic"})
"""Everybody else posts JSON."""

RawHeaders = Sequence[tuple[bytes, bytes]]


def check_head(provider: str, headers: RawHeaders, bytes_max: int) -> int | None:
    """The length that the body is announced with, None where it comes in chunks. Names in lower case.

    A request without a Content-Type is taken: nothing is read by it, and the signature says whose it is.

    :raises Refused: 413 for an announced body that is too large, 415 for one that is encoded or of another type
    """
    announced: int | None = None
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            if len(value) > DIGITS_MAX or int(value) > bytes_max:
                raise too_large(bytes_max)
            announced = int(value)
        elif name == b"content-type":
            _check_type(FORM if provider in FORM_PROVIDERS else JSON, value)
        elif name == b"content-encoding" and value.lower() != b"identity":
            raise encoded()
    return announced


def _check_type(wanted: str, value: bytes) -> None:
    media_type, _, parameters = value.partition(b";")
    charset = parameters.strip().lower()
    if media_type.strip().lower() != wanted.encode():
        raise wrong_type(wanted)
    if charset.startswith(b"charset") and charset.partition(b"=")[2].strip(b' "') not in (b"utf-8", b"utf8"):
        raise wrong_type(wanted)


async def read_body(announced: int | None, receive: Receive, bytes_max: int, deadline_s: float, held: Held) -> bytes:
    """The bytes exactly as sent, counted in ``held`` before they are kept.

    :raises Refused: 413 as soon as it is clear, 408 at the deadline, 503 where they are too many for now
    """
    if announced is not None:
        held.hold(announced)
    try:
        async with asyncio.timeout(deadline_s):
            return await _read(receive, bytes_max, None if announced is not None else held)
    except TimeoutError:
        raise too_slow(deadline_s) from None


async def _read(receive: Receive, bytes_max: int, held: Held | None) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise cut_off()
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > bytes_max:
            raise too_large(bytes_max)
        if held is not None:
            held.hold(len(part))
        parts.append(part)
        if not message.get("more_body", False):
            return part if len(parts) == 1 else b"".join(parts)
