"""How many calls at a time, and how many retries: more after good rounds, far fewer after bad ones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.clock import ManualClock
from processor.calls.budget import CallReport
from processor.calls.downstream import ConcurrencyLimit, RetryBudget


def limit(start: int = 8, most: int = 12) -> ConcurrencyLimit:
    return ConcurrencyLimit(start, most)


def a_round(calls: int = 20, each_s: float = 0.1, failed: int = 0, peak: int = 99, waited: bool = True) -> CallReport:
    return CallReport(calls=calls, failed=failed, seconds=calls * each_s, peak=peak, waited=waited)


@pytest.mark.row("D8")
def test_a_good_round_that_used_the_limit_raises_it_by_one_up_to_the_most() -> None:
    subject = limit(most=10)
    seen = [subject.at_once]
    for _ in range(4):
        subject.learn_calls(a_round())
        seen.append(subject.at_once)
    assert seen == [8, 9, 10, 10, 10]


def test_a_round_that_did_not_need_it_leaves_it() -> None:
    subject = limit()
    subject.learn_calls(a_round(peak=3, waited=False))
    assert subject.at_once == 8


def test_failures_halve_it_down_to_the_least_but_single_ones_do_not() -> None:
    subject = limit()
    subject.learn_calls(a_round(failed=2))
    assert subject.at_once == 9
    subject.learn_calls(a_round(failed=3))
    assert subject.at_once == 4
    for _ in range(3):
        subject.learn_calls(a_round(failed=20))
    assert subject.at_once == 1


@pytest.mark.row("D8")
def test_calls_that_take_twice_their_best_time_lower_it() -> None:
    subject = limit()
    subject.learn_calls(a_round(each_s=0.1))
    subject.learn_calls(a_round(each_s=0.19))
    assert subject.at_once == 10
    subject.learn_calls(a_round(each_s=0.21))
    assert subject.at_once == 7


def test_a_few_slow_calls_say_nothing() -> None:
    subject = limit()
    subject.learn_calls(a_round(each_s=0.1))
    subject.learn_calls(a_round(calls=4, each_s=5.0, peak=4, waited=False))
    assert subject.at_once == 9


def test_a_downstream_that_has_become_slower_for_good_is_believed_at_the_least_limit() -> None:
    subject = limit(start=2)
    for seconds in (0.1, 1.0, 1.0, 1.0, 1.0):
        subject.learn_calls(a_round(each_s=seconds))
    assert subject.at_once == 3


def test_calls_that_fit_a_time_follow_from_their_duration_and_their_number_at_a_time() -> None:
    subject = limit()
    assert subject.count_calls_within(1.0) is None
    subject.learn_calls(a_round(each_s=0.1, peak=8, waited=False))
    assert subject.count_calls_within(1.0) == pytest.approx(8 / 0.1, abs=1)
    for _ in range(40):
        subject.learn_calls(a_round(each_s=0.1, peak=2, waited=False))
    assert subject.count_calls_within(1.0) == pytest.approx(2 / 0.1, abs=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 31, tzinfo=UTC))


def test_retries_are_a_share_of_first_tries_with_a_floor(clock: ManualClock) -> None:
    budget = RetryBudget(clock)
    assert budget.retries_left == 10
    budget.learn_calls(CallReport(calls=1_000, retries=0))
    assert budget.retries_left == 200
    budget.learn_calls(CallReport(calls=150, retries=150))
    assert budget.retries_left == 50
    budget.learn_calls(CallReport(calls=60, retries=60))
    assert budget.retries_left == 0


def test_the_window_moves_on(clock: ManualClock) -> None:
    budget = RetryBudget(clock)
    budget.learn_calls(CallReport(calls=1_000, retries=0))
    clock.advance(6)
    budget.learn_calls(CallReport(calls=40, retries=40))
    assert (budget.retries_left, budget.per_s) == (160, 20)
    clock.advance(5)
    assert (budget.retries_left, budget.per_s) == (0, 1)
    clock.advance(6)
    assert budget.retries_left == 10
