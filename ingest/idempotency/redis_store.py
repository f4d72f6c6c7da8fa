"""`AnswerStore` on Redis: a Lua script a step, each on one key, so that it works on a cluster (Redis 6.2 and later).

A value is ``p`` + owner (16 bytes) + fingerprint (32) + the lease's end (13 digits, milliseconds of Redis's own clock)
while pending, ``d`` + fingerprint (32) + the encoded answer when done. A pending key is kept as long as an answer is:
who takes it over must know what it stood for.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ingest.claims import ClaimState
from ingest.gate import RedisGate
from ingest.idempotency.store import DAY_S, LEASE_S, Claimed, KeptAnswer, RequestKey

PREFIX = b"idempotency:"
"""Webhooks' claims are 16 bytes without a prefix: they can share a database."""

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

_IS_OWNER = """
local held = redis.call('GET', KEYS[1])
local is_owner = held and held:sub(1, 1) == 'p' and held:sub(2, 17) == ARGV[1]
"""

CLAIM = (
    _NOW
    + """
local held = redis.call('GET', KEYS[1])
if held then
  local done = held:sub(1, 1) == 'd'
  local at = done and 2 or 18
  if held:sub(at, at + 31) ~= ARGV[2] then return {'conflict'} end
  if done then return {'duplicate', held:sub(34)} end
  if tonumber(held:sub(50)) > now then return {'in_flight'} end
end
redis.call('SET', KEYS[1], 'p' .. ARGV[1] .. ARGV[2] .. string.format('%013d', now + ARGV[3]), 'PX', ARGV[3] + ARGV[4])
if held then return {'reclaimed'} end
return {'claimed'}
"""
)

RENEW = (
    _NOW
    + _IS_OWNER
    + """
if not is_owner then return 0 end
redis.call('SET', KEYS[1], held:sub(1, 49) .. string.format('%013d', now + ARGV[2]), 'PX', ARGV[2] + ARGV[3])
return 1
"""
)

CONFIRM = (
    _IS_OWNER
    + """
if held and not is_owner then return 0 end
redis.call('SET', KEYS[1], 'd' .. ARGV[2] .. ARGV[3], 'PX', ARGV[4])
return 1
"""
)

RELEASE = (
    _IS_OWNER
    + """
if is_owner then redis.call('DEL', KEYS[1]) end
return 1
"""
)


class RedisAnswers:
    """`AnswerStore` on a Redis client that was opened by the caller (``decode_responses`` off), behind its gate."""

    def __init__(self, redis: Redis, gate: RedisGate, lease_s: float = LEASE_S, kept_s: float = DAY_S) -> None:
        self._gate = gate
        self._lease_s = lease_s
        self._lease_ms = int(lease_s * 1000)
        self._kept_ms = int(kept_s * 1000)
        self._claim = redis.register_script(CLAIM)
        self._renew = redis.register_script(RENEW)
        self._confirm = redis.register_script(CONFIRM)
        self._release = redis.register_script(RELEASE)

    @property
    def lease_s(self) -> float:
        return self._lease_s

    async def claim(self, key: RequestKey, owner: bytes) -> Claimed:
        state, *answer = await self._ask(self._claim, key, owner, key.fingerprint32, self._lease_ms, self._kept_ms)
        return Claimed(ClaimState(state.decode()), KeptAnswer.decode(answer[0]) if answer else None)

    async def renew(self, key: RequestKey, owner: bytes) -> bool:
        return bool(await self._ask(self._renew, key, owner, self._lease_ms, self._kept_ms))

    async def confirm(self, key: RequestKey, owner: bytes, answer: KeptAnswer) -> bool:
        told = await self._ask(self._confirm, key, owner, key.fingerprint32, answer.encode(), self._kept_ms)
        return bool(told)

    async def lapse(self, key: RequestKey, owner: bytes) -> None:
        await self._ask(self._renew, key, owner, 0, self._kept_ms)

    async def release(self, key: RequestKey, owner: bytes) -> None:
        await self._ask(self._release, key, owner)

    async def _ask(self, script: Any, key: RequestKey, *arguments: bytes | int) -> Any:
        """
        :raises ClaimsUnavailable: what it did on Redis isn't known
        """
        return await self._gate.through(lambda: script(keys=[PREFIX + key.key32], args=list(arguments)))
