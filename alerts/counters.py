"""Reads counters from metrics pages, and what they gained in a window of looks."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

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
