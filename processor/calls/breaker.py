"""The circuit breaker of one downstream: pybreaker's states, on a clock that is passed in, and as text for the
journal."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta
from typing import Any

import pybreaker

from core.clock import Clock, from_micros, to_micros

CLOSED, HALF_OPEN, OPEN = pybreaker.STATE_CLOSED, pybreaker.STATE_HALF_OPEN, pybreaker.STATE_OPEN


DOUBLINGS_MAX = 32
"""More would make the shortest wait longer than any longest one."""


class _CallFailed(Exception):
    pass


class Breaker:
    """Closed until ``failures_to_open`` calls fail in a row, then open for ``reset_s``, then half-open until ``probes``
    calls are good.

    A failed probe opens it again for twice as long as before, ``reset_s_max`` at most. It makes no calls itself: it is
    told their outcomes. The monotonic clock decides how long it is open, so a wall clock that is set back changes
    nothing.
    """

    def __init__(
        self,
        name: str,
        failures_to_open: int,
        reset_s: float,
        reset_s_max: float,
        probes: int,
        clock: Clock,
        kept: dict[str, Any] | None = None,
    ) -> None:
        self._reset_s = reset_s
        self._reset_s_max = max(reset_s, reset_s_max)
        self._clock = clock
        self._memory = _Memory(name, clock, kept or {})
        self._breaker = pybreaker.CircuitBreaker(
            fail_max=failures_to_open,
            reset_timeout=reset_s,
            success_threshold=probes,
            state_storage=self._memory,
            name=name,
            throw_new_error_on_trip=False,
        )

    @property
    def state(self) -> str:
        if self._memory.state == OPEN and self.open_s == 0:
            self._breaker.half_open()
        return self._memory.state

    @property
    def open_s(self) -> float:
        """Returns the seconds until an open breaker lets probes through."""
        doublings = min(max(0, self._memory.openings - 1), DOUBLINGS_MAX)
        reset_s: float = min(self._reset_s * 2**doublings, self._reset_s_max)
        return max(0.0, reset_s - self._memory.opened_s_ago)

    @property
    def open_since(self) -> datetime | None:
        """Returns when it opened for the first time since it was closed; None while it is closed."""
        return self._memory.since

    @property
    def is_recovering(self) -> bool:
        return self._memory.state == HALF_OPEN and self._memory.success_counter > 0

    @property
    def failures_left(self) -> int:
        return max(1, self._breaker.fail_max - self._memory.counter) if self.state == CLOSED else 1

    @property
    def probes_left(self) -> int:
        return max(0, self._breaker.success_threshold - self._memory.success_counter)

    def learn_calls(self, good: int, failed: int, failed_in_a_row: int) -> None:
        """Takes in what became of a batch's calls. An open breaker ignores them: it has let none through, so they are
        old.
        """
        state = self.state
        if state == HALF_OPEN and failed:
            self._count_failure()
        elif state == HALF_OPEN:
            for _ in range(min(good, self.probes_left)):
                self._breaker.call(lambda: None)
        elif state == CLOSED:
            if good:
                self._breaker.call(lambda: None)
            for _ in range(failed_in_a_row):
                if self._memory.state == CLOSED:
                    self._count_failure()

    def make_note(self) -> dict[str, Any] | None:
        return self._memory.make_note()

    def _count_failure(self) -> None:
        def fail() -> None:
            raise _CallFailed

        with contextlib.suppress(_CallFailed):
            self._breaker.call(fail)


class _Memory(pybreaker.CircuitBreakerStorage):
    def __init__(self, name: str, clock: Clock, kept: dict[str, Any]) -> None:
        super().__init__(name)
        self._clock = clock
        self._state = kept.get("state", CLOSED)
        self._failures = kept.get("failures", 0)
        self._successes = kept.get("good", 0)
        self.openings = kept.get("openings", int(self._state != CLOSED))
        self.since = None if self._state == CLOSED else from_micros(kept.get("since_us", 0))
        ago_s = (clock.now() - from_micros(kept.get("opened_at_us", 0))).total_seconds()
        self._opened_s = clock.monotonic_s() - max(0.0, ago_s)

    def make_note(self) -> dict[str, Any] | None:
        if self._state == CLOSED and not self._failures:
            return None
        return {
            "state": self._state,
            "failures": self._failures,
            "good": self._successes,
            "opened_at_us": to_micros(self.opened_at),
            "openings": self.openings,
            **({} if self.since is None else {"since_us": to_micros(self.since)}),
        }

    @property
    def state(self) -> str:
        return str(self._state)

    @state.setter
    def state(self, state: str) -> None:
        if state == OPEN and self._state != OPEN:
            self.openings += 1
            self.since = self.since or self._clock.now()
        elif state == CLOSED:
            self.openings, self.since = 0, None
        self._state = state

    @property
    def counter(self) -> int:
        return int(self._failures)

    @property
    def success_counter(self) -> int:
        return int(self._successes)

    @property
    def opened_s_ago(self) -> float:
        return self._clock.monotonic_s() - self._opened_s

    @property
    def opened_at(self) -> datetime:
        return self._clock.now() - timedelta(seconds=self.opened_s_ago)

    @opened_at.setter
    def opened_at(self, _: datetime) -> None:
        self._opened_s = self._clock.monotonic_s()

    def increment_counter(self) -> None:
        self._failures += 1

    def reset_counter(self) -> None:
        self._failures = 0

    def increment_success_counter(self) -> None:
        self._successes += 1

    def reset_success_counter(self) -> None:
        self._successes = 0
