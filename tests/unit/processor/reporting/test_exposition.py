"""Every stream's metrics on one page, told apart by a label."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from processor.reporting.exposition import by_stream


def registry(dead: int) -> CollectorRegistry:
    made = CollectorRegistry()
    Gauge("payhook_dlq_depth", "Dead events", registry=made).set(dead)
    Counter("payhook_decisions", "Rows", ("decision",), registry=made).labels("applied").inc(dead)
    return made


def test_a_sample_of_each_stream_under_one_family() -> None:
    page = generate_latest(by_stream({"ledger": registry(3), "notify": registry(5)})).decode()
    assert page.count("# TYPE payhook_dlq_depth gauge") == 1
    assert 'payhook_dlq_depth{stream="ledger"} 3.0' in page
    assert 'payhook_dlq_depth{stream="notify"} 5.0' in page
    assert 'payhook_decisions_total{decision="applied",stream="notify"} 5.0' in page


def test_it_is_asked_anew_with_each_scrape() -> None:
    own = registry(1)
    whole = by_stream({"ledger": own})
    before = generate_latest(whole)
    Gauge("payhook_later", "A family that came later", registry=own).set(1)
    assert before != generate_latest(whole)
