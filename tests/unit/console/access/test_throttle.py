"""Guessing gets slower and slower, for names that are there and names that aren't, and never takes memory."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest

from console.access.sign_in import (
    ADDRESS_TRIES,
    FORGOTTEN_AFTER_S,
    USER_TRIES,
    WAIT_S_MAX,
    SignInThrottle,
    network_of,
)
from core.clock import ManualClock

HERE, THERE = "127.0.0.1", "192.0.2.7"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 31, 12, tzinfo=UTC))


@pytest.fixture
def throttle(clock: ManualClock) -> SignInThrottle:
    made = SignInThrottle(clock)
    made._key = bytes(16)
    """The same buckets in each run."""
    return made


def test_each_wrong_try_after_the_first_few_waits_twice_as_long(throttle: SignInThrottle, clock: ManualClock) -> None:
    waits = []
    for _ in range(USER_TRIES + 8):
        wait_s = throttle.begin("ada", HERE)
        waits.append(wait_s)
        clock.advance(wait_s)
        if wait_s:
            assert throttle.begin("ada", HERE) == 0
    assert waits == [0.0] * USER_TRIES + [1, 2, 4, 8, 16, 32, WAIT_S_MAX, WAIT_S_MAX]


def test_a_try_that_has_to_wait_is_not_one_and_makes_nothing_longer(
    throttle: SignInThrottle, clock: ManualClock
) -> None:
    for _ in range(USER_TRIES):
        throttle.begin("ada", HERE)
    assert {throttle.begin("ada", HERE) for _ in range(1_000)} == {1.0}
    clock.advance(1)
    assert throttle.begin("ada", HERE) == 0


def test_another_name_may_try_and_so_may_the_same_name_after_its_password(throttle: SignInThrottle) -> None:
    for _ in range(USER_TRIES):
        throttle.begin("ada", HERE)
    assert throttle.begin("bob", HERE) == 0
    assert throttle.begin("ada", THERE) > 0, "the wait is the name's, wherever it is tried from"
    throttle.refund_try("ada", HERE)
    assert throttle.begin("ada", HERE) == 0


def test_one_address_that_tries_many_names_waits_too(throttle: SignInThrottle) -> None:
    for number in range(ADDRESS_TRIES):
        assert throttle.begin(f"user-{number}", HERE) == 0
    assert throttle.begin("ada", HERE) > 0
    assert throttle.begin("ada", THERE) == 0


def test_whoever_has_one_password_may_not_guess_others_with_it(throttle: SignInThrottle) -> None:
    """Signing in gives back one try of the address, not those that went before."""
    for number in range(ADDRESS_TRIES - 1):
        throttle.begin(f"user-{number}", HERE)
        throttle.begin("mallory", THERE)
        throttle.refund_try("mallory", THERE)
    assert throttle.begin("mallory", HERE) == 0
    throttle.refund_try("mallory", HERE)
    assert throttle.begin("ada", HERE) == 0
    assert throttle.begin("bob", HERE) > 0


def test_many_at_once_have_no_more_tries_than_one_after_the_other(throttle: SignInThrottle) -> None:
    allowed: list[float] = []
    barrier = threading.Barrier(40)

    def tries() -> None:
        barrier.wait()
        allowed.append(throttle.begin("ada", HERE))

    threads = [threading.Thread(target=tries) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allowed.count(0.0) == USER_TRIES


def test_wrong_tries_are_forgotten_after_a_while(throttle: SignInThrottle, clock: ManualClock) -> None:
    for _ in range(USER_TRIES):
        throttle.begin("ada", HERE)
    clock.advance(FORGOTTEN_AFTER_S + 1)
    for _ in range(USER_TRIES):
        assert throttle.begin("ada", HERE) == 0


def test_memory_is_bounded_and_a_name_cannot_be_pushed_out(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.access.sign_in.BUCKETS", 1 << 10)
    throttle = SignInThrottle(clock)
    for _ in range(USER_TRIES):
        throttle.begin("ada", HERE)
    for number in range(5_000):
        throttle.begin(f"flood-{number}", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(throttle._tries) <= 1 << 10
    assert throttle.begin("ada", THERE) > 0


@pytest.mark.parametrize(
    ("address", "reported"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("no address", ""),
    ],
)
def test_an_address_counts_as_what_one_holder_has(address: str, reported: str) -> None:
    assert network_of(address) == reported
