"""What counters gained over the last minutes, from readings that come now and then."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterator, Mapping

Series = tuple[str, tuple[tuple[str, str], ...]]
"""A metric's name and its labels, sorted."""


class Window:
    """Readings of the last ``seconds`` (and the one before those). Moments are monotonic seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._readings: deque[tuple[float, Mapping[Series, float]]] = deque()

    def read(self, at_s: float, values: Mapping[Series, float]) -> None:
        """One reading; a series that it lacks wasn't told this time."""
        self._readings.append((at_s, values))
        while len(self._readings) > 2 and self._readings[1][0] <= at_s - self._seconds:
            self._readings.popleft()

    def spans(self, seconds: float) -> bool:
        """Whether there are readings over so long."""
        return bool(self._readings) and self._readings[-1][0] - self._readings[0][0] >= seconds

    def gained(self, some: Collection[Series], among: Collection[Series], seconds: float) -> float:
        """What counters gained in the last ``seconds``, all of them together.

        :param among: their whole family: a reading that has any of it would have told of a counter that isn't in it,
            so that a label that comes up late is counted from 0 on
        """
        readings = [values for values in self._last(seconds) if any(one in values for one in among)]
        return sum(_gained([values.get(one) for values in readings]) for one in some)

    def before(self, series: Series, seconds: float) -> float | None:
        """A series' value so long ago; None where that isn't known."""
        since = self._readings[-1][0] - seconds
        told = (values[series] for at, values in reversed(self._readings) if at <= since and series in values)
        return next(told, None)

    def _last(self, seconds: float) -> Iterator[Mapping[Series, float]]:
        """The readings of so long, and the one before them."""
        since = self._readings[-1][0] - seconds
        first = next((n for n, (at, _) in enumerate(self._readings) if at > since), len(self._readings) - 1)
        return (values for _, values in itertools.islice(self._readings, max(0, first - 1), None))


def _gained(values: list[float | None]) -> float:
    """Of one counter; one that began anew is counted from 0 on."""
    known = [0.0 if value is None and not any(values[:at]) else value for at, value in enumerate(values)]
    steps = itertools.pairwise(value for value in known if value is not None)
    return sum(later - earlier if later >= earlier else later for earlier, later in steps)
