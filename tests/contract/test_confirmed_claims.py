"""Confirmed claims as Redis gives them, on fakeredis and on a real Redis in each of its forms."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import fakeredis
import pytest

from core.event import Mode
from core.generation import Announcement, generation_key
from core.keys import hash_key
from core.redis import AsyncClient, Client, async_redis, sync_redis
from core.settings import RedisSettings
from ingest.claims import ClaimKey, RedisGate
from ingest.redis_claims import KEYS_AT_ONCE, RedisClaims, confirmed_hashes
from stack.servers.redis import redis_server, redis_url
from stack.servers.server import run_server
from tests.redis_sites import FORMS, MORE_FORMS, RedisSite

CONTENT = "11" * 32
ANN = b"a" * 16
ASK_S = 5.0
OpenClient: TypeAlias = Callable[[], contextlib.AbstractAsyncContextManager[AsyncClient]]
MANY = 2 * KEYS_AT_ONCE + 500


class ConfirmedClaimsRedis:
    """A Redis that is asked in both ways: as the receiver does, and from the command line."""

    def __init__(self, sync: Client, open_async: OpenClient) -> None:
        self.redis = sync
        self._open_async = open_async

    def confirm(self, confirmed: list[ClaimKey], pending: list[ClaimKey]) -> None:
        async def inside() -> None:
            async with self._open_async() as client:
                claims = RedisClaims(client, RedisGate(30.0), 60.0, 1_000.0)
                await claims.claim([*confirmed, *pending], ANN)
                claims.settle(confirmed, [], ANN)
                await claims.await_settlements()

        asyncio.run(inside())

    def found(self, mode: Mode, generation: int) -> list[list[bytes]]:
        return list(confirmed_hashes(self.redis, mode, generation))


@pytest.fixture(params=["fakeredis", "redis", *MORE_FORMS])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ConfirmedClaimsRedis]:
    if request.param == "fakeredis":
        server = fakeredis.FakeServer()
        yield ConfirmedClaimsRedis(
            fakeredis.FakeRedis(server=server), lambda: contextlib.aclosing(fakeredis.FakeAsyncRedis(server=server))
        )
        return
    if request.param in FORMS:
        site: RedisSite = request.getfixturevalue(request.param)
        site.on_masters(lambda client: client.flushall())
        with contextlib.closing(sync_redis(site.settings(), ASK_S)) as sync:
            yield ConfirmedClaimsRedis(sync, site.open)
        return
    with run_server(redis_server(tmp_path / "redis", tmp_path / "redis.log")):
        url = redis_url(tmp_path / "redis")
        settings = RedisSettings(url=url)
        with contextlib.closing(sync_redis(settings, ASK_S)) as sync:
            yield ConfirmedClaimsRedis(sync, lambda: async_redis(settings, ASK_S, ASK_S))


def event_keys(name: str, count: int) -> list[str]:
    return [f"stripe:evt_{name}_{number}:charge.succeeded" for number in range(count)]


def test_all_of_one_mode_and_generation_are_found_and_nothing_else(ground: ConfirmedClaimsRedis) -> None:
    wanted: list[tuple[Mode, int]] = [("live", 0), ("live", 1), ("live", 11), ("test", 0), ("test", 1)]
    confirmed = {one: event_keys("-".join(map(str, one)), 3) for one in wanted}
    for (mode, generation), names in confirmed.items():
        pending = event_keys("pending", 2)
        ground.confirm(
            [ClaimKey.for_event(name, CONTENT, mode, generation) for name in names],
            [ClaimKey.for_event(name, CONTENT, mode, generation) for name in pending],
        )
    ground.redis.set(generation_key("live"), Announcement(1, 4).encode())
    ground.redis.set(b"idempotency:" + bytes(32), b"d")
    for (mode, generation), names in confirmed.items():
        found = [one for part in ground.found(mode, generation) for one in part]
        assert sorted(found) == sorted(map(hash_key, names))
    assert ground.found("test", 7) == []


def test_many_come_in_bounded_parts_and_nothing_is_changed(ground: ConfirmedClaimsRedis) -> None:
    names = event_keys("many", MANY)
    ground.confirm([ClaimKey.for_event(name, CONTENT) for name in names], [])
    before = set(ground.redis.scan_iter())
    parts = ground.found("live", 0)
    assert max(map(len, parts)) <= KEYS_AT_ONCE
    assert {one for part in parts for one in part} == set(map(hash_key, names))
    assert set(ground.redis.scan_iter()) == before
