"""Waits that grow, for as long as something fails."""

from __future__ import annotations

from core.backoff import doubled_s


def test_it_doubles_up_to_the_most() -> None:
    assert [doubled_s(0.5, times, 3.0) for times in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_what_fails_for_days_still_waits() -> None:
    """2.0 to the power of 1024 is more than a float holds."""
    assert doubled_s(0.2, 1_000_000, 10.0) == 10.0
