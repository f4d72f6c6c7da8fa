"""Shows the metrics of all work streams of a process on one page, and whether the streams are ready.

With them come those of what the process started: its JVM, its workers.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import psutil
from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from py4j.protocol import Py4JError

from core.metrics import CATALOGUE, STREAM_LABEL, MetricType, add_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

READY_PATH = "/readyz"
STATUS_PATH = "/status"

Said = Callable[[], Mapping[str, Mapping[str, Any]]]
"""What each stream last reported of itself (`processor.reporting.status.StatusFile`)."""


class _Labelled(Collector):
    def __init__(self, registries: Mapping[str, CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterable[Metric]:
        merged: dict[str, Metric] = {}
        for stream, registry in self._registries.items():
            for family in registry.collect():
                metric = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                label = {STREAM_LABEL: stream}
                metric.samples.extend(sample._replace(labels={**sample.labels, **label}) for sample in family.samples)
        return merged.values()


def join_registries(registries: Mapping[str, CollectorRegistry]) -> CollectorRegistry:
    joined = CollectorRegistry()
    joined.register(_Labelled(registries))
    add_process(joined)
    return joined


def serve(port: int, host: str, registry: CollectorRegistry, said: Said) -> None:
    """Answers ``/metrics``, `READY_PATH` and `STATUS_PATH` on a thread of its own.

    Readiness is 200 where every stream is ready, else 503; its body says each stream's state, and why it isn't ready.
    The status is that of each stream's status file, by stream.
    """
    server, _ = start_http_server(port, host, registry)
    server.set_app(_with_status(make_wsgi_app(registry), said))


def _with_status(metrics: Any, said: Said) -> Any:
    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        path, ready, body = environ.get("PATH_INFO"), True, dict[str, Any]()
        if path == READY_PATH:
            ready, body = read_readiness(said())
        elif path == STATUS_PATH:
            body = {"streams": {name: dict(status) for name, status in said().items()}}
        else:
            return metrics(environ, start_response)
        start_response("200 OK" if ready else "503 Service Unavailable", [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]

    return answer


def read_readiness(said: Mapping[str, Mapping[str, Any]]) -> tuple[bool, dict[str, Any]]:
    streams = {
        name: {
            "ready": bool(status.get("ready")),
            "state": status.get("state", "starting"),
            "why": status.get("why") or status.get("blocked") or status.get("last_failure"),
        }
        for name, status in said.items()
    }
    return all(stream["ready"] for stream in streams.values()), {"streams": streams}


READ_EVERY_S = 5.0
"""A scrape never waits for the JVM: it shows what a thread of its own read last."""

JVM, WORKERS = "jvm", "workers"

Figures = dict[tuple[str, ...], float]
"""By the values of a metric's labels."""


def read_part_figures(driver: psutil.Process) -> dict[str, Figures]:
    """Measures the JVM that a driver started, and the Python workers that the JVM did, on this machine: memory now, and
    processor time so far.

    A worker that ended counts with the daemon that forked it: processor time never falls.
    """
    memory_bytes: Figures = {(JVM,): 0.0, (WORKERS,): 0.0}
    cpu_s = dict(memory_bytes)
    for process in driver.children(recursive=True):
        try:
            part = (JVM if process.name() == "java" else WORKERS,)
            times = process.cpu_times()
            memory_bytes[part] += process.memory_info().rss
            cpu_s[part] += times.user + times.system
            if part == (WORKERS,):
                cpu_s[part] += times.children_user + times.children_system
        except psutil.Error:
            continue  # it ended meanwhile
    return {"payhook_part_memory_bytes": memory_bytes, "payhook_part_cpu_seconds": cpu_s}


def read_jvm_figures(session: SparkSession) -> dict[str, Figures]:
    """
    :raises Py4JError, OSError: the JVM doesn't answer
    """
    jvm: Any = session._jvm  # noqa: SLF001 - there is no other way to it
    beans = jvm.java.lang.management.ManagementFactory
    heap = beans.getMemoryMXBean().getHeapMemoryUsage()
    collectors = [(bean.getName(), bean) for bean in beans.getGarbageCollectorMXBeans()]
    return {
        "payhook_jvm_heap_used_bytes": {(): float(heap.getUsed())},
        "payhook_jvm_heap_max_bytes": {(): float(heap.getMax())},
        "payhook_jvm_gc_seconds": {(name,): bean.getCollectionTime() / 1000 for name, bean in collectors},
        "payhook_jvm_gc_collections": {(name,): float(bean.getCollectionCount()) for name, bean in collectors},
    }


class PartFigures(Collector):
    def __init__(self) -> None:
        self.figures: dict[str, Figures] = {}

    def start(self, session: SparkSession) -> None:
        threading.Thread(target=self._read_on, args=(session,), name="parts", daemon=True).start()

    def collect(self) -> Iterable[Metric]:
        for name, figures in list(self.figures.items()):
            entry = CATALOGUE[name]
            make = CounterMetricFamily if entry.kind is MetricType.COUNTER else GaugeMetricFamily
            family = make(name, entry.meaning, labels=entry.labels)
            for labels, value in figures.items():
                family.add_metric(labels, value)
            yield family

    def read(self, session: SparkSession, driver: psutil.Process) -> None:
        self.figures = {**self.figures, **read_part_figures(driver)}
        try:
            self.figures = {**self.figures, **read_jvm_figures(session)}
        except (Py4JError, OSError) as silent:
            log.debug("the JVM's memory can't be read: %s", silent)

    def _read_on(self, session: SparkSession) -> None:
        driver, wait = psutil.Process(), threading.Event()
        while True:
            self.read(session, driver)
            wait.wait(READ_EVERY_S)
