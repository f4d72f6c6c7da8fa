"""A subscriber for trying notifications out and for tests: verifies each request, takes each id once, and counts.

``python -m load.subscriber --secrets FILE [--port N]`` prints its URL, a line for each request, and at the end (Ctrl-C)
what it counted. `payhook notify new-secret` makes the file.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click

from core.clock import Clock, SystemClock
from providers.port import Request, SignatureInvalid
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.servers.server import stopped_by_signal

BODY_BYTES_MAX = 1_048_576
KNOWN_MAX = 1_000_000
"""Ids that are remembered; a receiver that must not forget keeps them with what it books."""
POLL_S = 0.05


@dataclass(slots=True)
class Counts:
    """What became of the requests. ``out_of_order``: new facts of an entity with a lower seq than one before."""

    taken: int = 0
    repeated: int = 0
    forged: int = 0
    refused: int = 0
    out_of_order: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What to answer instead of 200, before anything is looked at."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()


class Subscriber:
    """A server on a port, of loopback unless ``host`` is another address; a context manager.

    ``secrets``: newest first. ``replies`` is asked for each request by its number, from 0; None: handle it. ``traces``:
    the ``traceparent`` of each request that was verified.
    """

    def __init__(
        self,
        secrets: Sequence[str],
        clock: Clock,
        port: int = 0,
        replies: Callable[[int], Reply | None] = lambda _: None,
        on_request: Callable[[str, str], None] = lambda *_: None,
        host: str = "127.0.0.1",
    ) -> None:
        self._host = host
        self.counts = Counts()
        self.envelopes: list[dict[str, Any]] = []
        self.traces: list[str | None] = []
        self._secrets = tuple(secrets)
        self._clock = clock
        self._replies = replies
        self._on_request = on_request
        self._adapter = build_adapters(ProvidersSettings())["standardwebhooks"]
        self._lock = threading.Lock()
        self._requests = 0
        self._known: OrderedDict[str, None] = OrderedDict()
        self._seqs: dict[str, int] = {}
        self._server = ThreadingHTTPServer((host, port), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,), daemon=True)

    def trust(self, *secrets: str) -> None:
        """Takes these secrets from now on, the newest first."""
        self._secrets = secrets

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self.port}/payhook"

    def __enter__(self) -> Subscriber:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, headers: Sequence[tuple[str, str]], body: bytes) -> Reply:
        """The whole of a receiver's work: verify, look the id up, book, answer."""
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        with self._lock:
            number, self._requests = self._requests, self._requests + 1
            reply = self._replies(number)
            if reply is not None:
                self.counts.refused += 1
                return reply
            try:
                self._adapter.verify(Request(body, raw), self._secrets, self._clock.now())
            except SignatureInvalid as forged:
                self.counts.forged += 1
                self._on_request("forged", str(forged))
                return Reply(401)
            known = dict(raw)
            self.traces.append(known.get(b"traceparent", b"").decode("ascii") or None)
            self._take(known[b"webhook-id"].decode("ascii"), json.loads(body))
        return Reply(200)

    def _take(self, message_id: str, envelope: dict[str, Any]) -> None:
        if message_id in self._known:
            self.counts.repeated += 1
            self._on_request("repeated", message_id)
            return
        self._known[message_id] = None
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        self.counts.taken += 1
        self.envelopes.append(envelope)
        fact = envelope.get("fact") or envelope.get("reversal")
        if fact is not None:
            self.counts.out_of_order += fact["seq"] < self._seqs.get(fact["entity"], 0)
            self._seqs[fact["entity"]] = fact["seq"]
        self._on_request("taken", f"{message_id} {envelope['type']}")


def _handler_of(subscriber: Subscriber) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", "0"))
            if not 0 < length <= BODY_BYTES_MAX:
                self._reply(Reply(413))
                return
            self._reply(subscriber.answer(self.headers.items(), self.rfile.read(length)))

        def _reply(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers:
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """The subscriber prints its requests itself."""

    return Handler


@click.command()
@click.option(
    "--secrets",
    required=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File of signing secrets, one a line, newest first.",
)
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Loopback port; 0: a free one.")
def main(secrets: Path, port: int) -> None:
    """Receive payhook's notifications on a loopback port until Ctrl-C."""
    printing = threading.Lock()

    def tell(what: str, of: str) -> None:
        with printing:
            print(what, of, flush=True)

    known = secrets.read_text("utf-8").split()
    with stopped_by_signal() as stop, Subscriber(known, SystemClock(), port, on_request=tell) as subscriber:
        print(subscriber.url, flush=True)
        stop.wait()
    print(subscriber.counts)


if __name__ == "__main__":
    main()
