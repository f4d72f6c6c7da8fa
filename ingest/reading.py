"""The body, raw, within its limits of size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.types import Receive

from ingest.errors import cut_off, encoded, too_large, too_slow

DIGITS_MAX = 12

RawHeaders = Sequence[tuple[bytes, bytes]]


async def read_body(headers: RawHeaders, receive: Receive, bytes_max: int, deadline_s: float) -> bytes:
    """The bytes exactly as sent. ``headers`` as ASGI gives them: raw, names in lower case.

    :raises Refused: 413 as soon as it is clear, 408 at the deadline, 415 for an encoded body
    """
    for name, value in headers:
        if name == b"content-encoding" and value.lower() != b"identity":
            raise encoded(value.decode("latin-1"))
        if name == b"content-length" and value.isdigit() and (len(value) > DIGITS_MAX or int(value) > bytes_max):
            raise too_large(bytes_max)
    try:
        async with asyncio.timeout(deadline_s):
            return await _read(receive, bytes_max)
    except TimeoutError:
        raise too_slow(deadline_s) from None


async def _read(receive: Receive, bytes_max: int) -> bytes:
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
        parts.append(part)
        if not message.get("more_body", False):
            return part if len(parts) == 1 else b"".join(parts)
