"""A request's body, whole, within limits of size and time, and given to the application again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.types import Receive

from ingest.idempotency.problems import too_large, too_slow

LENGTH_DIGITS_MAX = 12


class ClientGone(Exception):
    """The connection ended before the body did: there is nobody to answer."""


async def read_whole(
    headers: Sequence[tuple[bytes, bytes]], receive: Receive, bytes_max: int, seconds_max: float
) -> bytes:
    """The bytes as sent.

    :raises Problem: 413 as soon as it is clear, 408 at the deadline
    :raises ClientGone: it isn't coming
    """
    for name, value in headers:
        declared = name == b"content-length" and value.isdigit()
        if declared and (len(value) > LENGTH_DIGITS_MAX or int(value) > bytes_max):
            raise too_large(bytes_max)
    try:
        async with asyncio.timeout(seconds_max):
            return await _read(receive, bytes_max)
    except TimeoutError:
        raise too_slow(seconds_max) from None


async def _read(receive: Receive, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > bytes_max:
            raise too_large(bytes_max)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)
