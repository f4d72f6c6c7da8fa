"""One downstream's circuit breaker, on a clock that is passed in, and as text for the journal."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from core.clock import Clock, from_micros, to_micros

CLOSED, HALF_OPEN, OPEN = "closed", "half-open", "open"


class Breaker:
    """Closed until ``failures_to_open`` calls fail in a row; then open for ``reset_s``; then half-open until ``probes``
    calls are good.

    It makes no calls and wraps none, as a library's would: it learns what became of a batch's calls.
    """

    def __init__(
        self, failures_to_open: int, reset_s: float, probes: int, clock: Clock, kept: dict[str, Any] | None = None
    ) -> None:
        kept = kept or {}
        self._failures_to_open = failures_to_open
        self._reset = timedelta(seconds=reset_s)
        self._probes = probes
        self._clock = clock
        self._state = str(kept.get("state", CLOSED))
        self._failures = int(kept.get("failures", 0))
        self._good = int(kept.get("good", 0))
        self._opened_at = from_micros(kept.get("opened_at_us", 0))

    @property
    def state(self) -> str:
        """`CLOSED`, `HALF_OPEN` or `OPEN`, as of now."""
        if self._state == OPEN and self._clock.now() >= self.half_opens_at:
            self._state, self._good = HALF_OPEN, 0
        return self._state

    @property
    def half_opens_at(self) -> datetime:
        """When an open breaker lets probes through."""
        return self._opened_at + self._reset

    @property
    def failures_left(self) -> int:
        """Failed calls in a row that open it from here."""
        return max(1, self._failures_to_open - self._failures) if self.state == CLOSED else 1

    @property
    def probes_left(self) -> int:
        """Good calls that close a half-open breaker."""
        return max(0, self._probes - self._good)

    def learn(self, good: int, failed: int, failed_in_a_row: int) -> None:
        """Takes in what became of a batch's calls. An open breaker has let none through: late news of older ones."""
        state = self.state
        if state == HALF_OPEN and failed:
            self._open()
        elif state == HALF_OPEN:
            self._good += good
            if not self.probes_left:
                self._state, self._failures = CLOSED, 0
        elif state == CLOSED:
            self._failures = failed_in_a_row + (0 if good else self._failures)
            if self._failures >= self._failures_to_open:
                self._open()

    def kept(self) -> dict[str, Any] | None:
        """What a later process must know of it; None when there is nothing."""
        if self._state == CLOSED and not self._failures:
            return None
        return {
            "state": self._state,
            "failures": self._failures,
            "good": self._good,
            "opened_at_us": to_micros(self._opened_at),
        }

    def _open(self) -> None:
        self._state, self._opened_at = OPEN, self._clock.now()
