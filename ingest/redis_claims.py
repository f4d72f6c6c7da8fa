"""The claim protocol on Redis: a Lua script a step, with concurrent requests sharing a pipeline and its scripts.

Works on Redis 6.2 and later; on a cluster too, with pipelines to each master and one key a script. A value is ``p`` +
owner (16 bytes) + content (8) + the lease's end (13 digits, milliseconds of Redis's own clock) while pending, ``d`` +
content (8) when done.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeAlias, cast

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import PipelineCommand
from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, NoScriptError, SlotNotCoveredError

from core.event import Mode
from core.generation import claim_prefix
from core.redis import FAILURES, AsyncClient, Client, Script
from ingest.claims import HASH_BYTES, PENDING_KEPT_S, ClaimKey, ClaimState, ClaimsUnavailable, RedisGate

log = logging.getLogger(__name__)

REFRESH_S = 1.0
"""Between two looks at who has which slot, while a master fails."""

Command = Sequence[bytes | str | int]


class Masters:
    """Knows which master has a key, and sends pipelines to each.

    :param changed: called with the names of all masters when the slots were asked for again
    """

    def __init__(self, cluster: RedisCluster, changed: Callable[[Collection[str]], None]) -> None:
        self._cluster = cluster
        self._changed = changed
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def has_slots(self) -> bool:
        return bool(self._cluster.nodes_manager.slots_cache)

    def find_master(self, key: bytes) -> str:
        nodes = self._cluster.nodes_manager.slots_cache.get(key_slot(key))
        return nodes[0].name if nodes else ""

    async def refresh(self) -> None:
        """Asks a node that answers who has which slot.

        :raises RedisClusterException: none answers
        """
        await (self._cluster.nodes_manager.initialize() if self.has_slots else self._cluster.initialize())
        self._changed({nodes[0].name for nodes in self._cluster.nodes_manager.slots_cache.values()})

    def refresh_soon(self) -> None:
        """Refreshes in a task of its own: no claim waits for it."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            await self.refresh()
        except FAILURES as failed:
            log.warning("the cluster can't be asked who has which slot: %s", failed)
        await asyncio.sleep(REFRESH_S)

    def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()

    async def send(self, name: str, commands: Sequence[Command]) -> list[Any]:
        """Sends a pipeline to one master; returns answers and errors in order. What moved meanwhile is sent after it.

        :raises RedisError, RedisClusterException, OSError: a master can't be reached
        """
        node = self._cluster.get_node(node_name=name) if name else None
        if node is None:
            raise SlotNotCoveredError(f"no master of the cluster has these slots: {name or 'none is named'}")
        sent = [PipelineCommand(number, *command) for number, command in enumerate(commands)]
        await node.execute_pipeline(sent)
        await self._follow(sent)
        return [command.result for command in sent]

    async def _follow(self, sent: Sequence[PipelineCommand]) -> None:
        moved: dict[tuple[str, int], list[PipelineCommand]] = {}
        for command in sent:
            if isinstance(command.result, AskError):
                to = moved.setdefault((command.result.host, command.result.port), [])
                if isinstance(command.result, MovedError):
                    await self._cluster.nodes_manager.move_slot(command.result)
                else:
                    # It holds for the next command of its connection: a slot is on its way there.
                    to.append(PipelineCommand(0, "ASKING"))
                to.append(command)
        for (host, port), commands in moved.items():
            node = self._cluster.get_node(host, port)
            if node is None:
                raise SlotNotCoveredError(f"slots moved to {host}:{port}, which isn't known yet")
            await node.execute_pipeline(commands)


PIPELINES_MAX = 2
"""At once to a server, on a connection each; meanwhile the next one fills up: load makes pipelines longer, not more."""
KEYS_A_SCRIPT = 128
"""Redis does nothing else while a script runs: so many keys are about half a millisecond."""
SETTLE_AGAIN_S = 0.5
"""Until settlements that Redis didn't take are sent again, which is done until their lease is over."""
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

CLAIM = Script("""
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
""")
"""ARGV: lease and how long a pending key is kept, in ms; then owner + content by key. Answers one letter a key.

A pipeline may be sent twice, so a claim that its own owner holds is claimed.
"""

CONFIRM = Script("""
for i, key in ipairs(KEYS) do
  local asked = ARGV[i + 1]
  local held = redis.call('GET', key)
  if not held or (held:byte(1) == 112 and held:sub(2, 17) == asked:sub(1, 16)) then
    redis.call('SET', key, 'd' .. asked:sub(17), 'PX', ARGV[1])
  end
end
return ''
""")
"""ARGV: how long a confirmed key is kept, in ms; then owner + content by key."""

RELEASE = Script("""
for i, key in ipairs(KEYS) do
  local held = redis.call('GET', key)
  if held and held:byte(1) == 112 and held:sub(2, 17) == ARGV[i]:sub(1, 16) then redis.call('DEL', key) end
end
return ''
""")
"""ARGV: owner + content by key."""

_SCRIPTS = (CONFIRM, RELEASE, CLAIM)
"""In this order within a pipeline: what is settled by then is known to its claims."""

_Kind: TypeAlias = Literal[0, 1, 2]
"""The place of a script in `_SCRIPTS`."""
_CONFIRM: _Kind = 0
_RELEASE: _Kind = 1
_CLAIM: _Kind = 2
_Call: TypeAlias = tuple[Script, list[bytes], list[Any]]
"""A script, its keys, its arguments."""


@dataclass(slots=True)
class _Step:
    """A request's step, waiting for its place in a pipeline. ``arguments``: owner + content, by key.

    ``answer`` is None for a settlement. ``until``: when it is of no use any more, on the loop's clock.
    """

    kind: _Kind
    keys: list[bytes]
    arguments: list[bytes]
    answer: asyncio.Future[bytes] | None = None
    until: float = math.inf


@dataclass(slots=True)
class _Server:
    name: str
    waiting: list[_Step] = field(default_factory=list)
    running: set[asyncio.Task[None]] = field(default_factory=set)


class RedisClaims:
    """`Claims` on a Redis client that was opened by the caller; every pipeline passes the gate as a whole.

    On a cluster each master has pipelines of its own, and the gate's breaker for it. A request whose keys are on
    several is answered by all of them, or not at all.

    :param settle_again_s: seconds until a settlement that Redis didn't take is sent again
    """

    def __init__(
        self,
        redis: AsyncClient,
        gate: RedisGate,
        lease_s: float,
        confirmed_s: float,
        settle_again_s: float = SETTLE_AGAIN_S,
    ) -> None:
        self._redis = redis
        self._gate = gate
        lease_ms = int(lease_s * 1000)
        kept_ms = lease_ms + PENDING_KEPT_S * 1000
        self._leading: tuple[tuple[int, ...], ...] = ((int(confirmed_s * 1000),), (), (lease_ms, kept_ms))
        self._masters: Masters | None = (
            Masters(redis, self._forget_servers) if isinstance(redis, RedisCluster) else None
        )
        self._keys_a_script = KEYS_A_SCRIPT if self._masters is None else 1
        self._lease_s = lease_s
        self._settle_again_s = settle_again_s
        self._unsettled: list[_Step] = []
        self._again: asyncio.TimerHandle | None = None
        self._servers: dict[str, _Server] = {}

    async def claim(self, keys: Sequence[ClaimKey], owner: bytes) -> list[ClaimState]:
        names, arguments = [key.name for key in keys], [owner + key.content8 for key in keys]
        if not keys:
            return []
        if self._masters is None:
            letters = await self._ask("", names, arguments)
        else:
            find_master = self._masters.find_master
            asked = (
                self._ask(find_master(name), [name], [argument])
                for name, argument in zip(names, arguments, strict=True)
            )
            letters = b"".join(await asyncio.gather(*asked))
        return [_STATES[letter] for letter in letters]

    def settle(self, published: Sequence[ClaimKey], given_up: Sequence[ClaimKey], owner: bytes) -> None:
        for kind, keys in ((_CONFIRM, published), (_RELEASE, given_up)):
            if keys:
                self._settle([_Step(kind, [key.name for key in keys], [owner + key.content8 for key in keys])])

    @property
    def unsettled_count(self) -> int:
        return len(self._unsettled)

    async def await_settlements(self) -> None:
        """Sends what waits once more, now, and waits for the answers."""
        if self._again is not None:
            self._again.cancel()
        last, self._unsettled = self._unsettled, []
        for step in last:
            step.until = 0.0
        self._settle(last)
        while busy := [server for server in self._servers.values() if server.waiting or server.running]:
            running = [task for server in busy for task in server.running]
            await (asyncio.wait(running) if running else asyncio.sleep(0))
        if self._masters is not None:
            self._masters.close()

    def _ask(self, server: str, names: list[bytes], arguments: list[bytes]) -> asyncio.Future[bytes]:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._add(server, [_Step(_CLAIM, names, arguments, answer)])
        return answer

    def _settle(self, steps: Sequence[_Step]) -> None:
        if self._masters is None:
            self._add("", steps)
            return
        for step in steps:
            for name, argument in zip(step.keys, step.arguments, strict=True):
                self._add(self._masters.find_master(name), [_Step(step.kind, [name], [argument], until=step.until)])

    def _add(self, name: str, steps: Sequence[_Step]) -> None:
        server = self._servers.get(name)
        if server is None:
            server = self._servers[name] = _Server(name)
        if not server.waiting:
            asyncio.get_running_loop().call_soon(self._start_pipeline, server)
        server.waiting.extend(steps)

    def _start_pipeline(self, server: _Server) -> None:
        if not server.waiting or len(server.running) >= PIPELINES_MAX:
            return
        steps, server.waiting = server.waiting, []
        task = asyncio.get_running_loop().create_task(self._run(server, steps))
        server.running.add(task)

    async def _run(self, server: _Server, steps: list[_Step]) -> None:
        kinds = [[step for step in steps if step.kind == kind] for kind in range(len(_SCRIPTS))]
        calls = [call for kind, asked in enumerate(kinds) for call in self._build_calls(kind, asked)]
        answers: list[bytes] | Exception
        try:
            if self._masters is not None and not server.name:
                steps = await self._route_steps(self._masters, steps)
                answers = ClaimsUnavailable("no master of the cluster has these slots")
            else:
                answers = await self._gate.run_step(lambda: self._run_pipeline(server.name, calls), server.name)
        except Exception as failed:
            answers = failed
        # The next one leaves before this one's requests continue: Redis works while they do.
        server.running.discard(cast(asyncio.Task[None], asyncio.current_task()))
        self._start_pipeline(server)
        if not isinstance(answers, Exception):
            _answer_steps([step for asked in kinds for step in asked], b"".join(answers))
            return
        if self._masters is not None and steps:
            self._masters.refresh_soon()
        self._keep_settlements([step for step in steps if step.answer is None])
        _fail_steps(steps, answers)

    async def _route_steps(self, masters: Masters, steps: list[_Step]) -> list[_Step]:
        if not masters.has_slots:
            await self._gate.run_step(masters.refresh)
        for step in steps:
            if name := masters.find_master(step.keys[0]):
                self._add(name, [step])
        return [step for step in steps if not masters.find_master(step.keys[0])]

    def _keep_settlements(self, settlements: Sequence[_Step]) -> None:
        """Keeps settlements that may not have arrived, to send them again.

        Sent twice they do no more than once, and nothing to another's claim.
        """
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
        self._settle(steps)
        self._send_again_later()

    def _build_calls(self, kind: int, steps: list[_Step]) -> Iterator[_Call]:
        keys = [key for step in steps for key in step.keys]
        arguments = [argument for step in steps for argument in step.arguments]
        for start in range(0, len(keys), self._keys_a_script):
            part = slice(start, start + self._keys_a_script)
            yield _SCRIPTS[kind], keys[part], [*self._leading[kind], *arguments[part]]

    async def _run_pipeline(self, server: str, calls: Sequence[_Call]) -> list[bytes]:
        answers = await self._send(server, [_build_command("EVALSHA", call[0].digest, call) for call in calls])
        if any(isinstance(answer, NoScriptError) for answer in answers):
            # All scripts at once: sent again after one was missing, a claim that was taken over finds itself.
            every: list[_Call] = [
                (script, [], list(leading)) for script, leading in zip(_SCRIPTS, self._leading, strict=True)
            ]
            taught = await self._send(server, [_build_command("EVAL", call[0].text, call) for call in [*every, *calls]])
            answers = taught[len(every) :]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    async def _send(self, server: str, commands: Sequence[Command]) -> list[Any]:
        if self._masters is not None:
            return await self._masters.send(server, commands)
        pipeline = self._redis.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        return list(await pipeline.execute(raise_on_error=False))

    def _forget_servers(self, masters: Collection[str]) -> None:
        self._gate.keep_servers(masters)
        kept = [
            server for server in self._servers.values() if server.name in masters or server.waiting or server.running
        ]
        self._servers = {server.name: server for server in kept}


def _build_command(name: str, script: str, call: _Call) -> Command:
    _, keys, arguments = call
    return (name, script, len(keys), *keys, *arguments)


def _answer_steps(steps: Sequence[_Step], letters: bytes) -> None:
    at = 0
    for step in steps:
        until = at + len(step.keys) if step.kind == _CLAIM else at
        if step.answer is not None and not step.answer.done():
            step.answer.set_result(letters[at:until])
        at = until


def _fail_steps(steps: Sequence[_Step], failed: Exception) -> None:
    for step in steps:
        if step.answer is not None and not step.answer.done():
            # One of its own for each: an exception that is raised in many places gathers all their traces.
            error = ClaimsUnavailable(failed.problem) if isinstance(failed, ClaimsUnavailable) else failed
            step.answer.set_exception(error)


KEYS_AT_ONCE = 1_000


def confirmed_hashes(client: Client, mode: Mode, generation: int) -> Iterator[list[bytes]]:
    """Yields the hashes (`core.keys.hash_key`, as in the index) of the event keys that a generation has confirmed.

    They come in lists of at most `KEYS_AT_ONCE`, without an order. One that is there all the while comes at least
    once, and may come again; one that comes or goes meanwhile may be missing. ``client``: opened with
    ``decode_responses`` off.

    :raises RedisError: Redis can't be asked
    """
    prefix = claim_prefix(mode, generation)
    names = client.scan_iter(match=prefix + b"?" * HASH_BYTES, count=KEYS_AT_ONCE)
    while part := list(islice(names, KEYS_AT_ONCE)):
        pipeline = client.pipeline(transaction=False)
        for name in part:
            pipeline.getrange(name, 0, 0)
        kinds = pipeline.execute()
        yield [name[len(prefix) :] for name, kind in zip(part, kinds, strict=True) if kind == b"d"]
