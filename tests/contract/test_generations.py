"""The generation as the processor writes it and the receiver reads it, on a real Redis in each of its forms."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.generation import Announcement, generation_key, generation_keys
from core.redis import async_redis, is_cluster, sync_redis
from core.routing import Shard
from core.settings import RedisSettings
from ingest.claims import ClaimKey, ClaimState, RedisGate
from ingest.generations import RedisGenerations
from ingest.redis_claims import RedisClaims
from load.client import wait_for
from processor.claims import NAMES_AT_ONCE, ReceiverClaims, open_generation_writer
from stack.servers.redis import redis_server, redis_url
from stack.servers.server import run_server
from tests.redis_sites import FORMS, MORE_FORMS, RedisSite

ASK_S = 5.0
WAIT_S = 60.0


@pytest.fixture(params=["redis", *MORE_FORMS])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisSettings]:
    if request.param in FORMS:
        site: RedisSite = request.getfixturevalue(request.param)
        site.on_masters(lambda client: client.flushall())
        yield site.settings()
        return
    with run_server(redis_server(tmp_path / "redis", tmp_path / "redis.log")):
        yield RedisSettings(url=redis_url(tmp_path / "redis"))


def test_what_a_processor_announces_a_receiver_reads_and_modes_are_apart(settings: RedisSettings) -> None:
    async def read() -> tuple[int | None, int | None]:
        async with async_redis(settings, ASK_S, ASK_S) as client:
            generations = RedisGenerations(client, ("live", "test"), SystemClock(), 4, tuple)
            await generations.read()
            return generations.find_generation("live", "e"), generations.find_generation("test", "e")

    def reads(wanted: tuple[int | None, int | None]) -> bool:
        return wait_for(lambda: asyncio.run(read()) == wanted, WAIT_S)

    assert asyncio.run(read()) == (None, None)
    live, test = open_generation_writer(settings, "live", tuple), open_generation_writer(settings, "test", tuple)
    for writer in (live, test):
        writer.start()
        writer.publish(Announcement(5, 4, refused=True))
    test.publish(Announcement(8, 4))
    assert reads((None, 8))
    live.publish(Announcement(6, 4))
    assert reads((6, 8))
    live.close()
    test.close()
    with contextlib.closing(sync_redis(settings, ASK_S)) as client:
        for key in generation_keys("test", cluster=is_cluster(client)):
            assert client.get(key) == b"8 p4"


def test_the_claims_of_released_keys_are_free_in_the_generation_that_receivers_claim_in(
    settings: RedisSettings,
) -> None:
    """The highest one that any shard announces; claims on other keys stay."""
    content, owner = "11" * 32, b"a" * 16
    keys = [f"stripe:evt_{number}:charge" for number in range(NAMES_AT_ONCE + 2)]

    async def states(generation: int) -> list[ClaimState]:
        async with async_redis(settings, ASK_S, ASK_S) as client:
            claims = RedisClaims(client, RedisGate(ASK_S), 60.0, 1_000.0)
            asked = [ClaimKey.for_event(key, content, "live", generation) for key in keys]
            found = await claims.claim(asked, owner)
            claims.settle(asked, [], owner)
            await claims.await_settlements()
            return found

    writer = open_generation_writer(settings, "live", tuple, 1)
    writer._write(Announcement(7, 4, shard=Shard(1, 2)))
    for generation in (3, 7):
        assert set(asyncio.run(states(generation))) == {ClaimState.CLAIMED}
        assert set(asyncio.run(states(generation))) == {ClaimState.DUPLICATE}
    assert ReceiverClaims(settings, "live", 2).free_claims(keys[1:], 3) is None
    for generation in (3, 7):
        assert asyncio.run(states(generation)) == [ClaimState.DUPLICATE, *[ClaimState.RECLAIMED] * (len(keys) - 1)]
        assert set(asyncio.run(states(generation))) == {ClaimState.DUPLICATE}, "what came again holds its key"


def test_a_confirmation_that_comes_after_the_release_does_not_hold_the_key_again(settings: RedisSettings) -> None:
    """A receiver sends one again as long as its lease lasts; what the provider sends then is still a first event."""
    first, again = b"a" * 16, b"b" * 16
    asked = [ClaimKey.for_event("stripe:evt_1:charge", "11" * 32, "live", 3)]

    async def run() -> list[ClaimState]:
        async with async_redis(settings, ASK_S, ASK_S) as client:
            claims = RedisClaims(client, RedisGate(ASK_S), 60.0, 1_000.0)
            found = await claims.claim(asked, first)
            assert (
                await asyncio.to_thread(ReceiverClaims(settings, "live", 1).free_claims, ["stripe:evt_1:charge"], 3)
                is None
            )
            claims.settle(asked, [], first)
            await claims.await_settlements()
            found += await claims.claim(asked, again)
            claims.settle(asked, [], again)
            await claims.await_settlements()
            return [*found, *await claims.claim(asked, b"c" * 16)]

    assert asyncio.run(run()) == [ClaimState.CLAIMED, ClaimState.RECLAIMED, ClaimState.DUPLICATE]


def test_a_redis_that_is_not_there_is_a_reason_and_no_error() -> None:
    gone = ReceiverClaims(RedisSettings(url="redis://127.0.0.1:9/0"), "live", 1).free_claims(["stripe:evt_1:charge"], 0)
    assert gone is not None and "127.0.0.1:9" in gone


def test_a_higher_one_stays_and_what_cant_be_read_is_written_over(settings: RedisSettings) -> None:
    with contextlib.closing(sync_redis(settings, ASK_S)) as client:
        client.set(generation_key("live"), b"soon")
        writer = open_generation_writer(settings, "live", tuple)
        for announced, stands in (
            (Announcement(9, 4), b"9 p4"),
            (Announcement(10, 4), b"10 p4"),
            (Announcement(9, 4, refused=True), b"10 p4"),
        ):
            writer._write(announced)
            assert client.get(generation_key("live")) == stands
