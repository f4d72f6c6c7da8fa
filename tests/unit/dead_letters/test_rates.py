"""How fast dead events come and go, in numbers and in words."""

from __future__ import annotations

import pytest

from dead_letters.rates import Rate, sum_rates


@pytest.mark.parametrize(
    ("depth", "inflow", "outflow", "clear_s", "clearing"),
    [
        (0, 5, 0, 0.0, "no dead events"),
        (10, 1, 1, None, "never, at this rate"),
        (10, 2, 1, None, "never, at this rate"),
        (10, 0, 0, None, "never, at this rate"),
        (10, 1, 3, 18_000.0, "5.0 h, at this rate"),
        (10, 0, 1_000, 36.0, "36 s, at this rate"),
        (10, 0, 20, 1_800.0, "30 min, at this rate"),
        (1_000, 0, 10, 360_000.0, "4.2 days, at this rate"),
    ],
)
def test_time_to_clear(depth: int, inflow: int, outflow: int, clear_s: float | None, clearing: str) -> None:
    rate = Rate.from_counts(3_600, inflow, outflow, depth)
    assert (rate.time_to_clear_s, rate.clearing) == (clear_s, clearing)


def test_a_rate_is_counts_with_their_window() -> None:
    assert Rate.from_counts(900, 1_300, 0, 1_300).full_sentence == (
        "1,300 in, 0 out in the last 15 minutes (time to clear: never, at this rate)"
    )


def test_shards_together_have_one_rate_a_window() -> None:
    one = (Rate.from_counts(900, 5, 0, 5), Rate.from_counts(3_600, 5, 1, 5))
    other = (Rate.from_counts(900, 0, 15, 5), Rate.from_counts(3_600, 0, 15, 5))
    assert sum_rates([one, other], 10) == (Rate(900, 5, 15, 900.0), Rate(3_600, 5, 16, 10 / 11 * 3_600))
