"""Measures how fast dead events come and go: in the last 15 minutes, hour and day, and when none will be left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

WINDOWS: Mapping[int, str] = {900: "15 minutes", 3_600: "hour", 86_400: "24 hours"}
"""The windows by their seconds, the shortest first."""

HOUR_S = 3_600.0
HOURS_SHOWN_MAX = 72


@dataclass(frozen=True, slots=True)
class Rate:
    """The dead events of one window up to now: those that died first in it, and those that had died and were closed in
    it.

    ``time_to_clear_s``: what the dead ones take at this rate; None: they don't become fewer.
    """

    window_s: int
    inflow: int
    outflow: int
    time_to_clear_s: float | None

    @classmethod
    def from_counts(cls, window_s: int, inflow: int, outflow: int, depth: int) -> Rate:
        net = outflow - inflow
        clear_s = 0.0 if depth == 0 else depth / net * window_s if net > 0 else None
        return cls(window_s, inflow, outflow, clear_s)

    @property
    def window(self) -> str:
        return WINDOWS[self.window_s]

    @property
    def counted(self) -> str:
        return f"{self.inflow:,} in, {self.outflow:,} out"

    @property
    def clearing(self) -> str:
        if self.time_to_clear_s is None:
            return "never, at this rate"
        return f"{_format_duration(self.time_to_clear_s)}, at this rate" if self.time_to_clear_s else "no dead events"

    @property
    def full_sentence(self) -> str:
        return f"{self.counted} in the last {self.window} (time to clear: {self.clearing})"


def sum_rates(rates: Iterable[Sequence[Rate]], depth: int) -> tuple[Rate, ...]:
    return tuple(
        Rate.from_counts(
            together[0].window_s, sum(rate.inflow for rate in together), sum(rate.outflow for rate in together), depth
        )
        for together in zip(*rates, strict=True)
    )


def _format_duration(seconds: float) -> str:
    if seconds < HOUR_S:
        return f"{seconds / 60:,.0f} min" if seconds >= 60 else f"{seconds:,.0f} s"
    hours = seconds / HOUR_S
    return f"{hours:,.1f} h" if hours < HOURS_SHOWN_MAX else f"{hours / 24:,.1f} days"
