"""Looks at a stack whose observation a test makes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from alerts.observation import Observation, Series
from alerts.readings import Readings
from alerts.rules import WINDOW_S

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
WELL = {"ready": True, "blocked": None, "unpublished_s": 0.0, "catch_up": {"lag": 3}}


def counter(name: str, value: float, **labels: str) -> tuple[Series, float]:
    return (name, tuple(sorted(labels.items()))), value


class Looks:
    """Looks every 15 s."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self.readings = Readings(window_s)
        self.at_s = 0.0

    def of(self, seen: Observation, after_s: float = 15.0) -> Mapping[tuple[str, str], float | None]:
        self.at_s += after_s
        now = NOW + timedelta(seconds=self.at_s)
        return {
            (reading.rule, reading.subject): reading.value
            for reading in self.readings.make_readings(seen, now, self.at_s)
        }

    def samples(self, samples: Mapping[Series, float], after_s: float = 15.0) -> Mapping[tuple[str, str], float | None]:
        return self.of(Observation(statuses={"ledger": WELL}, samples=samples), after_s)
