"""What publishing dead letters did, as metrics read from the publisher's own numbers."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dlq.publisher import Tally

_FAMILIES = {
    "written": ("payhook_dlq_written", "Dead letters that Kafka acknowledged"),
    "requests": ("payhook_dlq_produce_requests", "Dead letters handed to Kafka's client, repeats too"),
    "failed": ("payhook_dlq_produce_failures", "Of those, the ones that weren't acknowledged and are tried again"),
}


class DeadLetterCounts(Collector):
    """Counters over a tally that the stream's publishers share, one after the other."""

    def __init__(self, tally: Tally, registry: CollectorRegistry) -> None:
        self._tally = tally
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        return [
            CounterMetricFamily(name, meaning, value=getattr(self._tally, field))
            for field, (name, meaning) in _FAMILIES.items()
        ]
