"""Metrics as Prometheus reads them, out of plain numbers."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from core.metrics import MetricEntry, MetricType, Service
from ingest.metrics import Counts, Times

EDGES = (0.001, 0.010, 5.0)
ANSWERS = MetricEntry("answers", MetricType.COUNTER, "requests", Service.RECEIVER, "Answers", ("provider", "status"))
TIMES = MetricEntry("t_seconds", MetricType.HISTOGRAM, "seconds", Service.RECEIVER, "Times", (), EDGES)
SECONDS = (0.0005, 0.001, 0.002, 0.010, 0.5, 5.0, 60.0)


def exposed(registry: CollectorRegistry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_a_count_is_a_counter_by_labels() -> None:
    registry = CollectorRegistry()
    answers = Counts(ANSWERS, registry)
    for provider, status in [("stripe", "200"), ("stripe", "200"), ("adyen", "401")]:
        answers.add(provider, status)
    assert exposed(registry) == {
        ("answers_total", (("provider", "stripe"), ("status", "200"))): 2.0,
        ("answers_total", (("provider", "adyen"), ("status", "401"))): 1.0,
    }


def test_times_are_the_histogram_that_the_client_library_would_make_edges_included() -> None:
    mine, theirs = CollectorRegistry(), CollectorRegistry()
    times = Times(TIMES, mine)
    histogram = Histogram("t_seconds", "Times", buckets=EDGES, registry=theirs)
    for seconds in SECONDS:
        times.observe_seconds(seconds)
        histogram.observe(seconds)
    assert exposed(mine) == exposed(theirs)


def test_what_never_happened_is_there_with_zeroes() -> None:
    registry = CollectorRegistry()
    Times(TIMES, registry)
    assert exposed(registry)[("t_seconds_count", ())] == 0.0
