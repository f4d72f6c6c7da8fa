"""The spans of decisions: of the events whose trace is taken, a span for each row, also where a try was repeated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.clock import ManualClock
from core.tracing import Tracing, open_tracing, span_id_of
from core.work import Applied, Outcome, WorkItem
from processor.reporting.status import DecisionSpans
from tests.collector import Collector, collecting
from tests.unit.processor.fakes import Stuck
from tests.unit.processor.harness import NOW, Engine

TRACE, RECEIVER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture
def tracing(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Tracing:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    made = open_tracing("processor", ManualClock(NOW))
    assert made is not None
    return made


SENT = f"00-{TRACE}-{RECEIVER}-01"


def test_each_row_of_a_traced_event_has_a_span_and_each_try_tells_its_own_to_whom_it_calls(
    tmp_path: Path, tracing: Tracing, collector: Collector
) -> None:
    engine, seen = Engine(tmp_path), list[str | None]()
    engine.on_decided = DecisionSpans("ledger", tracing)
    traced = engine.post("a", traceparent=SENT)
    engine.post("b", entity="e2", traceparent=SENT[:-2] + "00")
    engine.post("c", entity="e3")

    def fails_once(item: WorkItem) -> Outcome:
        seen.append(item.traceparent)
        if len(seen) == 1:
            raise Stuck("again")
        return Applied()

    engine.handler.script[traced] = fails_once
    engine.batch()
    engine.start()
    engine.advance(60)
    engine.batch()
    tracing.close()
    tries = [span_id_of(traced, attempt) for attempt in (0, 1)]
    assert seen == [f"00-{TRACE}-{span_id}-01" for span_id in tries]
    assert [(span.name, span.span_id, span.parent_id, span.trace_id) for span in collector.spans] == [
        ("ledger retry", tries[0], RECEIVER, TRACE),
        ("ledger applied", tries[1], RECEIVER, TRACE),
    ]
    assert collector.spans[0].attributes["payhook.event_key"] == traced
    assert collector.spans[0].attributes["messaging.destination.name"] == "payments.events"


def test_no_card_number_leaves_by_a_span(tmp_path: Path, tracing: Tracing, collector: Collector) -> None:
    engine = Engine(tmp_path)
    engine.on_decided = DecisionSpans("ledger", tracing)
    engine.post("4111111111111111", traceparent=SENT)
    engine.batch()
    tracing.close()
    (span,) = collector.spans
    assert "4111111111111111" not in str(span) and "411111******1111" in span.attributes["payhook.event_key"]
