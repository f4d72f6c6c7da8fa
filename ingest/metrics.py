"""The receiver's metrics.

Counters and histograms are plain numbers that become metrics when they are read: a request pays next to nothing. Only
the event loop's thread counts; the thread that serves the metrics reads, which the interpreter's lock makes safe.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from core.metrics import CATALOGUE, MetricEntry, add_process, make_gauge


class Counts(Collector):
    def __init__(self, entry: MetricEntry, registry: CollectorRegistry) -> None:
        self._entry = entry
        self._counts: dict[tuple[str, ...], int] = {}
        registry.register(self)

    def add(self, *labels: str) -> None:
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self._entry.name, self._entry.meaning, labels=self._entry.labels)
        for labels, count in list(self._counts.items()):
            family.add_metric(labels, count)
        return [family]


class Times(Collector):
    """A histogram of durations in seconds."""

    def __init__(self, entry: MetricEntry, registry: CollectorRegistry) -> None:
        self._entry = entry
        self._edges = entry.buckets
        self._counts = [0] * (len(self._edges) + 1)
        self._sum = 0.0
        registry.register(self)

    def observe_seconds(self, seconds: float) -> None:
        self._counts[bisect_left(self._edges, seconds)] += 1
        self._sum += seconds

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self._entry.name, self._entry.meaning)
        total = 0
        buckets: list[tuple[str, float]] = []
        for edge, count in zip([*map(str, self._edges), "+Inf"], list(self._counts), strict=True):
            total += count
            buckets.append((edge, total))
        family.add_metric([], buckets, self._sum)
        return [family]


class IngestMetrics:
    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        add_process(registry)
        self._answers = Counts(CATALOGUE["payhook_ingest_answers"], registry)
        self._events = Counts(CATALOGUE["payhook_ingest_events"], registry)
        self._refusals = Counts(CATALOGUE["payhook_ingest_refusals"], registry)
        self._not_there = Counts(CATALOGUE["payhook_ingest_not_there"], registry)
        self._secrets = Counts(CATALOGUE["payhook_ingest_secret_matched"], registry)
        self._verified = Counts(CATALOGUE["payhook_ingest_verified"], registry)
        self.claim_seconds = Times(CATALOGUE["payhook_redis_claim_seconds"], registry)
        self.request_seconds = Times(CATALOGUE["payhook_ingest_request_seconds"], registry)
        self.publish_seconds = Times(CATALOGUE["payhook_kafka_publish_seconds"], registry)

    def count_answer(self, provider: str, status: int, seconds: float) -> None:
        self._answers.add(provider, str(status))
        self.request_seconds.observe_seconds(seconds)

    def count_refusal(self, provider: str, reason: str) -> None:
        self._refusals.add(provider, reason)

    def count_not_there(self, provider: str) -> None:
        self._not_there.add(provider)

    def count_unread(self, provider: str, status: int) -> None:
        self._answers.add(provider, str(status))

    def count_verified(self, provider: str, index: int, endpoint: str | None = None) -> None:
        self._secrets.add(provider, str(index))
        self._verified.add(provider if endpoint is None else f"{provider}/{endpoint}")

    def count_event(self, provider: str, outcome: str) -> None:
        self._events.add(provider, outcome)

    def set_gauges(self, gauges: Mapping[str, Callable[[], float]]) -> None:
        for name, ask in gauges.items():
            make_gauge(name, self.registry).set_function(ask)
