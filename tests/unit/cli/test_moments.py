"""Moments on the command line: days and times, in UTC, as a first moment that counts or doesn't."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
import pytest

from cli.place import read_as_of, read_since, read_until

DAY = datetime(2026, 1, 31, tzinfo=UTC)
NOON = DAY + timedelta(hours=12)
LEAST = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "first", "beyond", "after"),
    [
        ("2026-01-31", DAY, DAY + timedelta(days=1), DAY + timedelta(days=1)),
        ("2026-01-31T12:00:00Z", NOON, NOON, NOON + LEAST),
        ("2026-01-31T12:00:00", NOON, NOON, NOON + LEAST),
        ("2026-01-31T13:00:00+01:00", NOON, NOON, NOON + LEAST),
        ("2026-01-31T12:00:00.000001Z", NOON + LEAST, NOON + LEAST, NOON + LEAST * 2),
        ("2026-01-31 12:00:00", NOON, NOON, NOON + LEAST),
    ],
)
def test_a_day_counts_whole_and_a_time_to_the_microsecond(
    text: str, first: datetime, beyond: datetime, after: datetime
) -> None:
    assert [read(None, None, text) for read in (read_since, read_until, read_as_of)] == [first, beyond, after]


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-30", "31.01.2026", "2026-01-31T25:00:00Z", "0000-01-01"])
def test_what_is_no_moment_is_refused_with_an_example(text: str) -> None:
    for read in (read_since, read_until, read_as_of):
        with pytest.raises(click.BadParameter, match="write 2026-01-31 or"):
            read(None, None, text)


def test_what_is_not_said_is_no_moment() -> None:
    assert [read(None, None, None) for read in (read_since, read_until, read_as_of)] == [None, None, None]


def test_the_last_day_of_all_is_refused_where_it_has_no_next_one() -> None:
    with pytest.raises(click.BadParameter):
        read_until(None, None, "9999-12-31")
