"""The driver's view of one downstream: may it be called, how many calls and retries, and when is due what was held."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from core.clock import Clock, from_micros, to_micros, to_rfc3339
from core.decision import NO_RETRIES
from core.work import Held
from processor.calls.breaker import CLOSED, HALF_OPEN, OPEN, Breaker
from processor.calls.budget import Budget, CallReport
from processor.settings import DownstreamSettings

QUIET = "quiet"
"""The state of one that asked to be left alone for a while (Retry-After), beside the breaker's three."""

ALIVE_S = 60.0
"""A downstream that gave a good answer since is alive: a failure that is reported late and alone is its event's own."""

PROBES = 3
"""Calls in all that a half-open breaker lets through; all good: it closes."""

CALLS_PER_BATCH_MAX = 10_000

SECONDS_PER_BATCH_MAX = 1.0
"""Of a batch that its calls may fill, by the time that they took so far; the rest waits for the next one: longer uses a
slow downstream better, shorter keeps others waiting less."""

CONCURRENCY_MIN = 1
CONCURRENCY_START = 8

SLOW_RATIO = 2.0
"""A mean call time of so many times the best one lowers the calls at a time."""

RETRY_SHARE = 0.2
"""Retries allowed for each first try of the last `RETRY_WINDOW_S`; `RETRIES_MIN` however few first tries it saw."""
RETRIES_MIN = 10
RETRY_WINDOW_S = 10.0

HELD_PER_S = 500.0
"""Held events that are handled again per second, one after another."""

NOTHING = Budget(calls=0, retries=0, at_once=0, failures=1)

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


class Downstream:
    """Breaker, concurrency limit and retry budget of one downstream.

    Held events are due one after another, `HELD_PER_S` of them a second, so that an outage doesn't end in a rush. Times
    are of the monotonic clock.
    """

    def __init__(
        self, name: str, settings: DownstreamSettings, clock: Clock, kept: Mapping[str, Any] | None = None
    ) -> None:
        kept = kept or {}
        self._settings = settings
        self._clock = clock
        self._breaker = Breaker(
            *(name, settings.failures_to_open, settings.reset_s, settings.reset_s_max, PROBES, clock),
            kept.get("breaker"),
        )
        most = settings.concurrency_max
        start = min(max(int(kept.get("at_once", CONCURRENCY_START)), CONCURRENCY_MIN), most)
        self._limit = ConcurrencyLimit(start, most)
        self._retries = RetryBudget(clock)
        quiet_s = (from_micros(int(kept.get("quiet_until_us", 0))) - clock.now()).total_seconds()
        self._quiet_until = clock.monotonic_s() + min(max(0.0, quiet_s), settings.quiet_s_max)
        self._problem = str(kept.get("problem", ""))
        self._slot = self._retry_slot = 0.0
        self._left_out, self._left_until = 0, 0.0
        self._good_at: float | None = None
        failing_us = kept.get("failing_since_us")
        self._failing_since = None if failing_us is None else from_micros(int(failing_us))
        self._last_failure = self._problem
        self._calls = CallReport()

    @property
    def state(self) -> str:
        return QUIET if self._clock.monotonic_s() < self._quiet_until else self._breaker.state

    @property
    def may_be_called(self) -> bool:
        return self.state in (CLOSED, HALF_OPEN)

    def may_excuse(self, report: CallReport | None) -> bool:
        """Returns whether a failed call says nothing of its event: the downstream isn't to be called now, and no call
        was good.
        """
        if self.may_be_called:
            return False
        if report is not None and report.calls:
            return report.failed == report.calls
        return self._good_at is None or self._clock.monotonic_s() - self._good_at > ALIVE_S

    @property
    def at_once(self) -> int:
        return self._limit.at_once

    def make_budget(self) -> Budget:
        match self.state:
            case "half-open":
                probes = max(0, self._breaker.probes_left - self._probes_out)
                return Budget(calls=probes, retries=probes, at_once=probes, failures=1, probing=True)
            case "closed":
                fitting = self._limit.count_calls_within(SECONDS_PER_BATCH_MAX)
                most = CALLS_PER_BATCH_MAX
                return Budget(
                    calls=most if fitting is None else min(most, fitting),
                    retries=self._retries.retries_left,
                    at_once=self._limit.at_once,
                    failures=self._breaker.failures_left,
                )
        return NOTHING

    def learn_calls(self, report: CallReport) -> None:
        self._calls.add(report)
        self._follow_probes(report)
        if report.failed < report.calls:
            self._good_at = self._clock.monotonic_s()
        self._problem = report.problem or self._problem
        was_closed = self._breaker.state == CLOSED
        self._breaker.learn_calls(report.calls - report.failed, report.failed, report.failed_in_a_row)
        if was_closed:
            self._limit.learn_calls(report)
        self._retries.learn_calls(report)
        if report.quiet_s > 0:
            asked_s = min(report.quiet_s, self._settings.quiet_s_max)
            self._quiet_until = max(self._quiet_until, self._clock.monotonic_s() + asked_s)

    def learn_events(self, report: CallReport, refused: int, failure: str) -> None:
        """Takes in what became of the events that made one batch's calls.

        :param refused: of the good calls, those whose events failed all the same: the answer was a refusal
        :param failure: the last failure of one, in words; empty: there was none
        """
        if report.calls - report.failed > refused:
            self._failing_since = None
        elif report.calls:
            self._failing_since = self._failing_since or self._clock.now()
            self._last_failure = failure or report.problem or self._last_failure

    def schedule_held(self, held: Held, not_before_s: float = 0.0) -> Held:
        """Says when an event that wasn't tried is due again, and why it waits.

        ``not_before_s``: seconds that its handler, or the answer to its failed call, asked to wait.
        """
        now = self._clock.monotonic_s()
        if not self.may_be_called:
            due, reason = self._next_slot(self._back_at()), self.text()
        elif held.reason == NO_RETRIES:
            self._retry_slot = due = max(now, self._retry_slot) + 1 / self._retries.per_s
            reason = held.reason
        else:
            due, reason = self._next_slot(now), held.reason if self._breaker.state == CLOSED else self.text()
        return replace(held, retry_after_s=max(not_before_s, due - now), reason=reason)

    def text(self) -> str:
        """Returns the predicate of a sentence about the downstream: its state, and why. It stays true while events
        wait.
        """
        because = f" ({self._problem})" if self._problem else ""
        match self.state:
            case "quiet":
                return f"asked for no calls{because}"
            case "open":
                return f"fails: its breaker is open since {self._opened_at()}{because}"
            case "half-open":
                return f"gets {PROBES} calls that test whether it works again{because}"
        return "is called as usual"

    def _opened_at(self) -> str:
        return to_rfc3339((self._breaker.open_since or self._clock.now()).replace(microsecond=0))

    @property
    def next_try_at(self) -> str | None:
        return None if self.may_be_called else self._format_time(self._back_at())

    @property
    def _waits_since(self) -> datetime | None:
        if self.state == CLOSED or self._breaker.is_recovering:
            return None
        return self._breaker.open_since or self._failing_since or self._clock.now()

    def make_note(self) -> dict[str, Any] | None:
        breaker, quiet, failing = self._breaker.make_note(), self.state == QUIET, self._failing_since
        if breaker is None and not quiet and failing is None:
            return None
        return {
            "breaker": breaker or {},
            "quiet_until_us": to_micros(self._to_wall_time(self._quiet_until)) if quiet else 0,
            "at_once": self._limit.at_once,
            "problem": self._problem,
            **({} if failing is None else {"failing_since_us": to_micros(failing)}),
        }

    def status(self) -> dict[str, Any]:
        """Returns figures for the status file; counts since the process began.

        ``since``: when events began to wait for it; ``failing_since``: since when none of its events came to a good
        end; ``why``: the last failure.
        """
        waits_since, failing_since = self._waits_since, self._failing_since
        is_failing = waits_since is not None or failing_since is not None
        return {
            "state": self.state,
            "text": self.text(),
            "since": None if waits_since is None else to_rfc3339(waits_since),
            "failing_since": None if failing_since is None else to_rfc3339(failing_since),
            "why": (self._last_failure or self._problem) if is_failing else "",
            "next_try_at": self.next_try_at,
            "calls": self._calls.calls,
            "failed": self._calls.failed,
            "retries": self._calls.retries,
            "held": self._calls.held,
            "at_once": self._limit.at_once,
        }

    @property
    def _probes_out(self) -> int:
        return self._left_out if self._clock.monotonic_s() < self._left_until else 0

    def _follow_probes(self, report: CallReport) -> None:
        self._left_out = max(0, self._probes_out - report.late)
        if report.out and self._breaker.state == HALF_OPEN:
            self._left_out += report.out
            self._left_until = self._clock.monotonic_s() + self._settings.reset_s

    def _back_at(self) -> float:
        opens_s = self._breaker.open_s if self._breaker.state == OPEN else 0.0
        return max(self._clock.monotonic_s() + opens_s, self._quiet_until)

    def _next_slot(self, since: float) -> float:
        due = max(since, self._slot)
        self._slot = due + 1 / HELD_PER_S
        return due

    def _to_wall_time(self, at: float) -> datetime:
        return self._clock.now() + timedelta(seconds=at - self._clock.monotonic_s())

    def _format_time(self, at: float) -> str:
        return to_rfc3339((self._to_wall_time(at) + timedelta(seconds=0.5)).replace(microsecond=0))


class ConcurrencyLimit:
    """Limits the calls at a time: one more after a good round that reached the limit, far fewer after a bad one.

    A round is a batch's calls. It is bad when too many failed, or took much longer than in the best round.
    """

    def __init__(self, start: int, most: int) -> None:
        self._most = most
        self._best_s: float | None = None
        self._typical_s: float | None = None
        self._used = float(start)
        self.at_once = start

    def learn_calls(self, report: CallReport) -> None:
        if not report.calls:
            return
        if report.failed > report.calls * FAILED_SHARE_MAX:
            self._cut_limit(CUT_FAILED)
            return
        mean_s = report.mean_s
        typical_s = mean_s if self._typical_s is None else self._typical_s
        self._typical_s = typical_s + NEWEST_SHARE * (mean_s - typical_s)
        if report.calls >= SAMPLE_MIN:
            self._used = max(report.peak, self._used * USED_DECAY)
        if report.calls >= SAMPLE_MIN and self._is_slow(mean_s):
            self._cut_limit(CUT_SLOW)
        elif report.waited or report.peak >= self.at_once:
            self.at_once = min(self._most, self.at_once + 1)

    def count_calls_within(self, seconds: float) -> int | None:
        if not self._typical_s:
            return None
        return max(1, int(min(self.at_once, self._used) * seconds / self._typical_s))

    def _is_slow(self, mean_s: float) -> bool:
        """Compares with the best round. At the least limit no call queues because of us, so no round is slow."""
        if self._best_s is None or self.at_once <= CONCURRENCY_MIN:
            self._best_s = mean_s
            return False
        self._best_s = min(self._best_s * BEST_DRIFT, mean_s)
        return mean_s > self._best_s * SLOW_RATIO

    def _cut_limit(self, share: float) -> None:
        self.at_once = max(CONCURRENCY_MIN, int(self.at_once * share))


class RetryBudget:
    """Allows retries as a share of the first tries of the last `RETRY_WINDOW_S`, and a few in any case.

    Without it a failing downstream gets its usual load times the retries of each event.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rounds: deque[tuple[float, int, int]] = deque()

    @property
    def retries_left(self) -> int:
        return max(0, self._count_allowed() - sum(retries for _, _, retries in self._rounds))

    @property
    def per_s(self) -> float:
        """Returns the retries allowed per second; never 0, so that an event that waits for one has a due time."""
        return max(1.0, self._count_allowed()) / RETRY_WINDOW_S

    def learn_calls(self, report: CallReport) -> None:
        if report.calls:
            self._rounds.append((self._clock.monotonic_s(), report.calls - report.retries, report.retries))

    def _count_allowed(self) -> int:
        since = self._clock.monotonic_s() - RETRY_WINDOW_S
        while self._rounds and self._rounds[0][0] < since:
            self._rounds.popleft()
        return max(RETRIES_MIN, int(RETRY_SHARE * sum(first for _, first, _ in self._rounds)))
