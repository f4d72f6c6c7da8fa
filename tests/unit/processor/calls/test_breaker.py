"""The breaker's three states, on a clock that tests move, and what a later process learns of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.clock import ManualClock
from processor.calls.breaker import CLOSED, HALF_OPEN, OPEN, Breaker

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def breaker(clock: ManualClock) -> Breaker:
    return Breaker("merchants", 3, 5.0, 60.0, 2, clock)


def test_it_opens_after_so_many_failures_in_a_row(breaker: Breaker) -> None:
    breaker.learn_calls(good=0, failed=2, failed_in_a_row=2)
    assert (breaker.state, breaker.failures_left) == (CLOSED, 1)
    breaker.learn_calls(good=7, failed=2, failed_in_a_row=2)
    assert (breaker.state, breaker.failures_left) == (CLOSED, 1)
    breaker.learn_calls(good=0, failed=1, failed_in_a_row=1)
    assert breaker.state == OPEN
    assert breaker.open_s == 5


def test_half_open_it_closes_after_all_probes_were_good(breaker: Breaker, clock: ManualClock) -> None:
    breaker.learn_calls(0, 3, 3)
    clock.advance(4.9)
    assert breaker.state == OPEN
    clock.advance(0.1)
    assert (breaker.state, breaker.probes_left) == (HALF_OPEN, 2)
    breaker.learn_calls(1, 0, 0)
    assert (breaker.state, breaker.probes_left) == (HALF_OPEN, 1)
    breaker.learn_calls(1, 0, 0)
    assert breaker.state == CLOSED
    assert breaker.failures_left == 3


def test_one_failed_probe_opens_it_for_another_while(breaker: Breaker, clock: ManualClock) -> None:
    breaker.learn_calls(0, 3, 3)
    clock.advance(7)
    assert breaker.state == HALF_OPEN
    breaker.learn_calls(1, 1, 0)
    assert breaker.state == OPEN
    assert breaker.open_s == 10


def test_late_news_of_calls_made_before_it_opened_change_nothing(breaker: Breaker, clock: ManualClock) -> None:
    breaker.learn_calls(0, 3, 3)
    clock.advance(1)
    breaker.learn_calls(4, 4, 4)
    assert breaker.open_s == 4


@pytest.mark.parametrize("seconds", [1, 6])
def test_a_later_process_goes_on_where_the_last_one_was(breaker: Breaker, clock: ManualClock, seconds: float) -> None:
    breaker.learn_calls(0, 3, 3)
    clock.advance(seconds)
    later = Breaker("merchants", 3, 5.0, 60.0, 2, clock, breaker.make_note())
    assert (later.state, later.open_s) == (breaker.state, max(0, 5 - seconds))


@pytest.mark.parametrize("ends", [False, True])
def test_a_clock_that_ran_ahead_keeps_it_open_no_longer(clock: ManualClock, ends: bool) -> None:
    """``ends``: its process, before the clock is set back."""
    breaker = Breaker("x", 1, 5.0, 60.0, 3, clock)
    breaker.learn_calls(0, 1, 1)
    kept = breaker.make_note()
    clock.set_back(3 * 3_600)
    if ends:
        breaker = Breaker("x", 1, 5.0, 60.0, 3, clock, kept)
    clock.advance(4)
    assert breaker.state == OPEN
    assert breaker.open_s == 1
    clock.advance(2)
    assert breaker.state == HALF_OPEN


def test_what_is_kept_of_it_follows_a_clock_that_was_set_back(clock: ManualClock) -> None:
    breaker = Breaker("x", 1, 5.0, 60.0, 3, clock)
    breaker.learn_calls(0, 1, 1)
    clock.set_back(3 * 3_600)
    clock.advance(4)
    later = Breaker("x", 1, 5.0, 60.0, 3, clock, breaker.make_note())
    clock.advance(1)
    assert later.state == HALF_OPEN


def test_failures_that_have_not_opened_it_are_known_later_too(breaker: Breaker, clock: ManualClock) -> None:
    assert breaker.make_note() is None
    breaker.learn_calls(0, 2, 2)
    later = Breaker("merchants", 3, 5.0, 60.0, 2, clock, breaker.make_note())
    later.learn_calls(0, 1, 1)
    assert later.state == OPEN


def test_each_probe_that_fails_doubles_the_wait_up_to_the_longest(breaker: Breaker, clock: ManualClock) -> None:
    breaker.learn_calls(0, 3, 3)
    since, waits = clock.now(), []
    for _ in range(6):
        waits.append(breaker.open_s)
        clock.advance(breaker.open_s)
        assert breaker.state == HALF_OPEN
        breaker.learn_calls(0, 1, 1)
    assert waits == [5, 10, 20, 40, 60, 60]
    later = Breaker("merchants", 3, 5.0, 60.0, 2, clock, breaker.make_note())
    assert (later.open_s, later.open_since, breaker.open_since) == (60, since, since)
    clock.advance(60)
    assert (breaker.state, breaker.is_recovering) == (HALF_OPEN, False)
    breaker.learn_calls(1, 0, 0)
    assert breaker.is_recovering
    breaker.learn_calls(1, 0, 0)
    assert (breaker.state, breaker.open_since) == (CLOSED, None)
    breaker.learn_calls(0, 3, 3)
    assert breaker.open_s == 5
