"""The live figures of the overview: latency, retries, dead letters, idempotency hits, and the pipeline with its rates.

They come from the processes' metrics, which are read every few seconds while the listener runs.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence

import httpx2
from markupsafe import Markup

from alerts.counters import Series, Window, samples_of
from alerts.readings import TRIES
from alerts.settings import AlertsSettings
from console.details import Figure
from console.health import scrape_process
from console.pipeline import TALL, WIDE, Arrow, Box, pipeline_plot
from console.plots import format_short
from core.clock import Clock
from core.event import Mode
from core.layout import LEDGER
from core.metrics import LATENCY_BUCKETS_S
from core.routing import is_shard_of, stream_of

EVERY_S = 5.0
WINDOW_S = 60.0
LATENCY_S_MAX = 5.0
NOTIFY = "notify"
"""The stream that sends to subscribers (`notify`)."""

UNKNOWN = "–"
DECISIONS, EVENTS, SECONDS = "payhook_decisions_total", "payhook_ingest_events_total", "payhook_processing_seconds"
WANTED = frozenset(
    {
        *("payhook_ingest_answers_total", EVENTS, DECISIONS, f"{SECONDS}_bucket"),
        *("payhook_dlq_depth", "payhook_dlq_open", "payhook_lag_events", "payhook_stream_blocked"),
    }
)
NOT_PUBLISHED = frozenset({"duplicate", "in_flight", "not_published"})


class Pulse:
    """Keeps what the processes' metrics said in the last minute. ``metrics``: their pages' URLs by name."""

    def __init__(
        self, metrics: Mapping[str, str], client: httpx2.AsyncClient, clock: Clock, alerts: AlertsSettings
    ) -> None:
        self._metrics = metrics
        self._client = client
        self._clock = clock
        self._alerts = alerts
        self._window = Window(WINDOW_S)
        self._now: Mapping[Series, float] = {}

    async def follow(self) -> None:
        while True:
            await self.read_metrics()
            await asyncio.sleep(EVERY_S)

    async def read_metrics(self) -> None:
        pages = await asyncio.gather(*(scrape_process(name, url, self._client) for name, url in self._metrics.items()))
        texts = [(page.process, page.text) for page in pages if page.text is not None]
        pages_read = await asyncio.to_thread(lambda: [_read_samples(process, text) for process, text in texts])
        self._now = {series: value for samples in pages_read for series, value in samples.items()}
        self._window.read(self._clock.monotonic_s(), self._now)

    def list_figures(self, stream: str) -> list[Figure]:
        most = self._alerts
        edges = [
            (edge, self._sum_gains(f"{SECONDS}_bucket", stream=stream, le=str(edge))) for edge in LATENCY_BUCKETS_S
        ]
        all_of_it = self._sum_gains(f"{SECONDS}_bucket", stream=stream, le="+Inf")
        p50, p99 = (find_quantile(share, edges, all_of_it) for share in (0.5, 0.99))
        retries = _share_of(self._sum_gains(DECISIONS, stream=stream, decision="retry"), self._count_tries(stream))
        hits = _share_of(self._sum_gains(EVENTS, outcome="duplicate"), self._sum_gains(EVENTS))
        depth = self._sum_gauge("payhook_dlq_depth", stream)
        depth = self._sum_gauge("payhook_dlq_open", stream) if depth is None else depth
        minute = "in the last minute"
        late = p99 is not None and p99 > LATENCY_S_MAX
        return [
            Figure("latency", _format_seconds(p99), f"P99 {minute}; P50 {_format_seconds(p50)}", "bad" if late else ""),
            Figure(
                "retry rate", _format_percent(retries), f"of the tries {minute}", _warn(retries, most.retry_share_max)
            ),
            Figure(
                "dead letters",
                UNKNOWN if depth is None else f"{depth:,.0f}",
                "need an operator",
                _warn(depth, most.depth_max),
            ),
            Figure("idempotency hits", _format_percent(hits), f"of the events received {minute} had come before"),
        ]

    def draw_pipelines(self, mode: Mode) -> dict[str, Markup]:
        """Draws the pipeline of live traffic, or of test traffic: what flows along each arrow a second. Twice, for
        ``wide`` windows and ``tall`` ones; a page shows one of them.
        """
        ledger, notify = stream_of(LEDGER, mode), stream_of(NOTIFY, mode)
        decided = self._rate(DECISIONS, stream=ledger)
        boxes = {
            "receiver": Box(
                "Receiver", "up" if self._has_metric(EVENTS) or self._has_metric("payhook_ingest_answers_total") else ""
            ),
            "kafka": Box("Kafka", _format_count(self._sum_gauge("payhook_lag_events", ledger), "undecided")),
            "processor": Box("Processor", self._state(ledger), is_bad=self._state(ledger) == "blocked"),
            "ledger": Box("Ledger", ""),
            "dlq": Box("Dead letters", _format_count(self._sum_gauge("payhook_dlq_depth", ledger), "wait")),
            "notify": Box("Subscribers", _format_count(self._sum_gauge("payhook_dlq_depth", notify), "dead")),
        }
        published = self._rate(EVENTS, without=NOT_PUBLISHED)
        arrows = [
            Arrow("", "receiver", _per_s(self._rate("payhook_ingest_answers_total"))),
            Arrow("receiver", "kafka", _per_s(published)),
            Arrow("kafka", "processor", _per_s(decided)),
            Arrow("processor", "ledger", _per_s(self._rate(DECISIONS, stream=ledger, decision="applied"))),
            Arrow("processor", "dlq", _per_s(self._rate(DECISIONS, stream=ledger, decision="dead"))),
            Arrow("ledger", "notify", _per_s(self._rate(DECISIONS, stream=notify, decision="applied"))),
        ]
        flows = ", ".join(f"{arrow.source or 'webhooks'} to {arrow.target} {arrow.label}" for arrow in arrows)
        title, words = f"The pipeline, {mode} traffic", f"What flows a second: {flows}."
        grids = {"wide": WIDE, "tall": TALL}
        return {name: pipeline_plot(title, words, boxes, arrows, grid) for name, grid in grids.items()}

    def _state(self, stream: str) -> str:
        blocked = self._sum_gauge("payhook_stream_blocked", stream)
        return "" if blocked is None else "blocked" if blocked else "running"

    def _count_tries(self, stream: str) -> float | None:
        gained = [self._sum_gains(DECISIONS, stream=stream, decision=decision) for decision in TRIES]
        return sum(tries for tries in gained if tries is not None) if self._has_metric(DECISIONS) else None

    def _rate(self, name: str, without: frozenset[str] = frozenset(), **labels: str) -> float | None:
        gained, seconds = self._sum_gains(name, without, **labels), self._window.measure_covered(WINDOW_S)
        return None if gained is None or seconds <= 0 else gained / seconds

    def _sum_gains(self, name: str, without: frozenset[str] = frozenset(), **labels: str) -> float | None:
        """Sums what series of a name with these labels gained, over all journals of a stream. Outcomes ``without`` are
        left out. None where no page has it.
        """
        all_series = [series for series in self._now if series[0] == name]
        matching = [series for series in all_series if _has_labels(series, labels, without)]
        return self._window.sum_gained(matching, all_series, WINDOW_S) if all_series else None

    def _sum_gauge(self, name: str, stream: str) -> float | None:
        by_journal: dict[str, float] = {}
        for series, value in self._now.items():
            if series[0] == name and value == value and _has_labels(series, {"stream": stream}):
                journal = dict(series[1])["stream"]
                by_journal[journal] = max(value, by_journal.get(journal, value))
        return sum(by_journal.values()) if by_journal else None

    def _has_metric(self, name: str) -> bool:
        return any(series[0] == name for series in self._now)


def _has_labels(series: Series, labels: Mapping[str, str], without: frozenset[str] = frozenset()) -> bool:
    has = dict(series[1])
    if "stream" in labels and has.get("stream") and is_shard_of(has["stream"], labels["stream"]):
        has["stream"] = labels["stream"]
    return labels.items() <= has.items() and has.get("outcome") not in without


def _read_samples(process: str, page: str) -> dict[Series, float]:
    try:
        return samples_of(process, page, WANTED)
    except ValueError:
        return {}  # something else answers there


def find_quantile(share: float, edges: Sequence[tuple[float, float | None]], every: float | None) -> float | None:
    """Finds a quantile as Prometheus does: even between two edges of a histogram; the last edge where it is beyond.
    ``edges``: each with how many were within it.
    """
    if not every:
        return None
    points = [(0.0, 0.0), *((edge, count or 0.0) for edge, count in edges)]
    rank = share * every
    for (below, before), (edge, within) in itertools.pairwise(points):
        if within >= rank:
            return below + (edge - below) * ((rank - before) / (within - before) if within > before else 1.0)
    return points[-1][0]


def _share_of(some: float | None, every: float | None) -> float | None:
    return None if some is None or not every else some / every


def _format_seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f} s" if value < LATENCY_BUCKETS_S[-1] else f"> {value:.0f} s"


def _format_percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.1%}"


def _per_s(rate: float | None) -> str:
    return UNKNOWN if rate is None else f"{format_short(rate)}/s"


def _format_count(value: float | None, what: str) -> str:
    return "" if value is None else f"{format_short(value)} {what}"


def _warn(value: float | None, most: float) -> str:
    return "warn" if value is not None and value > most else ""
