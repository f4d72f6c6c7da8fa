"""A connection whose answers aren't read ends; the client here reads when a test says so."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from ingest.app import SERVING
from ingest.http import LINGER_S, WebhookHttpProtocol, http_protocol
from ingest.http_messages import send_answer
from ingest.limits import ReceiverLimits
from tests import virtual_time

LIMITS = ReceiverLimits()
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_GET = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
ANSWER = b"x" * 2_000
KERNEL_BYTES = 4_096
REQUESTS_MAX = 1_000


async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
    await send_answer(scope, send, 200, [(b"content-length", b"%d" % len(ANSWER))], ANSWER)


class Client:
    """One connection, of which the kernel holds next to nothing."""

    def __init__(self, ours: socket.socket, protocol: WebhookHttpProtocol, transport: asyncio.Transport) -> None:
        self._ours = ours
        self.protocol = protocol
        self._transport = transport

    @property
    def is_held(self) -> bool:
        return self.protocol in self.protocol.connections

    @property
    def waits(self) -> bool:
        """An answer, for room."""
        return self.protocol.flow.write_paused and not self.protocol.cycle.response_complete

    @property
    def is_answered(self) -> bool:
        """All of it was written, and not all of it was sent."""
        return self.protocol.cycle.response_complete and self._transport.get_write_buffer_size() > len(ANSWER)

    async def send(self, request: bytes) -> None:
        self._ours.send(request)
        await asyncio.sleep(0.001)

    async def send_until(self, state: str) -> None:
        for _ in range(REQUESTS_MAX):
            await self.send(GET)
            if getattr(self, state):
                return
        raise AssertionError(f"it never {state}")

    async def read(self) -> int:
        """Bytes, until there are none."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while piece := self._ours.recv(65_536):
                count += len(piece)
                await asyncio.sleep(0.001)
        return count


@contextlib.asynccontextmanager
async def connected(limits: ReceiverLimits = LIMITS) -> AsyncIterator[Client]:
    protocol_class = http_protocol(limits, lambda _refused: None)
    config = uvicorn.Config(answer, **SERVING | {"http": protocol_class})
    config.load()
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
            end.setblocking(False)
        transport, protocol = await loop.connect_accepted_socket(
            lambda: protocol_class(config, ServerState(), {}, loop), theirs
        )
        try:
            yield Client(ours, protocol, transport)
        finally:
            transport.abort()
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("state", ["waits", "is_answered"])
@pytest.mark.parametrize("last", [b"", GET * 4, LAST_GET, b"GARBAGE\r\n\r\n"], ids=["", "more", "last", "broken"])
def test_a_connection_whose_answers_are_not_read_is_closed(state: str, last: bytes) -> None:
    """It would keep its place for ever."""

    async def scene() -> None:
        async with connected() as client:
            await client.send_until(state)
            await client.send(last)
            await asyncio.sleep(LIMITS.idle_s + LINGER_S + 1.0)
            assert not client.is_held

    virtual_time.run(scene())


def test_answers_that_are_read_in_time_are_whole_and_the_connection_stays_open() -> None:
    async def scene() -> None:
        async with connected() as client:
            for _ in range(3):
                await client.send_until("waits")
                await asyncio.sleep(LIMITS.idle_s - 1.0)
                assert await client.read() > len(ANSWER)
                assert not client.waits
            await client.send(GET)
            assert await client.read() > len(ANSWER)
            assert client.is_held

    virtual_time.run(scene())
