"""Against retry storms: how many calls a downstream gets at a time, and how many of them may be retries."""

from __future__ import annotations

from collections import deque

from core.clock import Clock
from processor.calls.budget import Report

CUT_SLOW = 0.7
CUT_FAILED = 0.5
FAILED_SHARE_MAX = 0.1
"""More failed calls than this make a round bad: single ones are the events' own."""

SAMPLE_MIN = 5
"""Calls that a round needs before its mean time says something."""

BEST_DRIFT = 1.002
"""The best time is believed a little less each round, so that a downstream that has become slower for good is learned:
twice as slow takes some 350 rounds."""

NEWEST_SHARE = 0.3
"""Of the newest round in the running mean of call times."""

USED_DECAY = 0.9
"""Of the calls at a time that were seen, each round that sees fewer."""


class ConcurrencyLimit:
    """Calls at a time that a downstream takes well: one more after a good round that used them, far fewer after a bad.

    A round is a batch's calls. It is bad when too many failed or when they took much longer than the best round's:
    then they wait for one another over there.
    """

    def __init__(self, least: int, start: int, most: int, slow_ratio: float) -> None:
        self._least = least
        self._most = most
        self._slow_ratio = slow_ratio
        self._best_s: float | None = None
        self._typical_s: float | None = None
        self._used = float(start)
        self.at_once = start

    def learn(self, report: Report) -> None:
        """Takes in one round."""
        if not report.calls:
            return
        if report.failed > report.calls * FAILED_SHARE_MAX:
            self._cut(CUT_FAILED)
            return
        mean_s = report.mean_s
        typical_s = mean_s if self._typical_s is None else self._typical_s
        self._typical_s = typical_s + NEWEST_SHARE * (mean_s - typical_s)
        if report.calls >= SAMPLE_MIN:
            self._used = max(report.peak, self._used * USED_DECAY)
        if report.calls >= SAMPLE_MIN and self._slow(mean_s):
            self._cut(CUT_SLOW)
        elif report.waited or report.peak >= self.at_once:
            self.at_once = min(self._most, self.at_once + 1)

    def calls_within(self, seconds: float) -> int | None:
        """Calls that fit into a time, as many at a time as there are lately; None before anything is known."""
        if not self._typical_s:
            return None
        return max(1, int(min(self.at_once, self._used) * seconds / self._typical_s))

    def _slow(self, mean_s: float) -> bool:
        """Compares with the best round; at the least limit nobody queues because of us: that is the best there is."""
        if self._best_s is None or self.at_once <= self._least:
            self._best_s = mean_s
            return False
        self._best_s = min(self._best_s * BEST_DRIFT, mean_s)
        return mean_s > self._best_s * self._slow_ratio

    def _cut(self, share: float) -> None:
        self.at_once = max(self._least, int(self.at_once * share))


class RetryBudget:
    """Retries are a share of the first tries of the last ``window_s``, and a few in any case.

    Without it a downstream that fails gets its load times the retries of each event, just when it can bear least.
    """

    def __init__(self, share: float, least: int, window_s: float, clock: Clock) -> None:
        self._share = share
        self._least = least
        self._window_s = window_s
        self._clock = clock
        self._rounds: deque[tuple[float, int, int]] = deque()

    @property
    def left(self) -> int:
        """Retries that may be made now."""
        return max(0, self._allowed() - sum(retries for _, _, retries in self._rounds))

    @property
    def per_s(self) -> float:
        """Retries a second that it allows as things are; never 0, so that what waits for one has a due time."""
        return max(1.0, self._allowed()) / self._window_s

    def learn(self, report: Report) -> None:
        if report.calls:
            self._rounds.append((self._clock.monotonic(), report.calls - report.retries, report.retries))

    def _allowed(self) -> int:
        since = self._clock.monotonic() - self._window_s
        while self._rounds and self._rounds[0][0] < since:
            self._rounds.popleft()
        return max(self._least, int(self._share * sum(first for _, first, _ in self._rounds)))
