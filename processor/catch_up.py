"""One stream's backlog as it stands: how much a batch may take, how long it will last, what would shorten it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from core.clock import Clock, to_rfc3339
from journal.marks import Marks
from processor.capacity import Advice, Advisor, Deployment, Forecast, Rates, Reading
from processor.lag import Ends
from processor.pace import Pace

DRIVER_STEPS = ("read", "lookup", "commit", "derive")
"""Steps of a batch that the driver does alone; more executors shorten the others."""


class EndsKnown(Protocol):
    """Where the source's partitions end, as far as it was told."""

    @property
    def latest(self) -> Ends | None: ...


@dataclass(frozen=True, slots=True)
class BatchTime:
    """What a batch took. ``taken``: records; ``step_s``: seconds by step."""

    taken: int
    seconds: float
    step_s: Mapping[str, float]


class CatchUp:
    """Told of every batch; says what the next one may take and what is published of lag and capacity."""

    def __init__(
        self,
        pace: Pace,
        ends: EndsKnown,
        deployment: Deployment,
        clock: Clock,
        known_drain_per_s: float | None = None,
    ) -> None:
        self._pace = pace
        self._ends = ends
        self._clock = clock
        self._advisor = Advisor(deployment)
        self._advice = Advice(deployment.executors, deployment.partitions)
        self._rates = Rates(known_drain_per_s)
        self._forecast: Forecast | None = None
        self._said: dict[str, Any] | None = None

    @property
    def limit(self) -> int:
        """Most records of the next batch."""
        return self._pace.limit

    def after_batch(self, batch: BatchTime, marks: Marks) -> None:
        """``marks`` are those after the batch."""
        self._pace.took(batch.taken, batch.seconds)
        ends = self._ends.latest
        if ends is None:
            return
        now_s = self._clock.monotonic()
        self._rates.read(Reading(now_s, _sum(ends, marks), _sum(marks, marks)))
        self._advice = self._advisor.advise(
            now_s, self._rates.lag, self._rates.arrival_per_s, self._rates.drain_per_s, _driver_share(batch.step_s)
        )
        self._keep_forecast()

    def status(self) -> dict[str, Any]:
        """For the status file; rates are records a second, times seconds. ``forecast`` stays as it was first said."""
        rates = self._rates
        return {
            "lag": rates.lag,
            "behind": rates.behind,
            "arrival_per_s": round(rates.arrival_per_s, 1),
            "drain_per_s": None if rates.drain_per_s is None else round(rates.drain_per_s, 1),
            "recover_s": _rounded(rates.recover_s()),
            "forecast": self._said,
            "batch_limit": self._pace.limit,
            "recommended_executors": self._advice.executors,
            "recommended_partitions": self._advice.partitions,
            "driver_bound": self._advice.driver_bound,
        }

    def _keep_forecast(self) -> None:
        forecast = self._rates.forecast
        if forecast is None or forecast is self._forecast:
            self._forecast = forecast
            return
        self._forecast = forecast
        now = self._clock.now()
        seconds = forecast.seconds
        self._said = {
            "at": to_rfc3339(now),
            "lag": forecast.lag,
            "drain_per_s": round(forecast.drain_per_s, 1),
            "arrival_per_s": round(forecast.arrival_per_s, 1),
            "seconds": _rounded(seconds),
            "until": None if seconds is None else to_rfc3339(now + timedelta(seconds=seconds)),
        }


def _sum(counts: Mapping[str, Mapping[int, int]], among: Marks) -> int:
    """Of the partitions that the marks name."""
    return sum(counts.get(topic, {}).get(number, 0) for topic, numbers in among.items() for number in numbers)


def _driver_share(step_s: Mapping[str, float]) -> float:
    whole = sum(step_s.values())
    return sum(step_s.get(step, 0.0) for step in DRIVER_STEPS) / whole if whole > 0 else 0.0


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
