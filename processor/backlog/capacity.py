"""Lag, rates, time to recover, and how many partitions and executors the load asks for.

Everything here is computed from what it is given: counts of records by the journal's marks and by Kafka's ends.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

HALF_LIFE_S = 5.0
"""Of the rates' moving averages."""

READ_EVERY_S = 0.5
"""Readings closer together than this are mostly noise."""

SETTLE_S = 15.0
"""A drain rate is believed after so long in one backlog: the first batches are smaller, and find all cold. What a stall
of some seconds leaves behind is gone before, and says nothing of what the stream can do."""

RECENT_S = 4.0
"""What arrived lately is taken over so long: a burst that has ended is out of it before it is out of the average.
Kafka's ends are asked for every second, so that this is right to a quarter."""

MEASURED_S = 5.0
"""A forecast goes by the backlog's own drain rate after so long in it, however fast earlier ones went."""

SPEEDS_UP = 1.25
"""A stream whose last batch went so many times as fast as the average becomes faster still, as one that starts: until
`SETTLE_S` nothing goes by that average."""

LEFT_MIN = 2
"""A stream drains where so many times what it decided is left: one that keeps up leaves what came meanwhile."""

OFF = 2.0
"""A forecast is made again where what is known now gives so many times the time that it has left, or so small a part of
it."""

BEHIND_S = 5.0
"""A lag that takes longer than this to decide is a backlog: the SLO's bound is 5 s."""

UTILISATION_MAX = 0.7
"""Share of its capacity that a stream should need for what arrives; the rest is for bursts."""

RECOVER_S_WANTED = 300.0

HOLD_S = 600.0
"""Fewer executors are recommended only after so long in which fewer would have done."""

EXECUTORS_MAX = 1_024

DRIVER_LIMIT_SHARE = 0.8
"""Of the rate that the driver alone would reach. Nearer to it each further executor brings next to nothing."""


@dataclass(frozen=True, slots=True)
class LoadReading:
    """Offsets at one moment (monotonic seconds). Counts are sums over all partitions.

    ``written``: offsets that Kafka holds or held; ``decided``: offsets below the marks.
    """

    at_s: float
    written: int
    decided: int

    @property
    def lag(self) -> int:
        return max(0, self.written - self.decided)


@dataclass(frozen=True, slots=True)
class BacklogForecast:
    """A forecast of a backlog's end, kept while it holds within a factor of two. Rates are records a second."""

    at_s: float
    lag: int
    drain_per_s: float
    arrival_per_s: float

    @property
    def seconds_left(self) -> float | None:
        """Returns the seconds until the backlog is gone, from ``at_s`` on; None when it grows."""
        return estimate_recovery_s(self.lag, self.drain_per_s, self.arrival_per_s)


def estimate_recovery_s(lag: int, drain_per_s: float, arrival_per_s: float) -> float | None:
    """Returns the backlog divided by (drain - arrival), in seconds; None when it never ends."""
    if lag <= 0:
        return 0.0
    spare = drain_per_s - arrival_per_s
    return lag / spare if spare > 0 else None


class Rates:
    """Arrival and drain rates: moving averages over readings, each taken when a batch has ended.

    Where the last seconds' arrival rate is lower, that one counts: a burst is over when it is over. The drain rate is
    measured only while the stream is behind; otherwise it decides no more than what arrives. So it is kept from the
    last backlog that took `SETTLE_S`; ``known_drain_per_s`` is what an earlier process measured.
    """

    def __init__(self, known_drain_per_s: float | None = None) -> None:
        self._last: LoadReading | None = None
        self._arrival_per_s: float | None = None
        self._recent: deque[LoadReading] = deque()
        self.drain_per_s = known_drain_per_s
        """None until the stream was behind for a while once."""
        self._measured_per_s: float | None = None
        self._measured_s = 0.0
        self.is_behind = self._drains = self._speeds_up = False
        self.forecast: BacklogForecast | None = None

    @property
    def arrival_per_s(self) -> float:
        return min(self._arrival_per_s or 0.0, self._recent_per_s())

    @property
    def lag(self) -> int:
        return self._last.lag if self._last is not None else 0

    def estimate_recovery_s(self) -> float | None:
        """Returns the seconds until the lag is decided; None when that isn't known, or never."""
        if self.lag == 0:
            return 0.0
        drain_per_s = self.draining_per_s
        return estimate_recovery_s(self.lag, drain_per_s, self.arrival_per_s) if drain_per_s else None

    @property
    def draining_per_s(self) -> float | None:
        settles_s = SETTLE_S if self._speeds_up else MEASURED_S
        return self._measured_per_s if self._measured_s >= settles_s else self.drain_per_s

    def _recent_per_s(self) -> float:
        first, last = (self._recent[0], self._recent[-1]) if self._recent else (None, None)
        if first is None or last is None or last.at_s - first.at_s < RECENT_S:
            return math.inf
        return max(0, last.written - first.written) / (last.at_s - first.at_s)

    def read(self, reading: LoadReading) -> None:
        last, self._last = self._last, reading
        if last is not None:
            seconds = reading.at_s - last.at_s
            if seconds < READ_EVERY_S:
                self._last = last
                return
            self._learn_rates(last, reading, seconds)
        self._recent.append(reading)
        while len(self._recent) > 2 and self._recent[1].at_s <= reading.at_s - RECENT_S:
            self._recent.popleft()
        self._judge(reading)

    def _learn_rates(self, last: LoadReading, reading: LoadReading, seconds: float) -> None:
        arrived = max(0, reading.written - last.written) / seconds
        self._arrival_per_s = _update_average(self._arrival_per_s, arrived, seconds)
        count = max(0, reading.decided - last.decided)
        decided = count / seconds
        self._drains = reading.lag > LEFT_MIN * count > 0
        if (self._drains or self.is_behind) and reading.lag > 0 and decided > 0:
            self._measured_per_s = _update_average(self._measured_per_s, decided, seconds)
            self._measured_s += seconds
            self._speeds_up = decided > SPEEDS_UP * self._measured_per_s
            if self._measured_s >= SETTLE_S:
                self.drain_per_s = self._measured_per_s

    def _judge(self, reading: LoadReading) -> None:
        """A backlog begins when the lag takes longer than `BEHIND_S`, and ends when it takes a fifth of that."""
        per_s = max(self._measured_per_s or max(self.drain_per_s or 0.0, self.arrival_per_s), 1.0)
        self.is_behind = reading.lag / per_s > (BEHIND_S / 5 if self.is_behind else BEHIND_S)
        if not self.is_behind:
            self.forecast = None
            if not self._drains:
                self._measured_per_s, self._measured_s = None, 0.0
        elif (drain_per_s := self.draining_per_s) and self._is_off(reading):
            self.forecast = BacklogForecast(reading.at_s, reading.lag, drain_per_s, self.arrival_per_s)

    def _is_off(self, reading: LoadReading) -> bool:
        if self.forecast is None or self.forecast.seconds_left is None:
            return True
        left_s, now_s = self.forecast.at_s + self.forecast.seconds_left - reading.at_s, self.estimate_recovery_s()
        if now_s is None:
            return True
        return abs(left_s - now_s) > BEHIND_S and not now_s / OFF <= left_s <= now_s * OFF


def _update_average(average: float | None, value: float, seconds: float) -> float:
    if average is None:
        return value
    keep = 0.5 ** (seconds / HALF_LIFE_S)
    return float(keep * average + (1 - keep) * value)


@dataclass(frozen=True, slots=True)
class Deployment:
    executors: int
    cores: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Advice:
    executors: int
    partitions: int


class Advisor:
    """Recommends executors and partitions: more at once, fewer only after ``hold_s``, one at a time.

    A stream that was never behind gets one fewer at a time until it falls behind and its drain rate is measured. It
    recommends at most ``most`` executors. It never recommends fewer partitions: Kafka can't remove them, and keys would
    move.
    """

    def __init__(self, executors: int, hold_s: float = HOLD_S, most: int = EXECUTORS_MAX) -> None:
        self._executors = min(executors, most)
        self._most = most
        self._hold_s = hold_s
        self._drain_per_s: float | None = None
        self._drained_by = executors
        self._enough_since: float | None = None
        self._most_since = 0

    def make_advice(
        self,
        deployment: Deployment,
        at_s: float,
        lag: int,
        arrival_per_s: float,
        drain_per_s: float | None,
        driver_share: float = 0.0,
        is_behind: bool = False,
    ) -> Advice:
        """
        :param driver_share: of a batch's time, 0 to 1, that the driver spends alone; executors don't shorten it
        """
        if drain_per_s != self._drain_per_s:
            self._drain_per_s, self._drained_by = drain_per_s, deployment.executors
        if drain_per_s:
            executors = _count_executors(self._drained_by, lag, arrival_per_s, drain_per_s, driver_share)
        else:
            executors = deployment.executors if is_behind else 1
        self._settle(at_s, min(executors, self._most))
        partitions = max(deployment.partitions, self._executors * deployment.cores)
        return Advice(self._executors, partitions)

    def _settle(self, at_s: float, executors: int) -> None:
        if executors >= self._executors:
            self._executors, self._enough_since, self._most_since = executors, None, 0
            return
        if self._enough_since is None:
            self._enough_since = at_s
        self._most_since = max(self._most_since, executors)
        if at_s - self._enough_since >= self._hold_s:
            self._executors = max(self._most_since, self._executors - 1)
            self._enough_since, self._most_since = None, 0


def _count_executors(now: int, lag: int, arrival_per_s: float, drain_per_s: float, driver_share: float) -> int:
    """Counts the executors for the rate that is needed; where the driver alone is too slow for it, only as many as
    help. ``now``: of the executors that drained so much.

    A batch of n records takes n ÷ drain seconds, ``driver_share`` of them on the driver; the rest shrinks with the
    number of executors.
    """
    needed_per_s = max(arrival_per_s / UTILISATION_MAX, arrival_per_s + lag / RECOVER_S_WANTED)
    if needed_per_s <= 0:
        return 1
    driver_bound = driver_share * needed_per_s > DRIVER_LIMIT_SHARE * drain_per_s
    if driver_bound:
        needed_per_s = DRIVER_LIMIT_SHARE * drain_per_s / driver_share
    room = drain_per_s / needed_per_s - driver_share
    executors = min(EXECUTORS_MAX, max(1, math.ceil(now * (1 - driver_share) / room)))
    return max(now, executors) if driver_bound else executors
