"""The claims' generation as a receiver reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import fakeredis
import pytest
from redis.exceptions import ConnectionError as RedisGone

from core.clock import ManualClock
from core.event import Mode
from core.generation import claim_prefix, generation_key
from core.routing import Shard
from ingest.claims import CONTENT_BYTES, HASH_BYTES, ClaimKey
from ingest.errors import RequestRefused
from ingest.generations import UNREAD_S_MAX, RedisGenerations


class GenerationsRedis:
    """A receiver's view of a Redis that the test writes to."""

    def __init__(self, *modes: Mode) -> None:
        self.clock = ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
        self.server = fakeredis.FakeServer()
        self.redis = fakeredis.FakeAsyncRedis(server=self.server)
        self.keys = ["0a0b0c0d", "1a1b1c1d"]
        self.generations = RedisGenerations(self.redis, modes or ("live",), self.clock, 4, lambda: self.keys)

    def of(self, mode: Mode = "live", entity: str = "e") -> int | None:
        return self.generations.find_generation(mode, entity)

    async def reads(self, value: bytes | None, mode: Mode = "live", shard: int = 0) -> int | None:
        """What it holds after it has read once while that stands in Redis."""
        if value is None:
            await self.redis.delete(generation_key(mode, shard))
        else:
            await self.redis.set(generation_key(mode, shard), value)
        await self.generations.read()
        return self.of(mode)


def run(history: Callable[[GenerationsRedis], Awaitable[None]], *modes: Mode) -> None:
    async def inside() -> None:
        await history(GenerationsRedis(*modes))

    asyncio.run(inside())


@pytest.mark.parametrize("nothing", [None, b"", b"soon", b"-1"])
def test_where_none_is_announced_there_is_none(nothing: bytes | None) -> None:
    async def history(ground: GenerationsRedis) -> None:
        assert ground.of() is None
        assert await ground.reads(nothing) is None
        assert await ground.reads(b"2 p4") == 2
        assert await ground.reads(nothing) is None
        assert await ground.reads(b"2 p4") == 2

    run(history)


def test_a_higher_one_holds_at_once_and_a_lower_one_never_again() -> None:
    async def history(ground: GenerationsRedis) -> None:
        assert [await ground.reads(value) for value in (b"0 p4", b"3 p4", b"2 p4", b"0 p4", b"4 p4")] == [0, 3, 3, 3, 4]
        assert await ground.reads(None) is None
        assert await ground.reads(b"1 p4") == 4

    run(history)


def test_while_its_processor_refuses_there_is_none_and_afterwards_the_highest() -> None:
    async def history(ground: GenerationsRedis) -> None:
        assert await ground.reads(b"2 p4") == 2
        assert await ground.reads(b"2 p4 refused") is None
        assert await ground.reads(b"2 p4") == 2
        assert await ground.reads(b"5 p4 refused") is None
        assert await ground.reads(b"2 p4") == 5
        assert await ground.reads(b"1 p4 refused") is None, "an older journal was put back, and its processor refuses"

    run(history)


def test_modes_are_apart() -> None:
    async def history(ground: GenerationsRedis) -> None:
        assert await ground.reads(b"1 p4", "live") == 1
        assert (ground.of("test"), ground.generations.deferred_mode_count) == (None, 1)
        assert await ground.reads(b"7 p4 refused", "test") is None
        assert (ground.of(), ground.generations.deferred_mode_count) == (1, 1)
        assert await ground.reads(b"7 p4", "test") == 7
        assert ground.generations.deferred_mode_count == 0

    run(history, "live", "test")


def test_redis_that_cant_be_asked_leaves_the_last_one_for_a_while() -> None:
    async def history(ground: GenerationsRedis) -> None:
        await ground.reads(b"3 p4")
        ground.server.connected = False
        with pytest.raises(RedisGone):
            await ground.redis.ping()
        for _ in range(3):
            await ground.generations.read()
            assert ground.of() == 3
        ground.clock.advance(UNREAD_S_MAX)
        await ground.generations.read()
        assert ground.of() is None
        ground.server.connected = True
        assert await ground.reads(b"3 p4") == 3

    run(history)


def test_another_number_of_partitions_is_refused_until_the_processor_announces_this_one() -> None:
    async def history(ground: GenerationsRedis) -> None:
        await ground.reads(b"3 p4")
        ground.generations.check("live")
        for announced in (b"3 p8", b"3 p8 refused", None):
            await ground.reads(announced)
            with pytest.raises(RequestRefused) as refused:
                ground.generations.check("live")
            assert refused.value.status == 503
            assert b"kafka.events_partitions is 4 here and 8 in the processor" in refused.value.json()
        await ground.reads(b"3 p4")
        ground.generations.check("live")

    run(history)


def test_a_key_that_the_processor_does_not_know_is_refused_until_it_does() -> None:
    async def history(ground: GenerationsRedis) -> None:
        await ground.reads(b"3 p4 k1a1b1c1d")
        with pytest.raises(RequestRefused) as refused:
            ground.generations.check("live")
        assert refused.value.code == "other_record_keys"
        assert refused.value.status == 503
        ground.keys.reverse()
        ground.generations.check("live")
        ground.keys.reverse()
        await ground.reads(b"3 p4 k1a1b1c1d,0a0b0c0d")
        ground.generations.check("live")

    run(history)


@pytest.mark.parametrize("generation", [0, 1, 12, 9_999])
def test_a_claims_name_ends_with_the_hash_that_the_index_has(generation: int) -> None:
    live = ClaimKey.for_event("stripe:evt_1:t", "00" * 32, "live", generation)
    test = ClaimKey.for_event("stripe:evt_1:t", "00" * 32, "test", generation)
    plain = ClaimKey.for_event("stripe:evt_1:t", "00" * 32)
    assert live.name == claim_prefix("live", generation) + plain.name
    assert test.name == claim_prefix("test", generation) + plain.name
    assert live.name != test.name
    assert (len(plain.name), len(plain.content8)) == (HASH_BYTES, CONTENT_BYTES)


def test_no_two_names_of_one_hash_are_alike() -> None:
    modes: tuple[Mode, ...] = ("live", "test")
    prefixes = [claim_prefix(mode, generation) for mode in modes for generation in range(200)]
    assert len(set(prefixes)) == len(prefixes)
    assert claim_prefix("live", 0) == b"", "claims of before there were generations are its own"


FIRST, SECOND = (next(name for name in map(str, range(99)) if Shard(n, 2).has_entity(name)) for n in (0, 1))
"""Entities of the first and of the second shard of two."""


def test_of_several_shards_the_highest_counts_and_a_silent_one_defers_its_own_events() -> None:
    async def history(ground: GenerationsRedis) -> None:
        async def reads(value: bytes | None, shard: int) -> tuple[int | None, int | None, int]:
            await ground.reads(value, shard=shard)
            return ground.of(entity=FIRST), ground.of(entity=SECOND), ground.generations.deferred_mode_count

        assert await reads(b"4 p4 s1/2", 1) == (None, None, 1), "how many there are isn't known yet"
        assert await reads(b"1 p4 s0/2", 0) == (4, 4, 0)
        assert await reads(b"4 p4 s1/2 refused", 1) == (4, None, 1)
        assert await reads(None, 1) == (4, None, 1)
        assert await reads(b"4 p4 s1/2", 1) == (4, 4, 0)
        assert await reads(None, 0) == (None, 4, 1)
        assert await reads(b"5 p4 s1/4", 1) == (None, None, 1), "that is of another division"
        assert await reads(b"5 p4 s0/4", 0) == (5, 5, 1)
        assert await reads(None, 0) == (None, 5, 1)
        assert await reads(None, 1) == (None, None, 1)

    run(history)


def test_a_shard_with_another_number_of_partitions_is_refused() -> None:
    async def history(ground: GenerationsRedis) -> None:
        await ground.reads(b"3 p4 s0/2")
        await ground.reads(b"3 p8 s1/2", shard=1)
        with pytest.raises(RequestRefused, match="is 4 here and 8 in the processor"):
            ground.generations.check("live")
        await ground.reads(b"3 p4 s1/2", shard=1)
        ground.generations.check("live")

    run(history)
