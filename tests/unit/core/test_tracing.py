"""Traces: what is begun, continued and bounded, and what a collector that is away costs."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

import core.tracing
from core.clock import ManualClock
from core.tracing import (
    TRACES_PER_S_MAX,
    Tracing,
    is_traced,
    open_tracing,
    sampled_in,
    span_id_of,
    with_span,
)
from tests.collector import Collector, collecting

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
TRACE, SENDER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SENT = f"00-{TRACE}-{SENDER}-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture
def tracing(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Tracing:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    made = open_tracing("receiver", ManualClock(NOW))
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("env", "on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_it_is_off_until_a_collector_is_named(env: dict[str, str], on: bool) -> None:
    assert is_traced(env) is on
    if not on:
        assert open_tracing("receiver", ManualClock(NOW), env) is None


def test_nothing_of_it_is_loaded_by_the_services_while_it_is_off() -> None:
    """redis-py by itself loads the part about metrics wherever it is installed, and does nothing with it."""
    loaded = (
        "import sys, stack.services.receiver, stack.services.processor, notify.handler\n"
        "from core.clock import SystemClock\n"
        "from core.tracing import open_tracing\n"
        "assert open_tracing('receiver', SystemClock(), {}) is None\n"
        "sys.exit(any(name.startswith(('opentelemetry.sdk.trace', 'opentelemetry.exporter')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", loaded], timeout=120, check=False).returncode == 0


def test_a_senders_trace_goes_on_through_the_receiver_and_each_decision(collector: Collector, tracing: Tracing) -> None:
    traced = tracing.receive("stripe", SENT, NOW)
    assert traced.traceparent is not None
    traced.end({"payhook.outcome": "claimed"})
    span_id = span_id_of("stripe:evt_1:charge.captured", 0)
    started = datetime.now(UTC) - timedelta(seconds=1)
    tracing.record_decision("ledger dead", traced.traceparent, span_id, started, {"payhook.seq": 7}, failed=True)
    tracing.record_decision("notify applied", with_span(traced.traceparent, span_id), None, started, {}, failed=False)
    tracing.close()
    receive, ledger, notify = collector.spans
    assert {span.trace_id for span in collector.spans} == {TRACE}
    assert [span.name for span in collector.spans] == ["receive stripe", "ledger dead", "notify applied"]
    assert [span.parent_id for span in collector.spans] == [SENDER, receive.span_id, ledger.span_id]
    assert ledger.span_id == span_id and ledger.attributes == {"payhook.seq": "7"}
    assert (receive.failed, ledger.failed, notify.failed) == (False, True, False)
    assert receive.service == "payhook-receiver" and 1 <= ledger.seconds < 10


def test_a_webhook_without_a_trace_begins_one(collector: Collector, tracing: Tracing) -> None:
    traced = tracing.receive("stripe", None, NOW)
    traced.end({})
    tracing.close()
    (span,) = collector.spans
    assert traced.traceparent == f"00-{span.trace_id}-{span.span_id}-01" and span.parent_id == ""


@pytest.mark.parametrize("sent", [f"00-{'0' * 32}-{SENDER}-01", f"ff-{TRACE}-{'0' * 16}-ff"])
def test_a_context_that_is_none_costs_nothing_but_itself(tracing: Tracing, sent: str) -> None:
    assert sampled_in(f'{{"traceparent":"{tracing.receive("stripe", sent, NOW).traceparent}"}}') is not None


def test_a_sender_that_wants_no_trace_gets_none(tracing: Tracing) -> None:
    traced = tracing.receive("stripe", f"00-{TRACE}-{SENDER}-00", NOW)
    assert (traced.traceparent, traced.span) == (f"00-{TRACE}-{SENDER}-00", None)


def test_whoever_asks_for_more_so_many_are_traced_a_second(collector: Collector, tracing: Tracing) -> None:
    every = [tracing.receive("stripe", SENT, NOW) for _ in range(3 * TRACES_PER_S_MAX)]
    assert [one.span is not None for one in every] == [True] * TRACES_PER_S_MAX + [False] * 2 * TRACES_PER_S_MAX
    assert every[-1].traceparent == f"00-{TRACE}-{SENDER}-00", "nobody further on makes spans of it"


def test_nobody_waits_for_a_collector_that_hangs(
    tracing: Tracing, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core.tracing, "CLOSE_S_MAX", 0.1)
    collector.hangs.set()
    end_spans(tracing)
    tracing.close()
    assert "traces" in {thread.name for thread in threading.enumerate()}, "what is left is still being sent"


def test_a_collector_that_is_away_raises_nothing(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(core.tracing, "CLOSE_S_MAX", 0.1)
    away = open_tracing("receiver", ManualClock(NOW))
    assert away is not None
    end_spans(away)
    away.close()
    assert collector.spans == []


def end_spans(tracing: Tracing) -> None:
    """Makes and ends 5,000 spans, of which the queue holds 2,048."""
    clock: ManualClock = tracing._clock  # type: ignore[assignment]
    for _ in range(50):
        clock.advance(1)
        for _ in range(TRACES_PER_S_MAX):
            tracing.receive("stripe", SENT, NOW).end({})


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (None, None),
        ('{"provider":"stripe"}', None),
        (f'{{"mode":"live","traceparent":"{SENT}"}}', SENT),
        (f'{{"traceparent":"00-{TRACE}-{SENDER}-00","zone":"a"}}', None),
        ('{"traceparent":"', None),
    ],
)
def test_a_row_says_whether_its_trace_is_taken(headers: str | None, found: str | None) -> None:
    assert sampled_in(headers) == found


def test_each_try_has_a_span_of_its_own() -> None:
    names: Callable[[int], str] = lambda attempt: span_id_of("stripe:evt_1:charge.captured", attempt)  # noqa: E731
    assert names(0) != names(1) and names(0) == names(0) and len(names(0)) == 16
