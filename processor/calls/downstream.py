"""One downstream as the driver sees it: may it be called, how much, and when are events due that were held for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from core.clock import Clock, from_micros, to_micros, to_rfc3339
from core.work import Held
from processor.calls.breaker import CLOSED, HALF_OPEN, OPEN, Breaker
from processor.calls.budget import Budget, Report
from processor.calls.downstream_settings import DownstreamSettings
from processor.calls.limiter import NO_RETRIES
from processor.calls.storms import ConcurrencyLimit, RetryBudget

QUIET = "quiet"
"""The state of one that asked to be left alone for a while (Retry-After), beside the breaker's three."""

ALIVE_S = 60.0
"""A downstream that gave a good answer since is alive: a failure that is told late and alone is its event's own."""

NOTHING = Budget(calls=0, retries=0, at_once=0, failures=1)


class Downstream:
    """Breaker, concurrency limit and retry budget of one downstream.

    Held events get their due times one after another, ``held_per_s`` of them a second: an outage doesn't end in a
    herd, and while it lasts the same events aren't taken up again and again.
    """

    def __init__(
        self, name: str, settings: DownstreamSettings, clock: Clock, kept: Mapping[str, Any] | None = None
    ) -> None:
        kept = kept or {}
        self._name = name
        self._settings = settings
        self._clock = clock
        self._breaker = Breaker(
            name, settings.failures_to_open, settings.reset_s, settings.probes, clock, kept.get("breaker")
        )
        start = min(
            max(int(kept.get("at_once", settings.concurrency_start)), settings.concurrency_min),
            settings.concurrency_max,
        )
        self._limit = ConcurrencyLimit(settings.concurrency_min, start, settings.concurrency_max, settings.slow_ratio)
        self._retries = RetryBudget(settings.retry_share, settings.retries_min, settings.retry_window_s, clock)
        self._quiet_until = from_micros(int(kept.get("quiet_until_us", 0)))
        self._problem = str(kept.get("problem", ""))
        self._slot = self._retry_slot = from_micros(0)
        self._left_out, self._left_until = 0, from_micros(0)
        self._good_at: datetime | None = None
        self._told = Report()

    @property
    def state(self) -> str:
        """The breaker's, or `QUIET`."""
        return QUIET if self._clock.now() < self._quiet_until else self._breaker.state

    @property
    def may_be_called(self) -> bool:
        return self.state in (CLOSED, HALF_OPEN)

    def excuses(self, report: Report | None) -> bool:
        """Whether a failed call says nothing of its event: it isn't to be called now, and no call was good.

        ``report`` is the batch's; a call that was abandoned may be reported without one.
        """
        if self.may_be_called:
            return False
        if report is not None and report.calls:
            return report.failed == report.calls
        return self._good_at is None or self._clock.now() - self._good_at > timedelta(seconds=ALIVE_S)

    @property
    def at_once(self) -> int:
        """Calls at a time that it gets while it is closed."""
        return self._limit.at_once

    def budget(self) -> Budget:
        """What the next batch may do."""
        match self.state:
            case "half-open":
                probes = max(0, self._breaker.probes_left - self._probes_out)
                return Budget(calls=probes, retries=probes, at_once=probes, failures=1, probing=True)
            case "closed":
                fitting = self._limit.calls_within(self._settings.seconds_per_batch_max)
                most = self._settings.calls_per_batch_max
                return Budget(
                    calls=most if fitting is None else min(most, fitting),
                    retries=self._retries.left,
                    at_once=self._limit.at_once,
                    failures=self._breaker.failures_left,
                )
        return NOTHING

    def learn(self, report: Report) -> None:
        """Takes in one batch's calls."""
        self._told.add(report)
        self._follow_probes(report)
        if report.failed < report.calls:
            self._good_at = self._clock.now()
        self._problem = report.problem or self._problem
        was_closed = self._breaker.state == CLOSED
        self._breaker.told(report.calls - report.failed, report.failed, report.failed_in_a_row)
        if was_closed:
            self._limit.learn(report)
        self._retries.learn(report)
        if report.quiet_s > 0:
            asked = timedelta(seconds=min(report.quiet_s, self._settings.quiet_s_max))
            self._quiet_until = max(self._quiet_until, self._clock.now() + asked)

    def hold(self, held: Held, not_before_s: float = 0.0) -> Held:
        """When an event is due again that wasn't tried, and why it waits.

        ``not_before_s``: seconds that its own failed call was asked to wait, which may be longer than everybody waits.
        """
        now = self._clock.now()
        if not self.may_be_called:
            due, reason = self._next_slot(self._back_at()), self.text()
        elif held.reason == NO_RETRIES:
            self._retry_slot = due = max(now, self._retry_slot) + timedelta(seconds=1 / self._retries.per_s)
            reason = held.reason
        else:
            due, reason = self._next_slot(now), held.reason if self._breaker.state == CLOSED else self.text()
        return replace(held, retry_after_s=max(not_before_s, (due - now).total_seconds()), reason=reason)

    def text(self) -> str:
        """A predicate to the downstream's name: what it is in, and why."""
        because = f" ({self._problem})" if self._problem else ""
        match self.state:
            case "quiet":
                return f"asked to be left alone until {to_rfc3339(self._quiet_until)}{because}"
            case "open":
                return f"isn't called until {to_rfc3339(self._back_at())}: its breaker is open{because}"
            case "half-open":
                return f"gets {self._settings.probes} calls to show that it is back{because}"
        return "is called as usual"

    def kept(self) -> dict[str, Any] | None:
        """What a later process must know; None when it is at rest."""
        breaker, quiet = self._breaker.kept(), self.state == QUIET
        if breaker is None and not quiet:
            return None
        return {
            "breaker": breaker or {},
            "quiet_until_us": to_micros(self._quiet_until) if quiet else 0,
            "at_once": self._limit.at_once,
            "problem": self._problem,
        }

    def status(self) -> dict[str, Any]:
        """For the status file; counts since the process began."""
        return {
            "state": self.state,
            "text": self.text(),
            "calls": self._told.calls,
            "failed": self._told.failed,
            "retries": self._told.retries,
            "held": self._told.held,
            "at_once": self._limit.at_once,
        }

    @property
    def _probes_out(self) -> int:
        """Probes whose batch didn't wait for them. Those of a lost worker are never told: others follow in the end."""
        return self._left_out if self._clock.now() < self._left_until else 0

    def _follow_probes(self, report: Report) -> None:
        self._left_out = max(0, self._probes_out - report.late)
        if report.out and self._breaker.state == HALF_OPEN:
            self._left_out += report.out
            self._left_until = self._clock.now() + timedelta(seconds=self._settings.reset_s)

    def _back_at(self) -> datetime:
        opens = self._breaker.half_opens_at if self._breaker.state == OPEN else self._quiet_until
        return max(opens, self._quiet_until)

    def _next_slot(self, since: datetime) -> datetime:
        due = max(since, self._slot)
        self._slot = due + timedelta(seconds=1 / self._settings.held_per_s)
        return due
