"""Health, readiness, status and metrics of the processes; each request asks them and reads their files."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import httpx2
from confluent_kafka import KafkaException, TopicPartition
from fastapi import Depends, FastAPI, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from console.access.routes import Everybody
from console.received import AskReceived, not_read, refusal_counts
from core.clock import Clock
from core.event import Mode
from core.kafka import open_consumer
from core.layout import LEDGER
from core.metrics import CATALOGUE, COMMON_LABELS, PROCESS_LABEL, add_process
from core.routing import mode_of, of_stream, stream_of
from core.settings import KafkaSettings
from core.status_file import ASK_TIMEOUT_S, StreamStatuses, each_address, fresh_status, moment_of

_probed = Depends(Everybody("probes, Prometheus and `payhook status` don't sign in; it is figures and states"))


@dataclass(frozen=True, slots=True)
class WatchedServices:
    """Holds what the listener asks. ``statuses``: of every work stream, one a journal; ``metrics`` maps a process's
    name to the URL of its metrics, ``lag`` marks to counts; ``received``: what came in within the last hour.
    """

    ingest_ready_url: str
    statuses: StreamStatuses
    metrics: Mapping[str, str]
    lag: Callable[[Marks], dict[str, int] | None]
    received: AskReceived = not_read


def create_app(watched: WatchedServices, client: httpx2.AsyncClient, clock: Clock) -> FastAPI:
    """Creates the management listener.

    ``/healthz`` answers while it lives, ``/readyz`` 200 or 503, ``/status`` JSON, ``/metrics`` what
    Prometheus scrapes of all processes.
    """
    app = FastAPI(title="payhook management", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz", dependencies=[_probed])
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @app.get("/readyz", dependencies=[_probed])
    async def readyz() -> JSONResponse:
        status = await read_status(watched, client, clock.now())
        return JSONResponse({"ready": status["ready"]}, status_code=200 if status["ready"] else 503)

    @app.get("/status", dependencies=[_probed])
    async def status() -> JSONResponse:
        read = await read_status(watched, client, clock.now())
        for mode, side in sides_of(read).items():
            side["lag"] = await asyncio.to_thread(watched.lag, marks_of(ledger_statuses(read, mode)))
            if (hour := watched.received(mode)).since is not None:
                side["refused"] = refusal_counts(hour)
        return JSONResponse(read)

    @app.get("/metrics", dependencies=[_probed])
    async def metrics() -> Response:
        pages = await asyncio.to_thread(each_address, watched.metrics)
        scrapes = await asyncio.gather(*(scrape_process(name, url, client) for name, url in pages.items()))
        return Response(merge_scrapes([*scrapes, own_scrape()]), media_type=CONTENT_TYPE)

    return app


async def read_status(watched: WatchedServices, client: httpx2.AsyncClient, now: datetime) -> dict[str, Any]:
    """Returns ``{"ready": …, "ingest": {"ready": …}, "processor": {…}}``; the processor's own words, with their age.

    Where test traffic is decided, ``"test": {"ready": …, "processor": {…}}`` too; ``ready`` is of live traffic alone.
    ``"streams"`` has the words of every work stream; the ledger's alone, of all its journals, decide about ``ready``.
    ``processor`` has those of the first.
    """
    ingest_ready = await _is_ok(watched.ingest_ready_url, client)
    streams = await asyncio.to_thread(read_streams, watched.statuses, now)
    answer = {**_side_of(ingest_ready, streams, "live"), "ingest": {"ready": ingest_ready}}
    if any(mode_of(name) == "test" for name in streams):
        answer["test"] = _side_of(ingest_ready, streams, "test")
    return {**answer, "streams": streams}


def _side_of(ingest_ready: bool, streams: Mapping[str, dict[str, Any]], mode: Mode) -> dict[str, Any]:
    parts = list(of_stream(streams, stream_of(LEDGER, mode)).values()) or [{"ready": False}]
    return {"ready": ingest_ready and all(part["ready"] for part in parts), "processor": parts[0]}


def sides_of(status: dict[str, Any]) -> dict[Mode, dict[str, Any]]:
    return {"live": status, "test": status["test"]} if "test" in status else {"live": status}


def ledger_statuses(status: Mapping[str, Any], mode: Mode) -> list[Mapping[str, Any]]:
    ledger, streams = stream_of(LEDGER, mode), status.get("streams", {})
    side = status if mode == "live" else status.get("test", {})
    return list(of_stream(streams, ledger).values()) or [side.get("processor", {})]


def marks_of(parts: Iterable[Mapping[str, Any]]) -> Marks:
    """Returns the next offset to decide of each partition: where several read it (commands), the slowest one's."""
    marks: dict[str, dict[str, int]] = {}
    for part in parts:
        for topic, partitions in part.get("marks", {}).items():
            offsets = marks.setdefault(topic, {})
            offsets |= {number: min(until, offsets.get(number, until)) for number, until in partitions.items()}
    return marks


def read_streams(statuses: StreamStatuses, now: datetime) -> dict[str, dict[str, Any]]:
    """Returns what each stream's processor said last, with its age; ``{"ready": False}`` where it said nothing."""
    return {stream: _with_age(status, now) for stream, status in statuses.read_all(now).items()}


def _with_age(status: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    at = moment_of(status, "at")
    if status is None or at is None:
        return {"ready": False}
    ready = bool(status.get("ready")) and fresh_status(status, now) is not None
    return {**status, "ready": ready, "age_s": round((now - at).total_seconds(), 3)}


async def _is_ok(url: str, client: httpx2.AsyncClient) -> bool:
    try:
        return (await client.get(url, timeout=ASK_TIMEOUT_S)).status_code == 200
    except httpx2.HTTPError:
        return False


def own_scrape() -> Scrape:
    return Scrape(OWN_NAME, generate_latest(_own_registry()).decode())


@functools.cache
def _own_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    add_process(registry)
    return registry


async def scrape_process(name: str, url: str, client: httpx2.AsyncClient) -> Scrape:
    try:
        answer = await client.get(url, timeout=ASK_TIMEOUT_S)
        answer.raise_for_status()
    except httpx2.HTTPError:
        return Scrape(name, None)
    return Scrape(name, answer.text)


ANSWER_S_MAX = 2.0

Marks: TypeAlias = Mapping[str, Mapping[str, int]]
"""Topic to partition (as JSON has it) to the next offset to decide."""


class KafkaLag:
    """Counts undecided records over one connection. ``read`` blocks: call it off the event loop."""

    def __init__(self, kafka: KafkaSettings) -> None:
        settings = {
            "group.id": "payhook-lag",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self._consumer = open_consumer(kafka, settings)
        self._one_at_a_time = threading.Lock()

    def read(self, marks: Marks) -> dict[str, int] | None:
        """Counts undecided records by topic; None when Kafka doesn't say."""
        with self._one_at_a_time:
            try:
                return {topic: self._count_lag(topic, partitions) for topic, partitions in marks.items()}
            except KafkaException:
                return None

    def close(self) -> None:
        self._consumer.close()

    def _count_lag(self, topic: str, partitions: Mapping[str, int]) -> int:
        return sum(self._end(topic, int(number)) - until for number, until in partitions.items())

    def _end(self, topic: str, partition: int) -> int:
        _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWER_S_MAX)
        return int(end)


CONTENT_TYPE = CONTENT_TYPE_LATEST
UP_METRIC = "payhook_process_up"
OWN_NAME = "console"
"""The listener itself among the processes."""


@dataclass(frozen=True, slots=True)
class Scrape:
    process: str
    text: str | None


def merge_scrapes(scrapes: Sequence[Scrape]) -> bytes:
    """Merges all families into one page, and adds `UP_METRIC` for each process.

    A family that is a process's own by the catalogue, or that more than one process has, gets a ``process`` label on
    each sample: Prometheus refuses a page that has one series twice.
    """
    registry = CollectorRegistry()
    registry.register(_Merged(scrapes))
    return generate_latest(registry)


class _Merged(Collector):
    def __init__(self, scrapes: Sequence[Scrape]) -> None:
        self._scrapes = scrapes

    def collect(self) -> Iterable[Metric]:
        yield self._up_family()
        exposed = [(page.process, family) for page in self._scrapes for family in _parse_families(page)]
        count = Counter(family.name for _, family in exposed)
        merged: dict[str, Metric] = {}
        for process, family in exposed:
            metric = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            added = {PROCESS_LABEL: process} if count[family.name] > 1 or _is_process_own(family.name) else {}
            metric.samples.extend(sample._replace(labels={**sample.labels, **added}) for sample in family.samples)
        yield from merged.values()

    def _up_family(self) -> GaugeMetricFamily:
        entry = CATALOGUE[UP_METRIC]
        up = GaugeMetricFamily(UP_METRIC, entry.meaning, labels=entry.labels)
        for page in self._scrapes:
            up.add_metric([page.process], 0.0 if page.text is None else 1.0)
        return up


def _is_process_own(family: str) -> bool:
    entry = CATALOGUE.get(family)
    return entry is not None and COMMON_LABELS.get(entry.service) == PROCESS_LABEL


def _parse_families(scrape: Scrape) -> Iterator[Metric]:
    if scrape.text is not None:
        yield from text_string_to_metric_families(scrape.text)
