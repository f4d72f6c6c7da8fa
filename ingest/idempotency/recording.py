"""One run of the application: its answer is recorded, and sent when it is whole and kept, not before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from starlette.types import Message, Receive, Send

from ingest.idempotency.store import KeptAnswer

Settle = Callable[[KeptAnswer], Awaitable[None]]


class Recording:
    """The ``receive`` and ``send`` that the application gets.

    An answer is held back until it is whole and ``settle`` has kept it: what a client has seen can be repeated. One
    larger than ``bytes_max`` is passed on as it comes; it is settled, without its body, before its last part is sent.
    """

    def __init__(
        self, body: bytes, receive: Receive, send: Send, settle: Settle, bytes_max: int, kept_headers: Collection[bytes]
    ) -> None:
        self._body: bytes | None = body
        self._receive = receive
        self._send = send
        self._settle = settle
        self._bytes_max = bytes_max
        self._kept_headers = kept_headers
        self._start: Message | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._streams = asyncio.Event()
        self._whole = False
        self._gone = False

    @property
    def settled(self) -> bool:
        """The answer came to its end; nothing is left to do but to release what it held."""
        return self._whole

    def client_gone(self) -> None:
        """Nobody listens any more: what the application says is recorded only."""
        self._gone = True

    async def receive(self) -> Message:
        """The body, once. A client that leaves isn't told of while its answer is recorded: the work goes on."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._streams.wait()
        return {"type": "http.disconnect"} if self._whole or self._gone else await self._receive()

    async def send(self, message: Message) -> None:
        """Never fails because of the client."""
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body" and self._start is not None and not self._whole:
            await self._record(self._start, message.get("body", b""), bool(message.get("more_body", False)))

    async def end(self) -> None:
        """The application has returned. An answer that streamed and then stopped was given; any other wasn't."""
        if self._whole or self._start is None:
            return
        if self._streams.is_set():
            await self._settle_as(self._start, None)
        else:
            await self._pass_on(self._start, more=True)

    async def _record(self, start: Message, part: bytes, more: bool) -> None:
        self._size += len(part)
        self._parts.append(part)
        fits = self._size <= self._bytes_max
        if more and fits:
            return
        if not more:
            await self._settle_as(start, b"".join(self._parts) if fits else None)
        await self._pass_on(start, more)

    async def _settle_as(self, start: Message, body: bytes | None) -> None:
        await self._settle(KeptAnswer(start["status"], self._selected(start), body, self._size))
        self._whole = True

    async def _pass_on(self, start: Message, more: bool) -> None:
        body = b"".join(self._parts)
        self._parts.clear()
        if not self._streams.is_set():
            self._streams.set()
            await self._to_client(start)
        await self._to_client({"type": "http.response.body", "body": body, "more_body": more})

    async def _to_client(self, message: Message) -> None:
        if self._gone:
            return
        try:
            await self._send(message)
        except OSError:
            self._gone = True

    def _selected(self, start: Message) -> tuple[tuple[bytes, bytes], ...]:
        named = ((bytes(name).lower(), bytes(value)) for name, value in start.get("headers", ()))
        return tuple((name, value) for name, value in named if name in self._kept_headers)
