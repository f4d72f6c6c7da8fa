"""The claim protocol on Redis: a Lua script a step, pipelined, with concurrent requests sharing a pipeline.

Works on Redis 6.2 and later, and on a cluster: each script touches one key. A value is ``p`` + owner (16 bytes) +
content (8) + the lease's end (13 digits, milliseconds of Redis's own clock) while pending, ``d`` + content (8) when
done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from ingest.claims import PENDING_KEPT_S, ClaimKey, ClaimState

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

CLAIM = (
    _NOW
    + """
local held = redis.call('GET', KEYS[1])
if held and held:sub(1, 1) == 'd' then
  if held:sub(2) == ARGV[2] then return 'duplicate' end
  return 'conflict'
end
if held and tonumber(held:sub(26)) > now then return 'in_flight' end
local value = 'p' .. ARGV[1] .. ARGV[2] .. string.format('%013d', now + ARGV[3])
redis.call('SET', KEYS[1], value, 'PX', ARGV[4])
if held then return 'reclaimed' end
return 'claimed'
"""
)

CONFIRM = """
local held = redis.call('GET', KEYS[1])
if not held or (held:sub(1, 1) == 'p' and held:sub(2, 17) == ARGV[1]) then
  redis.call('SET', KEYS[1], 'd' .. ARGV[2], 'PX', ARGV[3])
end
return 'ok'
"""

RELEASE = """
local held = redis.call('GET', KEYS[1])
if held and held:sub(1, 1) == 'p' and held:sub(2, 17) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 'ok'
"""


@dataclass(slots=True)
class _Call:
    script: str
    key: bytes
    arguments: tuple[Any, ...]
    answer: asyncio.Future[bytes]


class RedisClaims:
    """`Claims` on a Redis client that was opened by the caller with its own time-outs."""

    def __init__(self, redis: Redis, lease_s: float, confirmed_s: float) -> None:
        self._redis = redis
        self._lease_ms = int(lease_s * 1000)
        self._confirmed_ms = int(confirmed_s * 1000)
        self._waiting: list[_Call] = []
        self._flushes: set[asyncio.Task[None]] = set()
        self._hashes: dict[str, str] = {}

    async def claim(self, keys: Sequence[ClaimKey], owner: bytes) -> list[ClaimState]:
        arguments = [(owner, key.content8, self._lease_ms, self._lease_ms + PENDING_KEPT_S * 1000) for key in keys]
        return [ClaimState(answer.decode()) for answer in await self._call(CLAIM, keys, arguments)]

    async def confirm(self, keys: Sequence[ClaimKey], owner: bytes) -> None:
        await self._call(CONFIRM, keys, [(owner, key.content8, self._confirmed_ms) for key in keys])

    async def release(self, keys: Sequence[ClaimKey], owner: bytes) -> None:
        await self._call(RELEASE, keys, [(owner,) for _ in keys])

    async def _call(self, script: str, keys: Sequence[ClaimKey], arguments: Sequence[tuple[Any, ...]]) -> list[bytes]:
        """Joins the pipeline that leaves at the end of this turn of the event loop."""
        if not keys:
            return []
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._flush)
        calls = [
            _Call(script, key.key16, values, loop.create_future()) for key, values in zip(keys, arguments, strict=True)
        ]
        self._waiting += calls
        return list(await asyncio.gather(*(call.answer for call in calls)))

    def _flush(self) -> None:
        calls, self._waiting = self._waiting, []
        task = asyncio.get_running_loop().create_task(self._run(calls))
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _run(self, calls: list[_Call]) -> None:
        try:
            answers = await self._pipeline(calls)
            if any(isinstance(answer, NoScriptError) for answer in answers):
                await self._load()
                answers = await self._pipeline(calls)
        except Exception as failed:
            answers = [failed] * len(calls)
        for call, answer in zip(calls, answers, strict=True):
            if call.answer.done():
                continue
            if isinstance(answer, BaseException):
                call.answer.set_exception(answer)
            else:
                call.answer.set_result(answer)

    async def _pipeline(self, calls: Sequence[_Call]) -> list[Any]:
        if not self._hashes:
            await self._load()
        pipeline = self._redis.pipeline(transaction=False)
        for call in calls:
            pipeline.evalsha(self._hashes[call.script], 1, call.key, *call.arguments)
        return list(await pipeline.execute(raise_on_error=False))

    async def _load(self) -> None:
        for script in (CLAIM, CONFIRM, RELEASE):
            loaded = await self._redis.script_load(script)
            self._hashes[script] = loaded.decode() if isinstance(loaded, bytes) else loaded
