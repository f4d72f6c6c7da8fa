"""The claim protocol on Redis: a Lua script a step, with concurrent requests sharing a pipeline and its scripts.

Works on Redis 6.2 and later; on a cluster too, with one key a script. A value is ``p`` + owner (16 bytes) +
content (8) + the lease's end (13 digits, milliseconds of Redis's own clock) while pending, ``d`` + content (8) when
done.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias, cast

import redis
from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from core.event import Mode
from ingest.claims import HASH_BYTES, PENDING_KEPT_S, ClaimKey, ClaimState, ClaimsUnavailable, RedisGate, name_prefix

PIPELINES_MAX = 2
"""At once, on a connection each; meanwhile the next one fills up, so that load makes pipelines longer, not more."""
KEYS_A_SCRIPT = 128
"""Redis does nothing else while a script runs: so many keys are about half a millisecond."""
SETTLE_AGAIN_S = 0.5
"""Until settlements that Redis didn't take are sent again, which goes on until their lease is over."""
SETTLEMENTS_AGAIN = 1_000
"""In one go: they share a pipeline, and its time-out, with what came meanwhile."""
SETTLEMENTS_KEPT_MAX = 20_000
"""Waiting to be sent again, in one process; the lease ends the claims of further ones."""

_STATES = {
    ord("n"): ClaimState.CLAIMED,
    ord("r"): ClaimState.RECLAIMED,
    ord("f"): ClaimState.IN_FLIGHT,
    ord("d"): ClaimState.DUPLICATE,
    ord("c"): ClaimState.CONFLICT,
}

CLAIM = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local pending = string.format('%013d', now + ARGV[1])
local found = {}
for i, key in ipairs(KEYS) do
  local asked = ARGV[i + 2]
  local held = redis.call('GET', key)
  local others = held and held:sub(2, 17) ~= asked:sub(1, 16)
  if held and held:byte(1) == 100 then
    if held:sub(2) == asked:sub(17) then found[i] = 'd' else found[i] = 'c' end
  elseif others and tonumber(held:sub(26)) > now then
    found[i] = 'f'
  else
    redis.call('SET', key, 'p' .. asked .. pending, 'PX', ARGV[2])
    if others then found[i] = 'r' else found[i] = 'n' end
  end
end
return table.concat(found)
"""
"""ARGV: lease and how long a pending key is kept, in ms; then owner + content by key. Answers one letter a key.

A pipeline may be sent twice, so a claim that its own owner holds is claimed.
"""

CONFIRM = """
for i, key in ipairs(KEYS) do
  local asked = ARGV[i + 1]
  local held = redis.call('GET', key)
  if not held or (held:byte(1) == 112 and held:sub(2, 17) == asked:sub(1, 16)) then
    redis.call('SET', key, 'd' .. asked:sub(17), 'PX', ARGV[1])
  end
end
return ''
"""
"""ARGV: how long a confirmed key is kept, in ms; then owner + content by key."""

RELEASE = """
for i, key in ipairs(KEYS) do
  local held = redis.call('GET', key)
  if held and held:byte(1) == 112 and held:sub(2, 17) == ARGV[i]:sub(1, 16) then redis.call('DEL', key) end
end
return ''
"""
"""ARGV: owner + content by key."""

_SCRIPTS = (CONFIRM, RELEASE, CLAIM)
"""In this order within a pipeline: what is settled by then is known to its claims."""

_Kind: TypeAlias = Literal[0, 1, 2]
"""Which of `_SCRIPTS`."""
_CONFIRM: _Kind = 0
_RELEASE: _Kind = 1
_CLAIM: _Kind = 2
_Call: TypeAlias = tuple[int, list[bytes], list[Any]]
"""Which of `_SCRIPTS`, its keys, its arguments."""


@dataclass(slots=True)
class _Step:
    """One request's step, waiting for its place in a pipeline. ``arguments``: owner + content, by key.

    ``answer`` is None for a settlement. ``until``: when it is of no use any more, on the loop's clock.
    """

    kind: _Kind
    keys: list[bytes]
    arguments: list[bytes]
    answer: asyncio.Future[bytes] | None
    until: float = math.inf


class RedisClaims:
    """`Claims` on a Redis client that was opened by the caller; every pipeline passes the gate as a whole.

    :param keys_a_script: 1 on a cluster, where a script's keys must be on one node
    :param settle_again_s: seconds until a settlement that Redis didn't take is sent again
    """

    def __init__(
        self,
        redis: Redis,
        gate: RedisGate,
        lease_s: float,
        confirmed_s: float,
        keys_a_script: int = KEYS_A_SCRIPT,
        settle_again_s: float = SETTLE_AGAIN_S,
    ) -> None:
        self._redis = redis
        self._gate = gate
        lease_ms = int(lease_s * 1000)
        kept_ms = lease_ms + PENDING_KEPT_S * 1000
        self._leading: tuple[tuple[int, ...], ...] = ((int(confirmed_s * 1000),), (), (lease_ms, kept_ms))
        self._keys_a_script = keys_a_script
        self._lease_s = lease_s
        self._settle_again_s = settle_again_s
        self._unsettled: list[_Step] = []
        self._again: asyncio.TimerHandle | None = None
        self._waiting: list[_Step] = []
        self._running: set[asyncio.Task[None]] = set()
        self._hashes: list[str] = []

    async def claim(self, keys: Sequence[ClaimKey], owner: bytes) -> list[ClaimState]:
        if not keys:
            return []
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._join(_CLAIM, keys, owner, answer)
        return [_STATES[letter] for letter in await answer]

    def settle(self, published: Sequence[ClaimKey], given_up: Sequence[ClaimKey], owner: bytes) -> None:
        if published:
            self._join(_CONFIRM, published, owner, None)
        if given_up:
            self._join(_RELEASE, given_up, owner, None)

    @property
    def unsettled(self) -> int:
        """Settlements that Redis hasn't taken yet."""
        return len(self._unsettled)

    async def settled(self) -> None:
        """What waits is sent once more, now."""
        if self._again is not None:
            self._again.cancel()
        last, self._unsettled = self._unsettled, []
        for step in last:
            step.until = 0.0
        self._add(last)
        while self._waiting or self._running:
            await (asyncio.wait(self._running) if self._running else asyncio.sleep(0))

    def _join(self, kind: _Kind, keys: Sequence[ClaimKey], owner: bytes, answer: asyncio.Future[bytes] | None) -> None:
        names = [key.name for key in keys]
        self._add([_Step(kind, names, [owner + key.content8 for key in keys], answer)])

    def _add(self, steps: Sequence[_Step]) -> None:
        """They join the pipeline that leaves at the end of this turn of the event loop, or when one comes back."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._leave)
        self._waiting.extend(steps)

    def _leave(self) -> None:
        if not self._waiting or len(self._running) >= PIPELINES_MAX:
            return
        steps, self._waiting = self._waiting, []
        task = asyncio.get_running_loop().create_task(self._run(steps))
        self._running.add(task)

    async def _run(self, steps: list[_Step]) -> None:
        kinds = [[step for step in steps if step.kind == kind] for kind in range(len(_SCRIPTS))]
        calls = [call for kind, asked in enumerate(kinds) for call in self._calls(kind, asked)]
        answers: list[bytes] | Exception
        try:
            answers = await self._gate.through(lambda: self._pipeline(calls))
        except Exception as failed:
            answers = failed
        # The next one leaves before this one's requests go on: Redis works while they do.
        self._running.discard(cast(asyncio.Task[None], asyncio.current_task()))
        self._leave()
        if isinstance(answers, Exception):
            self._keep([step for step in steps if step.answer is None])
            _fail(steps, answers)
        else:
            _answer([step for asked in kinds for step in asked], b"".join(answers))

    def _keep(self, settlements: Sequence[_Step]) -> None:
        """Whether they arrived isn't known. Sent twice they do no more than once, and nothing to another's claim."""
        loop = asyncio.get_running_loop()
        for step in settlements:
            step.until = min(step.until, loop.time() + self._lease_s)
        self._unsettled += [step for step in settlements if loop.time() < step.until]
        del self._unsettled[SETTLEMENTS_KEPT_MAX:]
        self._send_again_later()

    def _send_again_later(self) -> None:
        if self._unsettled and self._again is None:
            self._again = asyncio.get_running_loop().call_later(self._settle_again_s, self._send_again)

    def _send_again(self) -> None:
        self._again = None
        steps, self._unsettled = self._unsettled[:SETTLEMENTS_AGAIN], self._unsettled[SETTLEMENTS_AGAIN:]
        self._add(steps)
        self._send_again_later()

    def _calls(self, kind: int, steps: list[_Step]) -> Iterator[_Call]:
        """As few scripts as may be for all steps of a kind, in their order."""
        keys = [key for step in steps for key in step.keys]
        arguments = [argument for step in steps for argument in step.arguments]
        for start in range(0, len(keys), self._keys_a_script):
            part = slice(start, start + self._keys_a_script)
            yield kind, keys[part], [*self._leading[kind], *arguments[part]]

    async def _pipeline(self, calls: Sequence[_Call]) -> list[bytes]:
        """
        :raises RedisError: one of them failed; others may have been done
        """
        if not self._hashes:
            await self._load()
        answers = await self._send(calls)
        if any(isinstance(answer, NoScriptError) for answer in answers):
            await self._load()
            answers = await self._send(calls)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    async def _send(self, calls: Sequence[_Call]) -> list[Any]:
        pipeline = self._redis.pipeline(transaction=False)
        for kind, keys, arguments in calls:
            pipeline.evalsha(self._hashes[kind], len(keys), *keys, *arguments)
        return list(await pipeline.execute(raise_on_error=False))

    async def _load(self) -> None:
        self._hashes = [_text(await self._redis.script_load(script)) for script in _SCRIPTS]


def _text(answer: bytes | str) -> str:
    return answer.decode() if isinstance(answer, bytes) else answer


def _answer(steps: Sequence[_Step], letters: bytes) -> None:
    """Each claim its letters; ``steps`` in the order of their scripts."""
    at = 0
    for step in steps:
        until = at + len(step.keys) if step.kind == _CLAIM else at
        if step.answer is not None and not step.answer.done():
            step.answer.set_result(letters[at:until])
        at = until


def _fail(steps: Sequence[_Step], failed: Exception) -> None:
    for step in steps:
        if step.answer is not None and not step.answer.done():
            # One of its own for each: an exception that is raised in many places gathers all their traces.
            own = ClaimsUnavailable(failed.problem) if isinstance(failed, ClaimsUnavailable) else failed
            step.answer.set_exception(own)


KEYS_AT_ONCE = 1_000


def confirmed_hashes(client: redis.Redis, mode: Mode, generation: int) -> Iterator[list[bytes]]:
    """The event keys that are confirmed in a generation, as `core.keys.hash16`: the index holds them by the same hash.

    Lists of at most `KEYS_AT_ONCE`, without an order. One that is there all the while comes at least once, and may come
    again; one that comes or goes meanwhile may be missing. ``client``: opened with ``decode_responses`` off.

    :raises RedisError: Redis can't be asked
    """
    prefix = name_prefix(mode, generation)
    names = client.scan_iter(match=prefix + b"?" * HASH_BYTES, count=KEYS_AT_ONCE)
    while part := list(islice(names, KEYS_AT_ONCE)):
        pipeline = client.pipeline(transaction=False)
        for name in part:
            pipeline.getrange(name, 0, 0)
        kinds = pipeline.execute()
        yield [name[len(prefix) :] for name, kind in zip(part, kinds, strict=True) if kind == b"d"]
