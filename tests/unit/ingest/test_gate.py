"""The breaker before Redis."""

from __future__ import annotations

import asyncio
from datetime import datetime, tzinfo

import pybreaker
import pytest

from ingest.claims import ClaimsUnavailable, RedisGate
from tests import virtual_time

TIMEOUT_S = 0.05


class Redis:
    """Round trips that answer, fail or hang."""

    def __init__(self) -> None:
        self.asked = 0
        self.down = False
        self.hangs = False

    async def trip(self) -> str:
        self.asked += 1
        if self.down:
            raise OSError("gone")
        if self.hangs:
            await asyncio.sleep(60)
        return "said"


def gate(reset_s: float = 60.0) -> RedisGate:
    return RedisGate(TIMEOUT_S, failures_max=3, reset_s=reset_s)


async def refused(gate: RedisGate, redis: Redis) -> None:
    with pytest.raises(ClaimsUnavailable):
        await gate.run_step(redis.trip)


class LoopTime:
    """What pybreaker takes for `datetime`."""

    @staticmethod
    def now(_: tzinfo) -> datetime:
        return virtual_time.LoopClock().now()


def test_after_three_failures_redis_is_left_alone_until_its_time_and_then_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pybreaker, "datetime", LoopTime)

    async def history() -> None:
        redis, closed = Redis(), gate(reset_s=1.0)
        redis.down = True
        for _ in range(10):
            await refused(closed, redis)
        assert (redis.asked, closed.is_refusing, closed.failures) == (3, True, 10)
        redis.down = False
        await asyncio.sleep(1.1)
        assert await closed.run_step(redis.trip) == "said"
        assert not closed.is_refusing

    virtual_time.run(history())


def test_a_slow_redis_counts_as_down_and_nobody_waits_for_it_longer_than_the_time_out() -> None:
    async def history() -> float:
        redis, closed = Redis(), gate()
        redis.hangs = True
        await asyncio.gather(*(refused(closed, redis) for _ in range(50)))
        assert closed.is_refusing
        return asyncio.get_running_loop().time()

    assert virtual_time.run(history()) == pytest.approx(TIMEOUT_S)


def test_slow_round_trips_overlap_the_breaker_holds_no_lock_meanwhile() -> None:
    async def history() -> float:
        open_gate = RedisGate(timeout_s=5.0)

        async def slow() -> None:
            await asyncio.sleep(0.4)

        await asyncio.gather(*(open_gate.run_step(slow) for _ in range(10)))
        return asyncio.get_running_loop().time()

    assert virtual_time.run(history()) == pytest.approx(0.4)


def test_a_bug_is_not_taken_for_a_redis_that_is_down() -> None:
    async def bug() -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        virtual_time.run(gate().run_step(bug))
