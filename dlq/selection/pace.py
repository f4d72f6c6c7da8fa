"""How much of a run is sent when: by the rate that was asked for, and by what live traffic leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dlq.selection.live import Load
from dlq.settings import SelectionSettings

WINDOW_MIN = 50
"""Items on their way, however busy the stream is: a run never starves wholly."""
GROWTH = 1.25


@dataclass(slots=True)
class Window:
    """Most items that may be on their way: halved when the stream falls behind, grown a little when it doesn't.

    Additive growth would take minutes from the least to the most; a quarter more with each look takes 20 s.
    """

    settings: SelectionSettings
    size: float = 0.0
    _reading: str | None = None

    def __post_init__(self) -> None:
        self.size = float(self.settings.command_items_max)

    def look(self, load: Load) -> None:
        """Once for each new reading."""
        if load.reading == self._reading:
            return
        self._reading = load.reading
        if load.behind_s > self.settings.lag_s_max:
            self.size = max(float(WINDOW_MIN), self.size / 2)
        else:
            self.size = min(float(self.settings.on_their_way_max), self.size * GROWTH)


def chunk_items(per_s: float | None, settings: SelectionSettings) -> int:
    """Items of one command: what is sent can't be paused, so at a set rate it holds a few seconds' worth."""
    if per_s is None:
        return settings.command_items_max
    return max(1, min(settings.command_items_max, math.floor(per_s * settings.command_s_max)))


def interval_us(per_s: float | None) -> int:
    """Microseconds between the due times of a command's items; 0: all at once."""
    return 0 if per_s is None else max(1, round(1_000_000 / per_s))


@dataclass(slots=True)
class Meter:
    """One run's rate: the moment (monotonic seconds) from which its next command may be sent."""

    next_s: float = 0.0

    def sent(self, items: int, per_s: float | None, now_s: float) -> None:
        if per_s is not None:
            self.next_s = max(self.next_s, now_s) + items / per_s

    def wait_s(self, now_s: float) -> float:
        return max(0.0, self.next_s - now_s)
