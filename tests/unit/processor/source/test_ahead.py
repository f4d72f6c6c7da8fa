"""One thing is decided while the next is read."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from processor.source.stream import DecisionThread

WAIT_S = 60.0


def make_thread(run: Callable[[], None]) -> threading.Thread:
    return threading.Thread(target=run, daemon=True)


class Decider:
    """Decides when it is let."""

    def __init__(self) -> None:
        self.decided: list[int] = []
        self.began = threading.Semaphore(0)
        self.may = threading.Semaphore(0)

    def __call__(self, one: int) -> None:
        self.began.release()
        assert self.may.acquire(timeout=WAIT_S)
        if one < 0:
            raise ValueError(one)
        self.decided.append(one)


@pytest.fixture
def decider() -> Decider:
    return Decider()


@pytest.fixture
def ahead(decider: Decider) -> DecisionThread[int]:
    made: DecisionThread[int] = DecisionThread(decider)
    made.start(make_thread)
    return made


def test_handing_over_does_not_wait_for_the_decision(ahead: DecisionThread[int], decider: Decider):
    assert ahead.hand_over(1)
    assert decider.began.acquire(timeout=WAIT_S)
    assert decider.decided == []
    decider.may.release()
    ahead.wait()
    assert decider.decided == [1]


def test_things_are_decided_in_order_and_never_two_at_a_time(ahead: DecisionThread[int], decider: Decider):
    handed: list[int] = []

    def hand_over() -> None:
        for number in range(5):
            assert ahead.hand_over(number)
            handed.append(number)

    other = make_thread(hand_over)
    other.start()
    for number in range(5):
        assert decider.began.acquire(timeout=WAIT_S)
        assert decider.decided == list(range(number))
        assert len(handed) <= number + 1
        decider.may.release()
    other.join(WAIT_S)
    ahead.wait()
    assert decider.decided == list(range(5))


def test_after_a_failure_nothing_more_is_decided(ahead: DecisionThread[int], decider: Decider):
    assert ahead.hand_over(-1)
    decider.may.release(2)
    ahead.wait()
    assert isinstance(ahead.failure, ValueError)
    assert not ahead.hand_over(2)
    assert decider.decided == []


def test_closing_lets_what_is_under_way_finish(ahead: DecisionThread[int], decider: Decider):
    assert ahead.hand_over(1)
    assert decider.began.acquire(timeout=WAIT_S)
    assert not ahead.close(0.01)
    decider.may.release()
    assert ahead.close(WAIT_S)
    assert decider.decided == [1]
    assert not ahead.hand_over(2)


def test_closing_what_never_began_takes_no_time():
    assert DecisionThread(Decider()).close(WAIT_S)
