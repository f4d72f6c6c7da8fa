"""One address that holds every connection keeps no webhook of another address out."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlparse

import httpx2
import pytest

from ingest.limits import LIMITS
from tests.integration.ingest.conftest import ReceiverUnderTest
from tests.integration.ingest.wire import head

OTHER_ADDRESS = "127.0.0.2"
WEBHOOKS = 40
MORE = pytest.mark.more(reason="some seconds each; connections that are silent, and slow heads, are everyday tests")
LATENCY_MAX_S = 5.0
"""Below the shortest time-out of a provider."""
GET = head(line=b"GET /healthz HTTP/1.1")
UNENDING_HEAD = b"POST /webhooks/stripe HTTP/1.1\r\nHost: x\r\nX-Slow: "


class HeldConnections:
    """Connections of 127.0.0.1 that are held in one way; one that is ended is opened again while ``again``."""

    def __init__(self, url: str, first: bytes, then: bytes = b"", *, half_closed: bool = False) -> None:
        where = urlparse(url)
        self._at = str(where.hostname), where.port or 0
        self._first, self._then, self._half_closed = first, then, half_closed
        self._held: list[socket.socket] = []
        self._ended = threading.Event()

    def open(self, count: int) -> None:
        while len(self._held) < count:
            self._held.append(self._opened())

    def keep(self) -> None:
        """Sends a byte on each, again and again, and opens anew what was ended."""
        while not self._ended.wait(0.2):
            for place, held in enumerate(self._held):
                try:
                    held.send(self._then)
                except OSError:
                    held.close()
                    with contextlib.suppress(OSError):
                        self._held[place] = self._opened()

    def close(self) -> None:
        self._ended.set()
        for held in self._held:
            held.close()

    def _opened(self) -> socket.socket:
        opened = socket.create_connection(self._at, 30)
        with contextlib.suppress(OSError):
            opened.send(self._first)
            if self._half_closed:
                opened.shutdown(socket.SHUT_WR)
        return opened


@contextlib.contextmanager
def holding(holder: HeldConnections, count: int, *, keeps: bool) -> Iterator[None]:
    keeping = threading.Thread(target=holder.keep)
    try:
        holder.open(count)
        if keeps:
            keeping.start()
        yield
    finally:
        holder.close()
        if keeps:
            keeping.join()


def posted(receiver: ReceiverUnderTest, name: str, address: str) -> list[tuple[int, float]]:
    """Status and seconds of webhooks of an address, each on a connection of its own."""
    answers: list[tuple[int, float]] = []
    for number in range(WEBHOOKS):
        body, headers = receiver.stripe(f"{name}-{number}")
        transport = httpx2.HTTPTransport(local_address=address)
        with httpx2.Client(transport=transport, trust_env=False, timeout=30) as client:
            began = time.monotonic()
            answer = client.post(f"{receiver.url}/webhooks/stripe", content=body, headers=headers)
            answers.append((answer.status_code, time.monotonic() - began))
    return answers


@pytest.mark.parametrize(
    ("way", "count"),
    [
        ("silent", 900),
        ("slow head", 1_200),
        pytest.param("idle", 900, marks=MORE),
        pytest.param("slow body", 1_200, marks=MORE),
        pytest.param("half-closed", 900, marks=MORE),
    ],
)
def test_webhooks_of_another_address_are_taken(receiver: ReceiverUnderTest, way: str, count: int) -> None:
    ways: dict[str, Callable[[], HeldConnections]] = {
        "silent": lambda: HeldConnections(receiver.url, b""),
        "idle": lambda: HeldConnections(receiver.url, GET),
        "slow head": lambda: HeldConnections(receiver.url, UNENDING_HEAD, b"x"),
        "slow body": lambda: HeldConnections(receiver.url, head(b"Content-Length: 100000"), b"x"),
        "half-closed": lambda: HeldConnections(receiver.url, UNENDING_HEAD, half_closed=True),
    }
    assert count >= LIMITS.connections_max
    with holding(ways[way](), count, keeps=way in {"slow head", "slow body"}):
        answers = posted(receiver, way.replace(" ", "-"), OTHER_ADDRESS)
    assert [status for status, _ in answers] == [200] * WEBHOOKS
    assert max(seconds for _, seconds in answers) < LATENCY_MAX_S


def test_webhooks_of_the_same_address_are_taken_too(receiver: ReceiverUnderTest) -> None:
    """As where a proxy stands before the receiver."""
    with holding(HeldConnections(receiver.url, b""), 900, keeps=False):
        answers = posted(receiver, "same", "127.0.0.1")
    assert [status for status, _ in answers] == [200] * WEBHOOKS


def test_a_connection_whose_request_is_under_way_keeps_its_place(receiver: ReceiverUnderTest) -> None:
    """Its provider holds most connections of all, and Kafka answers late."""
    body, headers = receiver.stripe("kept")
    fields = [f"{name}: {value}".encode() for name, value in headers.items()]
    with receiver.wire() as wire, holding(HeldConnections(receiver.url, b""), 450, keeps=False):
        with receiver.servers.paused(receiver.servers.kafka):
            wire.send(head(b"Content-Length: %d" % len(body), *fields) + body)
            time.sleep(0.3)
            with holding(HeldConnections(receiver.url, b""), 1_000, keeps=False):
                time.sleep(0.3)
        answer = wire.expect_answer()
        assert answer.status == 200


@MORE
def test_many_addresses_that_hold_a_few_connections_each_keep_none_out(receiver: ReceiverUnderTest) -> None:
    where = urlparse(receiver.url)
    with contextlib.ExitStack() as held:
        for number in range(900):
            source = (f"127.0.{1 + number // 200}.{1 + number % 200}", 0)
            opened = socket.create_connection((str(where.hostname), where.port or 0), 30, source)
            held.enter_context(contextlib.closing(opened))
        answers = posted(receiver, "many", OTHER_ADDRESS)
    assert [status for status, _ in answers] == [200] * WEBHOOKS
