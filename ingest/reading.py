"""The body, raw, within its limits of size and time."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from ingest.errors import cut_off, encoded, too_large, too_slow

DIGITS_MAX = 12


async def read_body(request: Request, bytes_max: int, deadline_s: float) -> bytes:
    """The bytes exactly as sent.

    :raises Refused: 413 as soon as it is clear, 408 at the deadline, 415 for an encoded body
    """
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise encoded(encoding)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > DIGITS_MAX or int(length) > bytes_max):
        raise too_large(bytes_max)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(deadline_s):
            async for part in request.stream():
                size += len(part)
                if size > bytes_max:
                    raise too_large(bytes_max)
                parts.append(part)
    except TimeoutError:
        raise too_slow(deadline_s) from None
    except ClientDisconnect:
        raise cut_off() from None
    return b"".join(parts)
