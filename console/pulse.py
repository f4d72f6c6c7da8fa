"""The live figures of the overview: latency, retries, dead letters, idempotency hits, and the pipeline with its rates.

They come from the processes' metrics, which are read every few seconds while the listener runs.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx2
from markupsafe import Markup

from alerts.observation import Series, Window, samples_of
from alerts.readings import TRIES
from alerts.settings import AlertsSettings
from console.details import Figure
from console.health import scrape_process
from console.plots import Element, cut_label, draw_element, finish_plot, format_place, format_short, make_canvas, write
from core.clock import Clock
from core.event import Mode
from core.layout import LEDGER
from core.metrics import LATENCY_BUCKETS_S
from core.routing import is_shard_of, stream_of

BOX_WIDTH, BOX_HEIGHT = 116, 46
BESIDE, BELOW = 74, 54
"""Between two boxes of a row, and of a column."""


@dataclass(frozen=True, slots=True)
class Box:
    name: str
    state: str
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    source: str
    target: str
    label: str


@dataclass(frozen=True, slots=True)
class Grid:
    places: Mapping[str, tuple[int, int]]
    from_above: bool = False

    @property
    def width(self) -> float:
        columns = 1 + max(column for column, _ in self.places.values())
        return self._left_edge + columns * (BOX_WIDTH + BESIDE) - BESIDE + 4

    @property
    def height(self) -> float:
        rows = 1 + max(row for _, row in self.places.values())
        return self._top_edge + rows * (BOX_HEIGHT + BELOW) - BELOW + 4

    def corner_of(self, key: str) -> tuple[float, float]:
        column, row = self.places[key]
        return float(self._left_edge + column * (BOX_WIDTH + BESIDE)), float(
            self._top_edge + row * (BOX_HEIGHT + BELOW)
        )

    def source(self, arrow: Arrow) -> tuple[float, float]:
        if arrow.source:
            return self.corner_of(arrow.source)
        x, y = self.corner_of(arrow.target)
        return (x, y - BOX_HEIGHT - BELOW) if self.from_above else (x - BOX_WIDTH - BESIDE, y)

    @property
    def _left_edge(self) -> int:
        return 2 if self.from_above else BESIDE

    @property
    def _top_edge(self) -> int:
        return BELOW if self.from_above else 2


WIDE = Grid(
    {
        **{name: (column, 0) for column, name in enumerate(("receiver", "kafka", "processor", "ledger"))},
        "dlq": (2, 1),
        "notify": (3, 1),
    }
)
TALL = Grid(
    {
        **{name: (0, row) for row, name in enumerate(("receiver", "kafka", "processor", "ledger"))},
        "dlq": (1, 2),
        "notify": (1, 3),
    },
    from_above=True,
)
"""For a narrow window: each box as large as in a wide one."""


def pipeline_plot(
    title: str, described: str, boxes: Mapping[str, Box], arrows: Sequence[Arrow], grid: Grid = WIDE
) -> Markup:
    plot = make_canvas(title, described, grid.height, grid.width)
    for key, box in boxes.items():
        x, y = grid.corner_of(key)
        shape = "box bad" if box.is_bad else "box" if box.state or key == "ledger" else "box unknown"
        draw_element(plot, "rect", class_=shape, x=x, y=y, width=float(BOX_WIDTH), height=float(BOX_HEIGHT), rx=8.0)
        middle = x + BOX_WIDTH / 2
        name_y = y + (19 if box.state else 28)
        write(plot, "text", cut_label(box.name), class_="name middle", x=format_place(middle), y=format_place(name_y))
        if box.state:
            write(
                plot, "text", cut_label(box.state), class_="tick middle", x=format_place(middle), y=format_place(y + 36)
            )
    for arrow in arrows:
        _draw_arrow(plot, arrow, grid)
    return finish_plot(plot)


def _draw_arrow(plot: Element, arrow: Arrow, grid: Grid) -> None:
    (from_x, from_y), (to_x, to_y) = grid.source(arrow), grid.corner_of(arrow.target)
    if from_y == to_y:
        y, begin, end = to_y + BOX_HEIGHT / 2, from_x + BOX_WIDTH + 4, to_x - 4
        draw_element(
            plot,
            "path",
            class_="arrow",
            d=f"M{format_place(begin)} {format_place(y)}H{format_place(end)}m-7 -5l7 5l-7 5",
        )
        write(plot, "text", arrow.label, class_="tick middle", x=format_place((begin + end) / 2), y=format_place(y - 8))
        return
    x, begin, end = to_x + BOX_WIDTH / 2, from_y + BOX_HEIGHT + 4, to_y - 4
    draw_element(
        plot, "path", class_="arrow", d=f"M{format_place(x)} {format_place(begin)}V{format_place(end)}m-5 -7l5 7l5 -7"
    )
    write(plot, "text", arrow.label, class_="tick", x=format_place(x + 8), y=format_place((begin + end) / 2 + 4))


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
