"""What a confirmed key costs in Redis."""

from __future__ import annotations

import asyncio

import pybreaker
from redis.asyncio import Redis

from ingest.claims import OWNER_BYTES, ClaimKey, ClaimState
from ingest.gate import RedisGate
from ingest.redis_claims import RedisClaims
from load.bench.figures import Done, Run
from stack.redis import ADMIN, redis_server, redis_url
from stack.server import running

KEYS, KEYS_SHORT = 1_000_000, 100_000
KEYS_A_STEP = 2_000
LEASE_S = 30.0
CONFIRMED_S = 8 * 86_400.0
PATIENCE_S = 30.0
REDIS_SECONDS, REDIS_SECONDS_SHORT = 60.0, 10.0


def measure_redis(run: Run) -> dict[str, float]:
    """``used_memory`` that a million keys add, claimed and confirmed as the receiver does it."""
    keys, folder = run.count(KEYS, KEYS_SHORT), run.folder / "redis"
    with running(redis_server(folder, run.folder / "redis.log")), run.progress(f"{keys:,} keys", keys) as done:
        return {"redis.bytes_per_key": asyncio.run(_bytes_per_key(redis_url(folder, ADMIN), keys, done))}


async def _bytes_per_key(url: str, keys: int, done: Done) -> float:
    async with Redis.from_url(url) as redis:
        gate = RedisGate(pybreaker.CircuitBreaker(), PATIENCE_S)
        claims = RedisClaims(redis, gate, LEASE_S, CONFIRMED_S)
        await _take(claims, ["first"])
        before = int((await redis.info("memory"))["used_memory"])
        for start in range(0, keys, KEYS_A_STEP):
            numbers = range(start, min(start + KEYS_A_STEP, keys))
            await _take(claims, [f"stripe:evt_{number:024d}:charge.succeeded" for number in numbers])
            done(numbers.stop)
        grown = int((await redis.info("memory"))["used_memory"]) - before
        held = int(await redis.dbsize()) - 1
    assert held == keys, f"{held} keys are there, {keys} were confirmed"
    return grown / keys


async def _take(claims: RedisClaims, names: list[str]) -> None:
    keys = [ClaimKey.of(name, "ab" * 32) for name in names]
    owner = b"o" * OWNER_BYTES
    assert set(await claims.claim(keys, owner)) == {ClaimState.CLAIMED}
    await claims.confirm(keys, owner)
