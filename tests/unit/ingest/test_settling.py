"""Settlements that couldn't be written to Redis: tried again while they are of use, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import fakeredis
import pytest

from ingest import redis_claims
from ingest.claims import ClaimKey, ClaimState, ClaimsUnavailable, RedisGate
from ingest.redis_claims import RedisClaims
from tests import virtual_time

ANN, BOB = b"a" * 16, b"b" * 16
KEY, MORE = ClaimKey.for_event("key", "11" * 32), ClaimKey.for_event("more", "22" * 32)
AGAIN_S = 0.02
DUPLICATE, CLAIMED, RECLAIMED = ClaimState.DUPLICATE, ClaimState.CLAIMED, ClaimState.RECLAIMED
Result = TypeVar("Result")


class FailingGate(RedisGate):
    """Shut while Redis is ``down``, or does what is asked and can't say so (``mute``)."""

    def __init__(self) -> None:
        super().__init__(timeout_s=5.0, failures_max=1_000)
        self.down = self.mute = False

    async def run_step(self, step: Callable[[], Awaitable[Result]], server: str = "") -> Result:
        if self.down:
            self.tries += 1
            raise ClaimsUnavailable("down")
        answer = await super().run_step(step, server)
        if self.mute:
            raise ClaimsUnavailable("no answer in time")
        return answer


def claims_behind(gate: FailingGate, lease_s: float = 30.0) -> RedisClaims:
    return RedisClaims(fakeredis.FakeAsyncRedis(), gate, lease_s, 1_000.0, settle_again_s=AGAIN_S)


async def all_reported(claims: RedisClaims, gate: FailingGate) -> None:
    """Returns when nothing is kept and nothing is under way: three looks without a try."""
    tries, quiet = -1, 0
    while quiet < 3:
        quiet = 0 if claims.unsettled_count or gate.tries != tries else quiet + 1
        tries = gate.tries
        await asyncio.sleep(AGAIN_S)


async def tried(gate: FailingGate, times: int) -> None:
    """Returns when Redis has been asked so many times."""
    for _ in range(500):
        if gate.tries >= times:
            return
        await asyncio.sleep(AGAIN_S)
    pytest.fail(f"Redis was asked {gate.tries} times")


@pytest.mark.parametrize("how", ["down", "mute"])
def test_what_redis_was_not_told_is_reported_again_when_it_is_back(how: str) -> None:
    async def history() -> None:
        gate = FailingGate()
        claims = claims_behind(gate)
        assert await claims.claim([KEY, MORE], ANN) == [CLAIMED, CLAIMED]
        setattr(gate, how, True)
        claims.settle([KEY], [MORE], ANN)
        await tried(gate, 4)
        setattr(gate, how, False)
        await all_reported(claims, gate)
        assert await claims.claim([KEY, MORE], BOB) == [DUPLICATE, CLAIMED]

    virtual_time.run(history())


def test_told_late_it_leaves_alone_what_another_owner_took_over() -> None:
    async def history() -> None:
        gate = FailingGate()
        claims = claims_behind(gate)
        other = RedisClaims(claims._redis, FailingGate(), 30.0, 1_000.0)
        hasty = RedisClaims(claims._redis, FailingGate(), 0.001, 1_000.0)
        await hasty.claim([KEY, MORE], ANN)
        gate.down = True
        claims.settle([KEY], [MORE], ANN)
        await asyncio.sleep(0.01)
        assert await other.claim([KEY, MORE], BOB) == [RECLAIMED, RECLAIMED]
        gate.down = False
        await all_reported(claims, gate)
        assert await other.claim([KEY, MORE], ANN) == [ClaimState.IN_FLIGHT] * 2

    asyncio.run(history())


def test_after_the_lease_nothing_is_reported_any_more() -> None:
    async def history() -> None:
        gate = FailingGate()
        claims = claims_behind(gate, lease_s=3 * AGAIN_S)
        gate.down = True
        claims.settle([KEY], [], ANN)
        await all_reported(claims, gate)
        assert gate.tries >= 2
        gate.down = False
        assert await claims.claim([KEY], BOB) == [CLAIMED]

    virtual_time.run(history())


def test_many_are_reported_a_part_at_a_time_and_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_claims, "SETTLEMENTS_AGAIN", 4)
    monkeypatch.setattr(redis_claims, "SETTLEMENTS_KEPT_MAX", 10)
    keys = [ClaimKey.for_event(f"key {n}", "11" * 32) for n in range(15)]

    async def history() -> None:
        gate = FailingGate()
        claims = claims_behind(gate)
        await claims.claim(keys, ANN)
        gate.down = True
        for key in keys:
            claims.settle([key], [], ANN)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gate.down = False
        tries = gate.tries
        await all_reported(claims, gate)
        assert gate.tries == tries + 3
        assert await claims.claim(keys, BOB) == [DUPLICATE] * 10 + [ClaimState.IN_FLIGHT] * 5

    virtual_time.run(history())


@pytest.mark.parametrize("back", [True, False])
def test_at_the_end_what_waits_is_reported_once_more_and_nobody_waits_for_longer(back: bool) -> None:
    async def history() -> None:
        gate = FailingGate()
        claims = RedisClaims(fakeredis.FakeAsyncRedis(), gate, 30.0, 1_000.0, settle_again_s=3_600.0)
        await claims.claim([KEY], ANN)
        gate.down = True
        claims.settle([KEY], [], ANN)
        await asyncio.sleep(0.01)
        gate.down = not back
        async with asyncio.timeout(5):
            await claims.await_settlements()
        gate.down = False
        assert await claims.claim([KEY], BOB) == [DUPLICATE if back else ClaimState.IN_FLIGHT]

    virtual_time.run(history())
