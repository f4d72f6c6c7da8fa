"""Waits that grow for as long as something fails, and Retry-After: seconds or a date, nothing that can't be read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.clock import doubled_s, retry_after_s

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        (" 120 ", 120.0),
        ("0", 0.0),
        ("99999999999999999999", 1e9),
        ("Sat, 31 Jan 2026 12:00:30 GMT", 30.0),
        ("Sat, 31 Jan 2026 11:00:00 GMT", 0.0),
        ("Sat, 31 Jan 2026 14:00:30 +0200", 30.0),
    ],
)
def test_seconds_and_dates_are_read(value: str, seconds: float) -> None:
    assert retry_after_s(value, NOW) == seconds


@pytest.mark.parametrize("value", [None, "", "soon", "-1", "1.5", "٣", "Sat, 99 Jan 2026 12:00:30 GMT"])
def test_what_cannot_be_read_says_nothing(value: str | None) -> None:
    assert retry_after_s(value, NOW) is None


def test_it_doubles_up_to_the_most() -> None:
    assert [doubled_s(0.5, times, 3.0) for times in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_what_fails_for_days_still_waits() -> None:
    """2.0 to the power of 1024 is more than a float holds."""
    assert doubled_s(0.2, 1_000_000, 10.0) == 10.0
