"""Times are exact to the microsecond, have a zone, and sort as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.clock import Deadline, ManualClock, SystemClock, from_micros, from_rfc3339, to_micros, to_rfc3339

AT = datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
_times = st.datetimes(datetime(1970, 1, 2), datetime(9998, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 - zone follows


@given(_times)
def test_both_forms_of_a_time_come_back_exactly(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment
    assert from_rfc3339(to_rfc3339(moment)) == moment


@given(_times, _times)
def test_text_order_is_time_order(one: datetime, other: datetime) -> None:
    assert (to_rfc3339(one) < to_rfc3339(other)) == (one < other)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00.000005Z", AT),
        ("2026-01-31T13:00:00.000005999+01:00", AT),
        ("2026-01-31T12:00:00.0000050Z", AT),
        ("2026-01-31T12:00:00Z", AT.replace(microsecond=0)),
        ("2026-01-31T12:00:00.1Z", AT.replace(microsecond=100_000)),
    ],
)
def test_a_time_is_read_with_any_fraction_cut_to_microseconds(text: str, moment: datetime) -> None:
    assert from_rfc3339(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00.0000000000Z",
        "20260131T120000.0000000000Z",
        "2026-01-31T12:00:00.00000xZ",
        "2026-01-31T12:00:00.12xZ",
        "9999-12-31T23:59:59-01:00",
        "0001-01-01T00:00:00+01:00",
    ],
)
def test_what_is_no_time_with_a_zone_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_rfc3339(text)


def test_other_zones_are_turned_into_utc() -> None:
    assert to_rfc3339(AT.astimezone(timezone(timedelta(hours=9)))) == "2026-01-31T12:00:00.000005Z"


def test_a_deadline_passes_when_its_clock_says_so() -> None:
    clock = ManualClock(AT)
    deadline = Deadline(clock, 2.0)
    assert (deadline.remaining_s, deadline.has_passed) == (2.0, False)
    clock.advance(2.0)
    assert (deadline.remaining_s, deadline.has_passed) == (0.0, True)
    assert clock.now() == AT + timedelta(seconds=2)


def test_the_system_clock_knows_its_zone_and_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic_s() <= clock.monotonic_s()
