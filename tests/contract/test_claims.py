"""The claim protocol, row by row: in memory, on fakeredis, and on a real Redis in each of its forms."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeAlias, TypeVar

import fakeredis
import pytest
import redis

from core.clock import ManualClock
from core.redis import AsyncClient, Client, async_redis
from core.routing import MODES
from core.settings import RedisSettings
from ingest.claims import CONTENT_BYTES, ClaimKey, Claims, ClaimState, RedisGate
from ingest.redis_claims import CLAIM, RedisClaims
from tests.memory_claims import MemoryClaims
from tests.redis_sites import FORMS, MORE_FORMS, RedisSite

LEASE_S, BRIEF_S = 60.0, 0.05
"""Time passes by itself on a real Redis: a lease that a test outlives is a brief one, the others outlive the test."""
CONFIRMED_S = 1_000.0
ANN, BOB = b"a" * 16, b"b" * 16
CONTENT, OTHER = "11" * 32, "22" * 32
ASK_S = 5.0
Answer = TypeVar("Answer")
OpenClient: TypeAlias = Callable[[], contextlib.AbstractAsyncContextManager[AsyncClient]]
_numbers = itertools.count()


class ClaimsBackend(Protocol):
    """Where the suite runs: claims, and time that passes."""

    def run(self, use: Callable[[Claims], Awaitable[Answer]], lease_s: float = LEASE_S) -> Answer: ...
    def pass_time(self, seconds: float) -> None: ...
    def forget(self) -> None: ...


class MemoryClaimsBackend:
    def __init__(self) -> None:
        self._clock = ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
        self._claims = MemoryClaims(self._clock, LEASE_S, CONFIRMED_S)

    def run(self, use: Callable[[Claims], Awaitable[Answer]], lease_s: float = LEASE_S) -> Answer:
        self._claims._lease_s = lease_s
        return asyncio.run(_await(use(self._claims)))

    def pass_time(self, seconds: float) -> None:
        self._clock.advance(seconds)

    def forget(self) -> None:
        self._claims.forget_all()


class RedisClaimsBackend:
    """``open_client`` makes one in each run's event loop; time passes by itself.

    :param on_servers: does something to each server that has keys, as somebody who may do everything
    """

    def __init__(self, open_client: OpenClient, on_servers: Callable[[Callable[[Client], object]], object]) -> None:
        self._open_client = open_client
        self.on_servers = on_servers

    def run(self, use: Callable[[Claims], Awaitable[Answer]], lease_s: float = LEASE_S) -> Answer:
        async def inside() -> Answer:
            async with self._open_client() as client:
                claims = RedisClaims(client, RedisGate(timeout_s=60.0), lease_s, CONFIRMED_S)
                try:
                    return await use(claims)
                finally:
                    await claims.await_settlements()

        return asyncio.run(inside())

    def pass_time(self, seconds: float) -> None:
        asyncio.run(asyncio.sleep(seconds))

    def forget(self) -> None:
        self.on_servers(lambda client: client.flushall())


async def _await(step: Awaitable[Answer]) -> Answer:
    return await step


@pytest.fixture(params=["memory", "fakeredis", "redis", *MORE_FORMS])
def ground(request: pytest.FixtureRequest) -> ClaimsBackend:
    if request.param == "memory":
        return MemoryClaimsBackend()
    if request.param == "fakeredis":
        server = fakeredis.FakeServer()
        return RedisClaimsBackend(
            lambda: contextlib.aclosing(fakeredis.FakeAsyncRedis(server=server)),
            lambda do: do(fakeredis.FakeRedis(server=server)),
        )
    if request.param in FORMS:
        site: RedisSite = request.getfixturevalue(request.param)
        return RedisClaimsBackend(site.open, site.on_masters)
    url = request.getfixturevalue("real_redis")
    return RedisClaimsBackend(
        lambda: async_redis(RedisSettings(url=url), ASK_S, ASK_S), lambda do: do(redis.Redis.from_url(url))
    )


@pytest.fixture
def key() -> ClaimKey:
    return ClaimKey.for_event(f"stripe:evt_{next(_numbers)}:charge.succeeded", CONTENT)


def claim(
    ground: ClaimsBackend, keys: Sequence[ClaimKey], owner: bytes = ANN, lease_s: float = LEASE_S
) -> list[ClaimState]:
    return ground.run(lambda claims: claims.claim(keys, owner), lease_s)


def settle(ground: ClaimsBackend, published: Sequence[ClaimKey], given_up: Sequence[ClaimKey], owner: bytes) -> None:
    async def settle_now(claims: Claims) -> None:
        claims.settle(published, given_up, owner)
        await claims.await_settlements()

    ground.run(settle_now)


def confirm(ground: ClaimsBackend, key: ClaimKey, owner: bytes = ANN) -> None:
    settle(ground, [key], [], owner)


def release(ground: ClaimsBackend, key: ClaimKey, owner: bytes = ANN) -> None:
    settle(ground, [], [key], owner)


def other(key: ClaimKey) -> ClaimKey:
    return ClaimKey(key.name, bytes.fromhex(OTHER)[:CONTENT_BYTES])


@pytest.mark.row("A3")
def test_the_first_to_ask_has_it_and_everyone_else_waits_whatever_their_content(
    ground: ClaimsBackend, key: ClaimKey
) -> None:
    assert claim(ground, [key]) == [ClaimState.CLAIMED]
    assert claim(ground, [key], BOB) == [ClaimState.IN_FLIGHT]
    assert claim(ground, [other(key)], BOB) == [ClaimState.IN_FLIGHT]


def test_confirmed_the_same_content_is_a_duplicate_and_other_content_a_conflict(
    ground: ClaimsBackend, key: ClaimKey
) -> None:
    claim(ground, [key])
    confirm(ground, key)
    assert claim(ground, [key], BOB) == [ClaimState.DUPLICATE]
    assert claim(ground, [other(key)], BOB) == [ClaimState.CONFLICT]


def test_a_claim_whose_owner_died_is_taken_over_after_its_lease(ground: ClaimsBackend, key: ClaimKey) -> None:
    claim(ground, [key], lease_s=BRIEF_S)
    ground.pass_time(2 * BRIEF_S)
    assert claim(ground, [key], BOB) == [ClaimState.RECLAIMED]
    assert claim(ground, [key], ANN) == [ClaimState.IN_FLIGHT]


def test_an_owner_that_lost_its_claim_can_neither_confirm_nor_release_it(ground: ClaimsBackend, key: ClaimKey) -> None:
    claim(ground, [key], lease_s=BRIEF_S)
    ground.pass_time(2 * BRIEF_S)
    claim(ground, [other(key)], BOB)
    confirm(ground, key, ANN)
    release(ground, key, ANN)
    assert claim(ground, [key], ANN) == [ClaimState.IN_FLIGHT]
    confirm(ground, other(key), BOB)
    assert claim(ground, [other(key)], ANN) == [ClaimState.DUPLICATE]


def test_released_it_is_free_at_once(ground: ClaimsBackend, key: ClaimKey) -> None:
    claim(ground, [key])
    release(ground, key)
    assert claim(ground, [key], BOB) == [ClaimState.CLAIMED]


def test_a_key_that_redis_forgot_between_claim_and_confirm_is_known_again(ground: ClaimsBackend, key: ClaimKey) -> None:
    claim(ground, [key])
    ground.forget()
    confirm(ground, key)
    assert claim(ground, [key], BOB) == [ClaimState.DUPLICATE]


def test_several_keys_are_decided_each_by_itself_in_their_order(ground: ClaimsBackend, key: ClaimKey) -> None:
    more = [ClaimKey.for_event(f"{key.name.hex()}:{n}", CONTENT) for n in range(3)]
    claim(ground, [more[1]])
    confirm(ground, more[1])
    assert claim(ground, more, BOB) == [ClaimState.CLAIMED, ClaimState.DUPLICATE, ClaimState.CLAIMED]


def test_of_fifty_that_ask_at_once_one_has_it(ground: ClaimsBackend, key: ClaimKey) -> None:
    async def all_at_once(claims: Claims) -> list[list[ClaimState]]:
        return await asyncio.gather(*(claims.claim([key], bytes([n]) * 16) for n in range(50)))

    states = [state for [state] in ground.run(all_at_once)]
    assert sorted(states) == [ClaimState.CLAIMED] + [ClaimState.IN_FLIGHT] * 49


def test_what_is_settled_is_known_to_the_next_claim_though_nobody_waited(ground: ClaimsBackend, key: ClaimKey) -> None:
    async def settle_and_claim(claims: Claims) -> list[ClaimState]:
        more = ClaimKey.for_event(f"{key.name.hex()}:more", CONTENT)
        await claims.claim([key, more], ANN)
        claims.settle([key], [more], ANN)
        return await claims.claim([key, more], BOB)

    assert ground.run(settle_and_claim) == [ClaimState.DUPLICATE, ClaimState.CLAIMED]


def test_only_the_owner_can_settle(ground: ClaimsBackend, key: ClaimKey) -> None:
    async def settle_of_another(claims: Claims) -> list[ClaimState]:
        await claims.claim([key], ANN)
        claims.settle([key], [], BOB)
        claims.settle([], [key], BOB)
        return await claims.claim([key], BOB)

    assert ground.run(settle_of_another) == [ClaimState.IN_FLIGHT]


def test_claimed_again_by_its_owner_it_is_still_the_owners(ground: ClaimsBackend, key: ClaimKey) -> None:
    claim(ground, [key])
    assert claim(ground, [key]) == [ClaimState.CLAIMED]
    assert claim(ground, [key], BOB) == [ClaimState.IN_FLIGHT]


@pytest.mark.parametrize("ground", ["fakeredis", "redis", *MORE_FORMS], indirect=True)
def test_a_claim_that_was_made_before_scripts_were_found_missing_is_its_own(
    ground: RedisClaimsBackend, key: ClaimKey
) -> None:
    """Redis knows one of a pipeline's scripts and has lost another: the pipeline is sent again, as a whole."""

    async def lose_a_script(claims: Claims) -> list[ClaimState]:
        settled = ClaimKey.for_event(f"{key.name.hex()}:settled", CONTENT)
        await claims.claim([settled], BOB)
        ground.on_servers(lambda client: client.script_flush())
        ground.on_servers(lambda client: client.script_load(CLAIM.text))
        claims.settle([settled], [], BOB)
        return await claims.claim([key, settled], ANN)

    assert ground.run(lose_a_script) == [ClaimState.CLAIMED, ClaimState.DUPLICATE]


@pytest.mark.parametrize("ground", ["fakeredis", "redis", *MORE_FORMS], indirect=True)
def test_a_server_that_knew_no_script_knows_all_after_the_first(ground: RedisClaimsBackend, key: ClaimKey) -> None:
    """Else the first settlement would send its pipeline again, and a claim that was taken over would find itself."""

    async def take_over(claims: Claims) -> list[ClaimState]:
        settled = ClaimKey.for_event(f"{key.name.hex()}:settled", CONTENT)
        await claims.claim([settled], BOB)
        claims.settle([settled], [], BOB)
        return await claims.claim([key], BOB)

    claim(ground, [key], lease_s=BRIEF_S)
    ground.pass_time(2 * BRIEF_S)
    ground.on_servers(lambda client: client.script_flush())
    # On a cluster each master is asked for some of these.
    claim(ground, [ClaimKey.for_event(f"{key.name.hex()}:{n}", CONTENT) for n in range(20)])
    assert ground.run(take_over) == [ClaimState.RECLAIMED]


def test_in_another_generation_or_mode_the_same_key_is_another_claim(ground: ClaimsBackend) -> None:
    event_key = f"stripe:evt_{next(_numbers)}:charge.succeeded"
    keys = [ClaimKey.for_event(event_key, CONTENT, mode, number) for mode in MODES for number in (0, 1, 2)]
    for one in keys:
        assert claim(ground, [one]) == [ClaimState.CLAIMED]
    confirm(ground, keys[0])
    release(ground, keys[1])
    assert claim(ground, keys, BOB) == [ClaimState.DUPLICATE, ClaimState.CLAIMED, *[ClaimState.IN_FLIGHT] * 4]
