"""How long to wait before a process tries again what isn't an event's retry (that is `processor.judge.retry`)."""

from __future__ import annotations

DOUBLINGS_MAX = 64


def doubled_s(first_s: float, times: int, max_s: float) -> float:
    """``first_s`` doubled so many times, at most ``max_s``; any number of times, as what fails may fail for days."""
    return min(max_s, first_s * 2.0 ** min(times, DOUBLINGS_MAX))
