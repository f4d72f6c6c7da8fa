"""The receiver's metrics: every name, type and meaning stands here.

Counters and histograms are plain numbers that become metrics when they are read: a request pays next to nothing. Only
the event loop's thread counts; the thread that serves the metrics reads, which the interpreter's lock makes safe.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class Counts(Collector):
    """A counter by labels."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self._name, self._meaning, self._labels = name, meaning, tuple(labels)
        self._counts: dict[tuple[str, ...], int] = {}
        registry.register(self)

    def add(self, *labels: str) -> None:
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self._name, self._meaning, labels=self._labels)
        for labels, count in list(self._counts.items()):
            family.add_metric(labels, count)
        return [family]


class Times(Collector):
    """A histogram of durations in seconds."""

    def __init__(self, name: str, meaning: str, edges_s: Sequence[float], registry: CollectorRegistry) -> None:
        self._name, self._meaning = name, meaning
        self._edges = tuple(edges_s)
        self._counts = [0] * (len(self._edges) + 1)
        self._sum = 0.0
        registry.register(self)

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._edges, seconds)] += 1
        self._sum += seconds

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self._name, self._meaning)
        total = 0
        buckets: list[tuple[str, float]] = []
        for edge, count in zip([*map(str, self._edges), "+Inf"], list(self._counts), strict=True):
            total += count
            buckets.append((edge, total))
        family.add_metric([], buckets, self._sum)
        return [family]


SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.010, 0.025, 0.050, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Edges stand exactly at 10 ms and 5 s, the bounds of the alerts."""


class IngestMetrics:
    """One set a process, in a registry of its own."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._answers = Counts(
            "payhook_ingest_answers", "Requests by provider and status", ("provider", "status"), registry
        )
        self._events = Counts(
            "payhook_ingest_events", "Events by provider and what the claim said", ("provider", "outcome"), registry
        )
        self._refusals = Counts(
            "payhook_ingest_refusals", "Refused requests by provider and reason", ("provider", "reason"), registry
        )
        self._secrets = Counts(
            "payhook_ingest_secret_matched",
            "Verified requests by the secret that matched, 0 is the newest",
            ("provider", "index"),
            registry,
        )
        self.claim_seconds = Times("payhook_redis_claim_seconds", "One claim round trip", SECONDS_BUCKETS, registry)
        self.request_seconds = Times(
            "payhook_ingest_request_seconds", "Head of a request to its answer", SECONDS_BUCKETS, registry
        )
        self.publish_seconds = Times(
            "payhook_kafka_publish_seconds",
            "One request's events to Kafka's acknowledgement",
            SECONDS_BUCKETS,
            registry,
        )

    def answered(self, provider: str, status: int, seconds: float) -> None:
        """One request, whatever became of it."""
        self._answers.add(provider, str(status))
        self.request_seconds.observe(seconds)

    def refused(self, provider: str, reason: str) -> None:
        self._refusals.add(provider, reason)

    def unread(self, reason: str, status: int) -> None:
        """A request that was refused as HTTP, before anybody knew whose it is."""
        self.refused("unknown", reason)
        self._answers.add("unknown", str(status))

    def verified(self, provider: str, index: int) -> None:
        self._secrets.add(provider, str(index))

    def took(self, provider: str, outcome: str) -> None:
        """One event of a verified request."""
        self._events.add(provider, outcome)

    def read_from(self, gauges: dict[str, tuple[str, Callable[[], float]]]) -> None:
        """Gauges by name, each with its meaning and the function that gives its value."""
        for name, (meaning, ask) in gauges.items():
            Gauge(name, meaning, registry=self.registry).set_function(ask)
