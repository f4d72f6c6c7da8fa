"""The claim protocol on Redis: a Lua script a step, pipelined, with concurrent requests sharing a pipeline.

Works on Redis 6.2 and later, and on a cluster: each script touches one key. A value is ``p`` + owner (16 bytes) +
content (8) + the lease's end (13 digits, milliseconds of Redis's own clock) while pending, ``d`` + content (8) when
done.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from ingest.claims import PENDING_KEPT_S, ClaimKey, ClaimState, ClaimsUnavailable
from ingest.gate import RedisGate

PIPELINES_MAX = 2
"""At once; while so many are under way the next one fills up, so that load makes pipelines longer, not more."""

_STATES = {state.value.encode(): state for state in ClaimState}

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


_Command: TypeAlias = tuple[str, bytes, tuple[Any, ...]]
"""Script, key, arguments."""


@dataclass(slots=True)
class _Step:
    """One request's step, waiting for its place in a pipeline."""

    commands: list[_Command]
    answers: asyncio.Future[list[bytes]]


class RedisClaims:
    """`Claims` on a Redis client that was opened by the caller; every pipeline passes the gate as a whole."""

    def __init__(self, redis: Redis, gate: RedisGate, lease_s: float, confirmed_s: float) -> None:
        self._redis = redis
        self._gate = gate
        self._lease_ms = int(lease_s * 1000)
        self._confirmed_ms = int(confirmed_s * 1000)
        self._waiting: list[_Step] = []
        self._running: set[asyncio.Task[None]] = set()
        self._hashes: dict[str, str] = {}

    async def claim(self, keys: Sequence[ClaimKey], owner: bytes) -> list[ClaimState]:
        kept_ms = self._lease_ms + PENDING_KEPT_S * 1000
        answers = await self._ask([(CLAIM, key.key16, (owner, key.content8, self._lease_ms, kept_ms)) for key in keys])
        return [_STATES[answer] for answer in answers]

    async def confirm(self, keys: Sequence[ClaimKey], owner: bytes) -> None:
        await self._ask([(CONFIRM, key.key16, (owner, key.content8, self._confirmed_ms)) for key in keys])

    async def release(self, keys: Sequence[ClaimKey], owner: bytes) -> None:
        await self._ask([(RELEASE, key.key16, (owner,)) for key in keys])

    async def _ask(self, commands: list[_Command]) -> list[bytes]:
        """Joins the pipeline that leaves at the end of this turn of the event loop, or when one comes back."""
        if not commands:
            return []
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._leave)
        step = _Step(commands, loop.create_future())
        self._waiting.append(step)
        return await step.answers

    def _leave(self) -> None:
        if not self._waiting or len(self._running) >= PIPELINES_MAX:
            return
        steps, self._waiting = self._waiting, []
        task = asyncio.get_running_loop().create_task(self._run(steps))
        self._running.add(task)
        task.add_done_callback(self._returned)

    def _returned(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._leave()

    async def _run(self, steps: list[_Step]) -> None:
        commands = [command for step in steps for command in step.commands]
        try:
            answers = iter(await self._gate.through(lambda: self._pipeline(commands)))
        except Exception as failed:
            for step in steps:
                if not step.answers.done():
                    # One of its own for each: an exception that is raised in many places gathers all their traces.
                    own = ClaimsUnavailable(failed.problem) if isinstance(failed, ClaimsUnavailable) else failed
                    step.answers.set_exception(own)
            return
        for step in steps:
            told = list(itertools.islice(answers, len(step.commands)))
            if not step.answers.done():
                step.answers.set_result(told)

    async def _pipeline(self, commands: Sequence[_Command]) -> list[bytes]:
        """
        :raises RedisError: one of them failed; others may have been done
        """
        if not self._hashes:
            await self._load()
        answers = await self._send(commands)
        if any(isinstance(answer, NoScriptError) for answer in answers):
            await self._load()
            answers = await self._send(commands)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    async def _send(self, commands: Sequence[_Command]) -> list[Any]:
        pipeline = self._redis.pipeline(transaction=False)
        for script, key, arguments in commands:
            pipeline.evalsha(self._hashes[script], 1, key, *arguments)
        return list(await pipeline.execute(raise_on_error=False))

    async def _load(self) -> None:
        for script in (CLAIM, CONFIRM, RELEASE):
            loaded = await self._redis.script_load(script)
            self._hashes[script] = loaded.decode() if isinstance(loaded, bytes) else loaded
