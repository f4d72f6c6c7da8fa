"""One page of Prometheus text out of several processes'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_LATEST
UP_METRIC = "payhook_process_up"


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one process exposed; None when it didn't answer."""

    process: str
    text: str | None


def merge(scrapes: Sequence[Scrape]) -> bytes:
    """All families on one page, and `UP_METRIC` for each process.

    A family of more than one process (those of Python's own client) gets a ``process`` label on each
    sample: Prometheus refuses a page that has one series twice.
    """
    registry = CollectorRegistry()
    registry.register(_Merged(scrapes))
    return generate_latest(registry)


class _Merged(Collector):
    def __init__(self, scrapes: Sequence[Scrape]) -> None:
        self._scrapes = scrapes

    def collect(self) -> Iterable[Metric]:
        yield self._up()
        exposed = [(one.process, family) for one in self._scrapes for family in _families(one)]
        count = Counter(family.name for _, family in exposed)
        merged: dict[str, Metric] = {}
        for process, family in exposed:
            whole = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            added = {"process": process} if count[family.name] > 1 else {}
            whole.samples.extend(sample._replace(labels={**sample.labels, **added}) for sample in family.samples)
        yield from merged.values()

    def _up(self) -> GaugeMetricFamily:
        up = GaugeMetricFamily(UP_METRIC, "1 if the process answers with its metrics", labels=["process"])
        for one in self._scrapes:
            up.add_metric([one.process], 0.0 if one.text is None else 1.0)
        return up


def _families(scrape: Scrape) -> Iterator[Metric]:
    if scrape.text is not None:
        yield from text_string_to_metric_families(scrape.text)
