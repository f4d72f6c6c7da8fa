"""The metrics of every work stream of a process on one page, each sample labelled with its stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

LABEL = "stream"


class _Labelled(Collector):
    def __init__(self, registries: Mapping[str, CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterable[Metric]:
        merged: dict[str, Metric] = {}
        for stream, registry in self._registries.items():
            for family in registry.collect():
                whole = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                label = {LABEL: stream}
                whole.samples.extend(sample._replace(labels={**sample.labels, **label}) for sample in family.samples)
        return merged.values()


def by_stream(registries: Mapping[str, CollectorRegistry]) -> CollectorRegistry:
    """One registry over those of the streams, by their names; asked anew with each scrape."""
    whole = CollectorRegistry()
    whole.register(_Labelled(registries))
    return whole
