"""Processes' metrics pages on loopback, and the console's live figures of them, for tests that say what happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from unittest import mock
from xml.etree import ElementTree

import httpx2
from prometheus_client import CollectorRegistry, start_http_server

from alerts.settings import AlertsSettings
from console import health
from console.pulse import Pulse
from core.clock import ManualClock
from core.decision import Decision
from ingest.metrics import IngestMetrics
from processor.decide.item import BatchItem
from processor.reporting.exposition import join_registries
from processor.reporting.metrics import ProcessorMetrics
from tests.unit.journal.rows import bare_row

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PAGE_S_MAX = 60.0
STREAMS = ("ledger", "ledger.1", "ledger-test", "notify")


@contextlib.contextmanager
def page(registry: CollectorRegistry) -> Iterator[str]:
    server, thread = start_http_server(0, "127.0.0.1", registry)
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()
    thread.join()


@contextlib.contextmanager
def processor_elsewhere(
    streams: Mapping[str, Mapping[str, object]], asked: Callable[[], object] = lambda: None
) -> Iterator[str]:
    """Answers at the URL with what a processor on another machine says of its streams, once ``asked`` returns."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked()
            body = json.dumps({"streams": streams}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        answering = Thread(target=server.serve_forever, args=(0.01,))
        answering.start()
        yield f"http://127.0.0.1:{server.server_port}/status"
        server.shutdown()
        answering.join()


NO_HTTP = (b"no HTTP at all\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{")
"""Answers of another program at the port, and of one that breaks off."""


@contextlib.contextmanager
def answering_once(answer: bytes) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_one() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)

        answering = Thread(target=answer_one)
        answering.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        answering.join()


class LiveProcesses:
    """Processes' metrics and a pulse that looks at them."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.receiver = IngestMetrics()
        self.streams = {name: ProcessorMetrics(self.clock) for name in STREAMS}
        self.pulse: Pulse

    def looks(self, *after_s: float) -> None:
        """Waits for every page, however busy the machine is: which of them answers is said by the test."""

        async def look() -> None:
            with mock.patch.object(health, "ASK_TIMEOUT_S", PAGE_S_MAX):
                async with httpx2.AsyncClient(trust_env=False) as client:
                    self.pulse._client = client
                    await self.pulse.read_metrics()

        for seconds in after_s:
            self.clock.advance(seconds)
            # A thread of its own: a browser's tests have an event loop in this one.
            with ThreadPoolExecutor(1) as alone:
                alone.submit(asyncio.run, look()).result()

    def decide(self, stream: str, decision: Decision, count: int, took_s: float = 0.3) -> None:
        received_at = self.clock.now() - timedelta(seconds=took_s)
        row = bare_row(1, decision, decided_at=NOW, received_at=received_at)
        self.streams[stream].count_decisions([BatchItem(row, b"")] * count)

    def receive(self, outcome: str, count: int) -> None:
        for _ in range(count):
            self.receiver.count_event("stripe", outcome)
            self.receiver.count_answer("stripe", 200, 0.01)

    def figures(self) -> dict[str, tuple[str, str]]:
        return {one.name: (one.value, one.level) for one in self.pulse.list_figures("ledger")}

    def texts(self) -> list[str]:
        svg = ElementTree.fromstring(str(self.pulse.draw_pipelines("live")["wide"]))
        return [one.text or "" for one in svg.iter() if one.tag.endswith("text")]


@contextlib.contextmanager
def live_processes() -> Iterator[LiveProcesses]:
    """A receiver's page, a processor's, and one that nobody serves."""
    house = LiveProcesses()
    registries = join_registries({name: one.registry for name, one in house.streams.items()})
    with page(house.receiver.registry) as ingest, page(registries) as processor:
        urls = {"ingest": ingest, "processor": processor, "gone": "http://127.0.0.1:1/metrics"}
        house.pulse = Pulse(urls, httpx2.AsyncClient(trust_env=False), house.clock, AlertsSettings())
        yield house
