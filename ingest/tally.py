"""Counters and histograms that cost a request next to nothing: plain numbers, made into metrics when they are read.

Only the event loop's thread counts; the thread that serves the metrics reads, which the interpreter's lock makes safe.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
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
