"""A collector of traces for tests: an HTTP server that takes OTLP as protobuf, and can hang."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Spanned:
    """One span; ids in hex, times in seconds."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    seconds: float
    failed: bool
    attributes: dict[str, str]


@dataclass
class Collector:
    """What it was sent. ``hangs``: it takes connections and answers nobody."""

    url: str = ""
    spans: list[Spanned] = field(default_factory=list)
    requests: int = 0
    hangs: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    values = {one.key: one.value.string_value or str(one.value.int_value) for one in span.attributes}
                    self.spans.append(
                        Spanned(
                            named["service.name"],
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                            span.status.code == 2,
                            values,
                        )
                    )


@contextmanager
def collecting() -> Iterator[Collector]:
    """On a free loopback port."""
    collector = Collector()

    class SpansHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.requests += 1
            body = self.rfile.read(int(self.headers["content-length"]))
            if collector.hangs.is_set():
                collector.ended.wait()
                return
            assert self.path == "/v1/traces" and self.headers["content-type"] == "application/x-protobuf"
            collector.take(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), SpansHandler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
