"""Holds what one look at the stack sees, and what its counters gained in a window of looks."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from dead_letters.rates import Rate

Series = tuple[str, tuple[tuple[str, str], ...]]
"""A metric's name and its labels, sorted."""


def samples_of(process: str, page: str, wanted: Collection[str]) -> dict[Series, float]:
    return {
        (sample.name, tuple(sorted({**sample.labels, "process": process}.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name in wanted
    }


class Window:
    """Readings of the last ``seconds`` (and the one before those). Moments are monotonic seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._readings: deque[tuple[float, Mapping[Series, float]]] = deque()

    def read(self, at_s: float, values: Mapping[Series, float]) -> None:
        self._readings.append((at_s, values))
        while len(self._readings) > 2 and self._readings[1][0] <= at_s - self._seconds:
            self._readings.popleft()

    def spans(self, seconds: float) -> bool:
        return bool(self._readings) and self._readings[-1][0] - self._readings[0][0] >= seconds

    def measure_covered(self, seconds: float) -> float:
        since = self._readings[-1][0] - seconds if self._readings else 0.0
        begins = [at for at, _ in self._readings if at <= since] or [at for at, _ in self._readings]
        return self._readings[-1][0] - (begins[-1] if begins[-1] <= since else begins[0]) if begins else 0.0

    def sum_gained(self, some: Collection[Series], among: Collection[Series], seconds: float) -> float:
        """Sums what counters gained in the last ``seconds``.

        :param among: the counters' whole family. A reading with any of the family would have had each of its counters:
            one that is missing there was 0. So a label that comes up late is counted from 0 on
        """
        readings = [values for values in self._find_last(seconds) if any(series in values for series in among)]
        return sum(_sum_gained([values.get(series) for values in readings]) for series in some)

    def find_earlier(self, series: Series, seconds: float) -> float | None:
        since = self._readings[-1][0] - seconds
        earlier = (values[series] for at, values in reversed(self._readings) if at <= since and series in values)
        return next(earlier, None)

    def _find_last(self, seconds: float) -> Iterator[Mapping[Series, float]]:
        since = self._readings[-1][0] - seconds
        first = next((n for n, (at, _) in enumerate(self._readings) if at > since), len(self._readings) - 1)
        return (values for _, values in itertools.islice(self._readings, max(0, first - 1), None))


def _sum_gained(values: list[float | None]) -> float:
    known = [0.0 if value is None and not any(values[:at]) else value for at, value in enumerate(values)]
    steps = itertools.pairwise(value for value in known if value is not None)
    return sum(later - earlier if later >= earlier else later for earlier, later in steps)


@dataclass(frozen=True, slots=True)
class DeadSummary:
    """The dead events of a journal. ``oldest_at``: when the one that has been open for longest first died; a replay
    that fails doesn't reset it. ``rates``: how fast they come and go, by window. ``unknown``: how many events are
    unknown (undos, and others of the last day), by what of them isn't known."""

    depth: int
    oldest_at: datetime | None
    rates: tuple[Rate, ...] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replicas:
    """Partitions of payhook's topics: with a replica that isn't in sync; with too few of them for Kafka to take
    anything."""

    out_of_sync: int
    under_min: int


@dataclass(frozen=True, slots=True)
class Observation:
    """An observation of the stack.

    - ``statuses``: each stream's word, None where it is missing or old.
    - ``dead``: None where the journal can't be read.
    - ``samples``: of every process whose metrics answered.
    - ``rounds``: how old the newest good ``backup``, the last ``maintenance`` and the last ``verification`` are. Ages
      are by rule, as multiples of the round's interval; None where a report can't be read.
    - ``done_at``: when these were done last, as far as is known.
    - ``disks``: used share by place; ``memory``: used share here.
    - ``broken``: invariants by stream that didn't hold when last verified.
    - ``subscribers``: when each answered 410, None where it didn't.
    - ``caught_up``: what providers' own lists came to, by source.
    """

    receiver_ready: bool | None = None
    statuses: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    dead: Mapping[str, DeadSummary | None] = field(default_factory=dict)
    samples: Mapping[Series, float] = field(default_factory=dict)
    rounds: Mapping[str, float | None] = field(default_factory=dict)
    done_at: Mapping[str, datetime] = field(default_factory=dict)
    disks: Mapping[str, float | None] = field(default_factory=dict)
    memory: float | None = None
    broken: Mapping[str, int] = field(default_factory=dict)
    replicas: Replicas | None = None
    subscribers: Mapping[str, datetime | None] | None = field(default_factory=dict)
    caught_up: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
