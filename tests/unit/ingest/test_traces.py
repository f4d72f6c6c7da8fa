"""A webhook's trace: begun or continued where it is proven, and carried on by its events' headers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.tracing import open_tracing
from tests.collector import Collector, collecting
from tests.unit.ingest.app_under_test import Bench

SENT = f"00-{'4b' * 16}-00f067aa0ba902b7-01"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        yield made


@pytest.fixture
def bench(tmp_path: Path, collector: Collector) -> Bench:
    bench = Bench(tmp_path)
    bench.tracing = open_tracing("receiver", SystemClock())
    return bench


def posted(bench: Bench, sent: str | None = None, event_id: str = "evt_1") -> str:
    """The traceparent that an event goes on with."""
    body, headers = bench.stripe(event_id)
    answer = asyncio.run(bench.post(body, headers | ({} if sent is None else {"traceparent": sent})))
    assert answer.status_code == 200
    *_, found = bench.publisher.records[-1]
    return found["traceparent"]


def ended(bench: Bench) -> None:
    assert bench.tracing is not None
    bench.tracing.close()


@pytest.mark.parametrize("sent", [SENT, None])
def test_an_event_goes_on_with_the_receivers_span(bench: Bench, collector: Collector, sent: str | None) -> None:
    found = posted(bench, sent)
    ended(bench)
    (span,) = collector.spans
    assert found == f"00-{span.trace_id}-{span.span_id}-01"
    assert (span.trace_id, span.parent_id) == (("4b" * 16, "00f067aa0ba902b7") if sent else (span.trace_id, ""))
    assert span.attributes == {
        "payhook.event_key": "stripe:evt_1:charge.succeeded",
        "payhook.events": "1",
        "payhook.outcome": "claimed",
    }


def test_what_is_not_proven_has_no_span(bench: Bench, collector: Collector) -> None:
    """Anybody may post to the address."""
    body, headers = bench.stripe()
    answer = asyncio.run(bench.post(body + b" ", headers | {"traceparent": SENT}))
    ended(bench)
    assert answer.status_code == 401 and collector.spans == []


def test_while_it_is_off_the_senders_trace_goes_through_as_it_came(bench: Bench) -> None:
    bench.tracing = None
    assert posted(bench, SENT) == SENT


def test_a_collector_that_hangs_costs_no_event_and_no_time(bench: Bench, collector: Collector) -> None:
    collector.hangs.set()
    began, wanted = time.monotonic(), 150
    for number in range(wanted):
        posted(bench, SENT, f"evt_{number}")
    assert len(bench.publisher.records) == wanted and time.monotonic() - began < 30
    assert time.monotonic() - began < 5 or collector.requests, "it had been asked meanwhile"
