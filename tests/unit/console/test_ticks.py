"""Axes: round steps, few of them, that hold what is plotted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.plots import TICKS_MAX, TIMES_MAX, format_short, time_labels, time_ticks, value_ticks

T0 = datetime(2026, 1, 31, 12, 30, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 0, [0, 1]),
        (0, 1, [0, 1]),
        (3, 9, [0, 2, 4, 6, 8, 10]),
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (-30, 12, [-30, -20, -10, 0, 10, 20]),
        (-7, -5, [-8, -6, -4, -2, 0]),
    ],
)
def test_values_are_held_by_round_ticks(low: float, high: float, ticks: list[float]) -> None:
    assert value_ticks(low, high) == ticks


def test_fractions_where_they_are_wanted() -> None:
    assert value_ticks(0, 1, whole=False) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])


@given(st.floats(-1e38, 1e38), st.floats(-1e38, 1e38))
def test_ticks_hold_whatever_lies_between(one: float, other: float) -> None:
    low, high = sorted((one, other))
    ticks = value_ticks(low, high)
    assert 2 <= len(ticks) <= TICKS_MAX + 2
    assert ticks == sorted(set(ticks))
    slack = 1e-9 * max(abs(low), abs(high), 1.0)
    assert ticks[0] <= low + slack and high - slack <= ticks[-1]


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        (0, "0"),
        (7.0, "7"),
        (950, "950"),
        (1_000, "1k"),
        (1_234, "1.23k"),
        (999_999, "1000k"),
        (35_000_000, "35M"),
        (-2e9, "-2G"),
        (1e38, "1.0e+38"),
        (0.25, "0.25"),
    ],
)
def test_values_are_reported_shortly(value: float, reported: str) -> None:
    assert format_short(value) == reported


@pytest.mark.parametrize(
    ("span", "labels"),
    [
        (timedelta(seconds=20), ["12:30:30", "12:30:35", "12:30:40", "12:30:45", "12:30:50"]),
        (timedelta(hours=4), ["13:00", "14:00", "15:00", "16:00"]),
        (timedelta(days=4), ["1 Feb", "2 Feb", "3 Feb", "4 Feb"]),
        (timedelta(days=1, hours=20), ["1 Feb 00:00", "1 Feb 12:00", "2 Feb 00:00"]),
    ],
)
def test_moments_are_reported_as_shortly_as_tells_them_apart(span: timedelta, labels: list[str]) -> None:
    reported = time_labels(time_ticks(T0, T0 + span))
    assert reported == labels


@given(st.integers(0, 10**10))
def test_a_span_has_few_ticks_within_it(seconds: int) -> None:
    end = min(T0 + timedelta(seconds=seconds), datetime(2300, 1, 1, tzinfo=UTC))
    ticks = time_ticks(T0, end)
    assert len(ticks) <= TIMES_MAX
    assert all(T0 <= tick <= end for tick in ticks)
    assert len(time_labels(ticks)) == len(ticks) == len(set(time_labels(ticks)))
