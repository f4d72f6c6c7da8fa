"""When a run waits for a second person: by the limits that the processor holds it to."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dlq.commands import PURGE, REPLAY
from dlq.selection import Run, Selection, TwoPeople

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
LIMITS = TwoPeople(100, {"EUR": 1_000, "*": 10})


def selection(count: int, **amounts: int) -> Selection:
    return Selection(1, "00", AT, "ada", "", "{}", count, 1, amounts)


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        (selection(100, EUR=1_000, JPY=10), None),
        (selection(101), "it is 101 items, and above 100 a second person approves"),
        (selection(1, EUR=1_001), "it is 1,001 minor units of EUR, and above 1,000 a second person approves"),
        (selection(1, JPY=11), "it is 11 minor units of JPY, and above 10 a second person approves"),
    ],
)
def test_a_purge_beyond_a_limit_takes_two(chosen: Selection, why: str | None) -> None:
    assert LIMITS.why(chosen, Run(PURGE, "garbage")) == why
    assert LIMITS.why(chosen, Run(REPLAY, "mended")) is None


def test_a_currency_without_a_limit_has_none() -> None:
    assert TwoPeople(100, {"EUR": 1}).why(selection(1, JPY=10**12), Run(PURGE, "garbage")) is None
