"""Plots the last day of a stream from its journal: latency, throughput, retries by attempt, depth."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from console.plots import PlotSeries, steps_plot
from core.clock import EPOCH
from core.layout import StreamLayout
from dead_letters.stats import Stats
from journal.journals import own_rows_after
from ledger.queries.activity import ATTEMPT_MAX, Activity, read_activity
from ledger.queries.lake import TableRows

SPAN = timedelta(days=1)
STEP = timedelta(minutes=15)
KEPT_S = 60.0
"""Seconds for which an answer is shown again: a long journal's last day takes a while to read."""


@dataclass(frozen=True, slots=True)
class LastDayPlot:
    caption: str
    plot: Markup


class DayReader:
    """Reads the last day of streams. Its methods block; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[datetime, Sequence[Activity]]] = {}

    def read(self, stream: str, places: Sequence[StreamLayout], now: datetime) -> Sequence[Activity]:
        """Reads every step of the day up to now, oldest first, those without an event too.

        :param places: the stream's journals
        :raises LedgerUnreadable: a journal is damaged
        """
        with self._lock:
            known = self._kept.get(stream)
            if known is None or not 0 <= (now - known[0]).total_seconds() < KEPT_S:
                known = self._kept[stream] = (now, _read_steps(places, now))
            return known[1]


def _read_steps(places: Sequence[StreamLayout], now: datetime) -> list[Activity]:
    last = now - (now - EPOCH) % STEP
    first = last - SPAN + STEP
    journals = [
        TableRows(str(place.journal), place.stream, own_rows_after(place.journal) if number else 0)
        for number, place in enumerate(places)
    ]
    by_moment = {
        step.at: step for step in read_activity(journals, first, now + timedelta(seconds=1), int(STEP.total_seconds()))
    }
    moments = (first + number * STEP for number in range(SPAN // STEP))
    return [by_moment.get(moment, Activity(moment)) for moment in moments]


def day_plots(steps: Sequence[Activity], stats: Stats) -> list[LastDayPlot]:
    """Plots latency, throughput, retries and deaths in steps of 15 minutes; depth by the hour."""
    now = stats.at
    return [_plot_latency(steps, now), _plot_throughput(steps, now), _plot_retries(steps, now), _plot_depth(stats)]


def _plot_latency(steps: Sequence[Activity], now: datetime) -> LastDayPlot:
    lines = [
        PlotSeries(name, [(step.at, value) for step in steps if (value := read(step)) is not None])
        for name, read in _LATENCIES.items()
    ]
    seconds = [value for _, value in lines[-1].points]
    words = f"P99 was {max(seconds):.2f} s at most." if seconds else "No event came in the last 24 hours."
    return LastDayPlot(
        "Latency, seconds from receipt to decision",
        steps_plot("Latency of the last day", words, lines, now, since=steps[0].at, whole=False),
    )


_LATENCIES: Mapping[str, Callable[[Activity], float | None]] = {
    "P50": lambda step: step.p50_s,
    "P99": lambda step: step.p99_s,
}


def _plot_throughput(steps: Sequence[Activity], now: datetime) -> LastDayPlot:
    step_s = STEP.total_seconds()
    lines = [
        PlotSeries("events decided a second", [(step.at, step.events / step_s) for step in steps]),
        PlotSeries("first tries a second", [(step.at, step.first_tries / step_s) for step in steps]),
    ]
    decided, tried = sum(step.events for step in steps), sum(step.first_tries for step in steps)
    words = f"{decided:,} events were decided, {tried:,} tried."
    return LastDayPlot("Throughput", steps_plot("Throughput of the last day", words, lines, now, whole=False))


def _plot_retries(steps: Sequence[Activity], now: datetime) -> LastDayPlot:
    names = {
        attempt: f"try {attempt}{' and later' if attempt == ATTEMPT_MAX else ''}"
        for attempt in range(2, ATTEMPT_MAX + 1)
    }
    lines = [
        PlotSeries(name, [(step.at, step.retries.get(attempt, 0)) for step in steps]) for attempt, name in names.items()
    ]
    lines.append(PlotSeries("died", [(step.at, step.dead) for step in steps]))
    retries, dead = sum(sum(step.retries.values()) for step in steps), sum(step.dead for step in steps)
    words = f"{retries:,} retries and {dead:,} deaths in 24 hours."
    return LastDayPlot(
        "Retries by attempt and deaths, in 15 minutes", steps_plot("Retries and deaths", words, lines, now)
    )


def _plot_depth(stats: Stats) -> LastDayPlot:
    hours = [hour for hour in stats.hours if hour.at > stats.at - SPAN - timedelta(hours=1)]
    since = itertools.accumulate((hour.closed - hour.died for hour in reversed(hours)), initial=stats.open)
    points = [(hour.at, max(0, depth)) for hour, depth in zip(reversed(hours), list(since)[1:], strict=True)]
    line = PlotSeries("dead events", [*reversed(points), (stats.at, stats.open)])
    words = f"{stats.open:,} are dead now, {points[-1][1] if points else 0:,} were a day ago."
    return LastDayPlot("Dead letters, by the hour", steps_plot("Depth of the last day", words, [line], stats.at))
