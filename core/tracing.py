"""Traces (OpenTelemetry) of some webhooks, from the receiver through Kafka and the journal to subscribers.

Off unless OpenTelemetry's own variables name a collector (``OTEL_EXPORTER_OTLP_ENDPOINT``); nothing of its libraries is
imported then. A trace's context travels as ``traceparent`` (W3C), in Kafka's headers and in requests to subscribers.

Each event that is traced has a span of its own wherever it is decided, and `TRACES_PER_S_MAX` bounds how many are
traced: so traces cost the same at any load (docs/decisions/0030). Spans are sent by a thread of
OpenTelemetry's; what its queue doesn't take, and what a collector doesn't, is dropped.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from core.clock import Clock, to_micros

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

TRACES_PER_S_MAX = 100
"""That a receiver's process begins, whatever its senders ask for. A span costs 50 µs: half a percent of a core."""

DECISIONS_PER_S_MAX = 500
"""Spans of a processor: those of several receivers, and of what subscribers are sent of them."""

QUEUE_MAX = 2_048
EXPORT_S_MAX = 5.0
CLOSE_S_MAX = 3.0
"""What a collector didn't take by then, when the process ends, is dropped."""

SAMPLED = "01"
_IN_HEADERS = '"traceparent":"'
_TRACEPARENT_CHARS = 55

Kind: TypeAlias = Literal["SERVER", "CONSUMER"]


def is_traced(env: Mapping[str, str] = os.environ) -> bool:
    endpoint = env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    is_off = env.get("OTEL_SDK_DISABLED", "").lower() == "true" or env.get("OTEL_TRACES_EXPORTER") == "none"
    return bool(endpoint) and not is_off


def sampled_in(headers: str | None) -> str | None:
    at = -1 if headers is None else headers.find(_IN_HEADERS)
    if headers is None or at < 0:
        return None
    begin = at + len(_IN_HEADERS)
    traceparent = headers[begin : begin + _TRACEPARENT_CHARS]
    return traceparent if traceparent.endswith(f"-{SAMPLED}") else None


def span_id_of(event_key: str, attempt: int) -> str:
    """Returns the span id of one try of an event, in hex. The worker and the driver make the same one."""
    return hashlib.sha256(f"{event_key}#{attempt}".encode()).hexdigest()[:16]


def with_span(traceparent: str, span_id: str) -> str:
    version, trace_id, _, flags = traceparent.split("-")
    return f"{version}-{trace_id}-{span_id}-{flags}"


@dataclass(slots=True)
class TracedWebhook:
    traceparent: str | None
    span: Span | None = None

    def end(self, attributes: Mapping[str, str | int]) -> None:
        if self.span is not None:
            self.span.set_attributes(dict(attributes))
            self.span.end()


class Tracing:
    """Makes the spans of one process. Any thread may make them; none waits for a collector."""

    def __init__(self, provider: TracerProvider, ids: Any, clock: Clock) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("payhook")
        self._ids = ids
        self._clock = clock
        self._lock = threading.Lock()
        self._second, self._begun, self._decided = 0, 0, 0

    def receive(self, provider: str, traceparent: str | None, received_at: datetime) -> TracedWebhook:
        with self._lock:
            self._begins_second()
            self._begun += 1
            too_many = self._begun > TRACES_PER_S_MAX
        if too_many:
            return TracedWebhook(_not_sampled(traceparent))
        span = self._begin(f"receive {provider}", traceparent, received_at, "SERVER")
        if not span.is_recording():
            return TracedWebhook(_not_sampled(traceparent))
        context = span.get_span_context()
        return TracedWebhook(f"00-{context.trace_id:032x}-{context.span_id:016x}-{SAMPLED}", span)

    def record_decision(
        self,
        name: str,
        traceparent: str,
        span_id: str | None,
        started_at: datetime,
        attributes: Mapping[str, str | int],
        *,
        failed: bool,
    ) -> None:
        from opentelemetry.trace import StatusCode

        with self._lock:
            self._begins_second()
            self._decided += 1
            too_many = self._decided > DECISIONS_PER_S_MAX
        if too_many:
            return
        self._ids.wanted.span_id = None if span_id is None else int(span_id, 16)
        span = self._begin(name, traceparent, started_at, "CONSUMER")
        span.set_attributes(dict(attributes))
        if failed:
            span.set_status(StatusCode.ERROR)
        span.end()

    def close(self) -> None:
        ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(CLOSE_S_MAX)

    def _begin(self, name: str, traceparent: str | None, started_at: datetime, kind: Kind) -> Span:
        from opentelemetry import trace

        context = None
        if traceparent is not None:
            _, trace_id, span_id, flags = traceparent.split("-")
            parent = trace.SpanContext(int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(int(flags, 16)))
            context = trace.set_span_in_context(trace.NonRecordingSpan(parent))
        at_ns = to_micros(started_at) * 1_000
        return self._tracer.start_span(name, context, trace.SpanKind[kind], start_time=at_ns)

    def _begins_second(self) -> None:
        second = int(self._clock.monotonic_s())
        if second != self._second:
            self._second, self._begun, self._decided = second, 0, 0


def open_tracing(service: str, clock: Clock, env: Mapping[str, str] = os.environ) -> Tracing | None:
    """Opens the traces of a process, once it has forked for the last time; None where they are off.

    :param service: ``receiver``, ``processor``; spans say ``payhook-`` and it unless ``OTEL_SERVICE_NAME`` names it
    """
    if not is_traced(env):
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        def __init__(self) -> None:
            self.wanted = threading.local()

        def generate_span_id(self) -> int:
            span_number: int | None = getattr(self.wanted, "span_id", None)
            self.wanted.span_id = None
            return span_number or super().generate_span_id()

    ids, named = Ids(), env.get("OTEL_SERVICE_NAME") or f"payhook-{service}"
    provider = TracerProvider(
        resource=Resource.create({"service.name": named}), id_generator=ids, shutdown_on_exit=False
    )
    exporter = OTLPSpanExporter(timeout=EXPORT_S_MAX)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=QUEUE_MAX, schedule_delay_millis=1_000))
    return Tracing(provider, ids, clock)


def _not_sampled(traceparent: str | None) -> str | None:
    return None if traceparent is None else f"{traceparent[:-2]}00"
