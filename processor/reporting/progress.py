"""The last batch's figures, and how long each of its steps took."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from core.clock import Clock, to_rfc3339


@dataclass(frozen=True, slots=True)
class BatchFetch:
    seconds: float = 0.0
    size_bytes: int = 0
    limit: int = 0
    ahead: bool = False


@dataclass(slots=True)
class BatchProgress:
    """Figures of the last batch, for status and metrics. Times in seconds.

    ``hung_calls``: handler calls abandoned that are still out, in the Python workers that took part. ``waited_s``:
    how long the handlers' step waited for nothing else. ``probe_at``: when a blocked stream tries again (monotonic).
    """

    batches: int = 0
    rows: int = 0
    taken: int = 0
    seconds: float = 0.0
    fetch: BatchFetch = field(default_factory=BatchFetch)
    read_s: float = 0.0
    step_s: dict[str, float] = field(default_factory=dict)
    blocked_reason: str | None = None
    blocked_since: str | None = None
    probe_at: float | None = None
    hung_calls: int = 0
    waited_s: float = 0.0

    def note_batch(self, rows: int, taken: int, steps: StepTimes) -> None:
        self.batches += 1
        self.rows, self.taken, self.seconds = rows, taken, sum(steps.seconds.values())
        self.step_s = {"fetch": self.fetch.seconds, "read": self.read_s, **steps.seconds}

    def status(self, clock: Clock) -> dict[str, Any]:
        probe_at = (
            None if self.probe_at is None else clock.now() + timedelta(seconds=self.probe_at - clock.monotonic_s())
        )
        return {
            "blocked": self.blocked_reason,
            "blocked_since": self.blocked_since,
            "next_probe_at": None if probe_at is None else to_rfc3339(probe_at),
            "hung_calls": self.hung_calls,
            "batches": self.batches,
            "batch_rows": self.rows,
            "batch_s": round(self.seconds, 4),
            "step_s": {step: round(seconds, 4) for step, seconds in self.step_s.items()},
        }


class StepTimes:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = clock.monotonic_s()
        self.seconds: dict[str, float] = {}

    def end(self, step: str) -> None:
        now = self._clock.monotonic_s()
        self.seconds[step] = now - self._at
        self._at = now
