"""HTTP/1.1 over bare sockets, for rates at which an HTTP library would measure itself.

Requests are whole texts made beforehand; of an answer only its status and its length are read.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import uvloop

CONNECTIONS = 64
GIVE_UP_S = 60.0
ROUND_S = 5.0
"""Of steady load: one open loop after the other, so that it ends that soon."""


@dataclass(slots=True)
class Load:
    """What came back. ``latencies`` in seconds, from when each request was due (open loop) or sent (closed loop)."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    latencies: array[float] = field(default_factory=lambda: array("d"))

    @property
    def per_s(self) -> float:
        return len(self.latencies) / self.seconds


class ConnectionLost(ConnectionError):
    """The server closed a connection in the middle of the load."""


class _Connection(asyncio.Protocol):
    """One keep-alive connection with one request under way at a time."""

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader
        self._read = b""
        self._due = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes, due: float) -> None:
        assert self._transport is not None
        self._due = due
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        read = self._read + data if self._read else data
        head = read.find(b"\r\n\r\n")
        if head < 0 or len(read) < head + 4 + _content_length(read, head):
            self._read = read
            return
        self._read = b""
        self._loader.answered(self, int(read[9:12]), time.perf_counter() - self._due)

    def connection_lost(self, exc: Exception | None) -> None:
        self._loader.lost(exc)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _content_length(read: bytes, head: int) -> int:
    at = read.find(b"content-length: ", 0, head)
    if at < 0:
        at = read.find(b"Content-Length: ", 0, head)
    return int(read[at + 16 : read.find(b"\r\n", at)])


class _Loader:
    def __init__(self, requests: Sequence[bytes], rate_per_s: float | None) -> None:
        self.load = Load()
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests = requests
        self._rate_per_s = rate_per_s
        self._next = 0
        self._began = 0.0
        self._free: deque[_Connection] = deque()

    def start(self, connections: list[_Connection]) -> None:
        self._began = time.perf_counter()
        self._free.extend(connections)
        self._go_on()

    def answered(self, connection: _Connection, status: int, latency_s: float) -> None:
        load = self.load
        load.statuses[status] += 1
        load.latencies.append(latency_s)
        if len(load.latencies) == len(self._requests):
            load.seconds = time.perf_counter() - self._began
            self.finished.set_result(None)
            return
        self._free.append(connection)
        self._send_due()

    def lost(self, exc: Exception | None) -> None:
        if not self.finished.done():
            self.finished.set_exception(ConnectionLost(str(exc or "closed by the server")))

    def _go_on(self) -> None:
        """Closed loop: once. Open loop: at every millisecond, so that what is due leaves although nothing came."""
        self._send_due()
        if self._rate_per_s is not None and self._next < len(self._requests) and not self.finished.done():
            asyncio.get_running_loop().call_later(0.001, self._go_on)

    def _send_due(self) -> None:
        now = time.perf_counter()
        while self._free and self._next < len(self._requests):
            due = now if self._rate_per_s is None else self._began + self._next / self._rate_per_s
            if due > now:
                return
            self._free.popleft().send(self._requests[self._next], due)
            self._next += 1


async def closed_loop(host: str, port: int, requests: Sequence[bytes], connections: int = CONNECTIONS) -> Load:
    """Every connection sends its next request when its last one is answered."""
    return await _load(host, port, requests, connections, None)


async def open_loop(host: str, port: int, requests: Sequence[bytes], rate_per_s: float) -> Load:
    """Requests are due at a set rate; one that finds no free connection waits, and its latency counts the wait."""
    return await _load(host, port, requests, CONNECTIONS, rate_per_s)


async def _load(host: str, port: int, requests: Sequence[bytes], connections: int, rate_per_s: float | None) -> Load:
    """
    :raises ConnectionLost: the server closed a connection
    :raises TimeoutError: answers are missing `GIVE_UP_S` after they could have been there
    """
    loop = asyncio.get_running_loop()
    loader = _Loader(requests, rate_per_s)
    opened = [(await loop.create_connection(lambda: _Connection(loader), host, port))[1] for _ in range(connections)]
    try:
        loader.start(opened)
        async with asyncio.timeout(GIVE_UP_S + (len(requests) / rate_per_s if rate_per_s else GIVE_UP_S)):
            await loader.finished
    finally:
        if not loader.finished.done():
            loader.finished.cancel()
        for connection in opened:
            connection.close()
    return loader.load


def undisturbed(load: Coroutine[None, None, Load]) -> Load:
    """Runs a load on a fast event loop of its own, while the garbage collector rests."""
    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(load)
    finally:
        gc.enable()


class SteadyLoad:
    """Traffic at one rate for as long as something else takes, sent in a thread of its own.

    ``sent`` and ``statuses`` are of finished rounds, so of all once it stopped.
    ``make``: so many requests, each asked for when it is due.
    """

    def __init__(self, address: str, rate_per_s: float, make: Callable[[int], Sequence[bytes]]) -> None:
        place = urlsplit(address)
        assert place.hostname is not None and place.port is not None
        self._host, self._port = place.hostname, place.port
        self._rate_per_s = rate_per_s
        self._make = make
        self._stop = threading.Event()
        self._failed: Exception | None = None
        self.statuses: Counter[int] = Counter()

    @property
    def sent(self) -> int:
        return sum(self.statuses.values())

    @contextmanager
    def going(self) -> Iterator[None]:
        """
        :raises ConnectionError: the receiver closed a connection
        """
        thread = threading.Thread(target=self._run, name="live traffic", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                while not self._stop.is_set():
                    requests = self._make(int(self._rate_per_s * ROUND_S))
                    load = runner.run(open_loop(self._host, self._port, requests, self._rate_per_s))
                    self.statuses += load.statuses
        except (OSError, TimeoutError) as failed:
            self._failed = failed
