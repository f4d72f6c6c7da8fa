"""A provider to fetch from: a real server on the loopback address, and fetching with limits of a test's own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from core.clock import ManualClock
from ingest.fetch import FetchLimits, HttpFetch
from ingest.provider_client import FetchFailed, open_client
from providers.port import Wanted

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
SECRET = "live_3kXbDbWVQzTFq5hYpG8d"  # of our own making


class ProviderServer:
    """A server that answers what a test sets, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.status: dict[str, int] = {}
        self.first: list[int] = []
        """Statuses of the first answers, whatever else is set."""
        self.headers: dict[str, str] = {}
        self.body = b'{"id":"tr_1"}'
        self.bodies: dict[str, bytes] = {}
        """By path; others are answered with the body."""
        self.absent: set[str] = set()
        """Paths that are answered 404."""
        self.slow_after: int | None = None
        """So many questions are answered; the next ones wait until ``open`` is set."""
        self.chunks = 1
        self.counting = True
        self.open = threading.Event()
        self.open.set()
        self.base = ""

    @property
    def bearers(self) -> list[str]:
        return [bearer for _, bearer in self.asked]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        bearer = handler.headers.get("authorization", "").removeprefix("Bearer ")
        self.asked.append((handler.path, bearer))
        body = self.bodies.get(handler.path.partition("?")[0], self.body)
        body += b" of %d" % len(self.asked) if self.counting else b""
        if self.slow_after is not None and len(self.asked) > self.slow_after:
            self.open.clear()
        self.open.wait(60)
        usual = self.status.get(bearer, self.status.get("*", 200))
        usual = 404 if handler.path.partition("?")[0] in self.absent else usual
        handler.send_response(self.first.pop(0) if self.first else usual)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(body) * self.chunks))
        handler.end_headers()
        for _ in range(self.chunks):
            handler.wfile.write(body)


@pytest.fixture
def provider() -> Iterator[ProviderServer]:
    started = ProviderServer()

    class ProviderHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                started.answer(self)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            with contextlib.suppress(OSError):
                started.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), ProviderHandler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    started.base = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield started
    finally:
        started.open.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def running(
    scene: Callable[[HttpFetch], Awaitable[None]],
    clock: ManualClock,
    loopback: bool = True,
    timeout_s: float = 60.0,
    **set_: Any,
) -> HttpFetch:
    """Plays a scene with a fetcher of those settings."""

    async def play() -> HttpFetch:
        async with open_client() as client:
            limits = FetchLimits(timeout_s=timeout_s, **set_)
            fetching = HttpFetch(client, clock, limits, loopback=loopback, sleep=passing(clock))
            try:
                await scene(fetching)
            finally:
                await fetching.close()
            return fetching

    return asyncio.run(play())


def passing(clock: ManualClock) -> Callable[[float], Awaitable[None]]:
    """A sleep that lets the clock's time pass, and none of the test's."""

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        await asyncio.sleep(0)

    return sleep


async def until(holds: Callable[[], bool]) -> None:
    """Other threads' doings, waited for."""
    for _ in range(12_000):
        if holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it didn't come to that")


async def failing(fetching: HttpFetch, wanted: Wanted) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        await fetching.fetch(wanted)
    return caught.value
