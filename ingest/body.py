"""The raw body of a request, within its limits of type, size and time."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine, Sequence
from typing import Any

from starlette.types import Receive, Scope

from core.http_fields import media_type_of, split_list, strip_blanks
from ingest.errors import RequestRefused
from ingest.limits import Load, OpenRequest, source_of

DIGITS_MAX = 12
"""A length has so many at most, beyond leading zeros, which the grammar allows (RFC 9110, section 8.6)."""

LOOK_S = 0.05
"""How much later than its deadline a body may be given up."""
OVER = float("-inf")

UNENCODED = frozenset({b"identity", b"none", b"utf-8", b"utf8"})
"""Content codings of a body that is sent as it is. Only the first is legal; senders who mean the charset, or nothing,
say the others."""
CHARSETS = frozenset({b"utf-8", b"utf8", b"us-ascii"})
"""These are read as UTF-8; US-ASCII is a part of it (RFC 3629, section 1)."""

RawHeaders = Sequence[tuple[bytes, bytes]]


class BodyReader:
    def __init__(self, load: Load, bytes_max: int, deadline_s: float) -> None:
        self._load = load
        self._bytes_max = bytes_max
        self._deadline = ReadDeadline(deadline_s)

    def begin(self, scope: Scope, media_type: str) -> OpenRequest:
        """Takes a place for the request; it must be given back by `OpenRequest.end`.

        :param media_type: what the provider posts
        :raises RequestRefused: 413 or 415 by its head, 503 where as many requests as may be are under way
        """
        _check_head(media_type, scope["headers"], self._bytes_max)
        task = asyncio.current_task()
        assert task is not None
        return self._load.begin(source_of(scope["client"]), functools.partial(self._deadline.give_up, task))

    async def read(self, receive: Receive, request: OpenRequest) -> bytes:
        """Returns the bytes exactly as sent, counted in ``request`` as they arrive, before they are kept.

        :raises RequestRefused: 413 as soon as it is clear, 408 at the deadline, 503 where they are too many for now
        """
        body = await self._deadline.read_in_time(_read_body(receive, self._bytes_max, request))
        request.finish_reading()
        return body


class ReadDeadline:
    """Gives up what isn't there in time. One timer looks after all: one each would cost more than the reading."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._until: dict[asyncio.Task[Any], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def read_in_time(self, reading: Coroutine[Any, Any, bytes]) -> bytes:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        if self._timer is None:
            self._timer = loop.call_later(LOOK_S, self._end_overdue_reads)
        self._until[task] = loop.time() + self._deadline_s
        try:
            return await reading
        except asyncio.CancelledError:
            if self._until[task] == OVER and task.uncancel() == 0:
                raise RequestRefused("too_slow", seconds=self._deadline_s) from None
            raise
        finally:
            del self._until[task]

    def give_up(self, task: asyncio.Task[Any]) -> None:
        if self._until.get(task, OVER) > OVER:
            self._until[task] = OVER
            task.cancel()

    def _end_overdue_reads(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for task, until in self._until.items():
            if until <= now:
                self.give_up(task)
        self._timer = loop.call_later(LOOK_S, self._end_overdue_reads) if self._until else None


def _check_head(media_type: str, headers: RawHeaders, bytes_max: int) -> None:
    """Checks a request's headers, whose names are in lower case.

    A request without a Content-Type is taken: the signature says whose it is. One that names its type several times, as
    two fields that were joined do (RFC 9110, section 8.3), has to mean the same each time.

    :raises RequestRefused: 413 for an announced body that is too large, 415 for one that is encoded or of another type
    """
    for name, value in headers:
        if name == b"content-length" and (length := strip_blanks(value)).isdigit():
            digits = length.lstrip(b"0") or b"0"
            if len(digits) > DIGITS_MAX or int(digits) > bytes_max:
                raise RequestRefused("too_large", bytes_max=bytes_max)
        elif name == b"content-type":
            if not _is_of_type(media_type, value):
                raise RequestRefused("wrong_type", wanted=media_type)
        elif name == b"content-encoding" and not UNENCODED.issuperset(split_list(value.lower())):
            raise RequestRefused("encoded")


@functools.lru_cache(maxsize=64)
def _is_of_type(wanted: str, value: bytes) -> bool:
    """Returns whether each member of a field's value is of the wanted type, in a charset that is read."""
    for member in split_list(value) or (value,):
        media_type, parameters = media_type_of(member)
        if media_type != wanted.encode() or parameters.get(b"charset", b"utf-8").lower() not in CHARSETS:
            return False
    return True


async def _read_body(receive: Receive, bytes_max: int, request: OpenRequest) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise RequestRefused("cut_off")
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > bytes_max:
            raise RequestRefused("too_large", bytes_max=bytes_max)
        request.reserve_bytes(len(part))
        parts.append(part)
        if not message.get("more_body", False):
            return part if len(parts) == 1 else b"".join(parts)
