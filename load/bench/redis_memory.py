"""What a confirmed key costs in Redis."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pybreaker
from redis.asyncio import Redis
from rich.console import Console
from rich.progress import Progress

from ingest.claims import OWNER_BYTES, ClaimKey, ClaimState, RedisGate
from ingest.redis_claims import RedisClaims
from stack.redis import ADMIN, redis_server, redis_url
from stack.server import running

KEYS = 1_000_000
KEYS_A_STEP = 2_000
LEASE_S = 30.0
CONFIRMED_S = 8 * 86_400.0
PATIENCE_S = 30.0
REDIS_SECONDS = 60.0


def measure_redis(folder: Path, console: Console) -> dict[str, float]:
    """``used_memory`` that a million keys add, claimed and confirmed as the receiver does it."""
    with running(redis_server(folder / "redis", folder / "redis.log")), Progress(console=console) as progress:
        return {"redis.bytes_per_key": asyncio.run(_bytes_per_key(redis_url(folder / "redis", ADMIN), progress))}


async def _bytes_per_key(url: str, progress: Progress) -> float:
    task = progress.add_task("a million keys", total=KEYS)
    async with Redis.from_url(url) as redis:
        gate = RedisGate(pybreaker.CircuitBreaker(), PATIENCE_S)
        claims = RedisClaims(redis, gate, LEASE_S, CONFIRMED_S)
        await _take(claims, ["first"])
        before = int((await redis.info("memory"))["used_memory"])
        for numbers in _steps():
            await _take(claims, [f"stripe:evt_{number:024d}:charge.succeeded" for number in numbers])
            progress.advance(task, len(numbers))
        grown = int((await redis.info("memory"))["used_memory"]) - before
        held = int(await redis.dbsize()) - 1
    assert held == KEYS, f"{held} keys are there, {KEYS} were confirmed"
    return grown / KEYS


def _steps() -> list[range]:
    return [range(start, start + KEYS_A_STEP) for start in range(0, KEYS, KEYS_A_STEP)]


async def _take(claims: RedisClaims, names: list[str]) -> None:
    keys = [ClaimKey.of(name, "ab" * 32) for name in names]
    owner = b"o" * OWNER_BYTES
    assert set(await claims.claim(keys, owner)) == {ClaimState.CLAIMED}
    claims.settle(keys, [], owner)
    await claims.settled()
