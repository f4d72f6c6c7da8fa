"""Keeps idempotency keys: the claim protocol of webhooks, with an answer where a webhook has only "done".

The key's hash is claimed by one atomic operation; the owner runs the application and confirms with the answer.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from core.redis import AsyncClient, Script
from ingest.claims import ClaimState, RedisGate

DAY_S = 86_400.0
"""How long an answer is kept."""
LEASE_S = 60.0
"""An owner that lives renews it (`LEASE_S` / 3), so that this is only how long a dead one's key stays blocked."""
_HEAD = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class RequestKey:
    """A caller's key and the request that came with it, both as SHA-256 (32 bytes)."""

    key32: bytes
    fingerprint32: bytes

    @classmethod
    def for_request(cls, caller: str, key: str, *request: bytes) -> RequestKey:
        """Builds the key. ``request``: the parts that make a request the same one, in a fixed order."""
        scope = hashlib.sha256(caller.encode("utf-8", "surrogatepass")).digest()
        fingerprint = hashlib.sha256()
        for part in request:
            fingerprint.update(hashlib.sha256(part).digest())
        return cls(hashlib.sha256(scope + key.encode()).digest(), fingerprint.digest())

    @property
    def request_id(self) -> str:
        """Returns 32 hex digits, the same for every run of this request under this key, on any machine."""
        return hashlib.sha256(self.key32 + self.fingerprint32).hexdigest()[:32]


@dataclass(slots=True)
class IdempotentRun:
    """The run as the application finds it at ``scope["state"]["idempotency"]`` (``request.state.idempotency``).

    ``request_id`` is what makes the application's own work idempotent. ``repeated``: an earlier run of the same
    request may have done some of it already, because its owner died or the store couldn't be asked.
    """

    key: str
    request_id: str
    repeated: bool
    began: bool = True

    def nothing_began(self) -> None:
        """Says that the application refuses before it did anything: the answer isn't kept, the key stays free."""
        self.began = False


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer as it was given. ``body`` is None where it was too large to be kept; ``body_bytes`` is its length."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes | None
    body_bytes: int

    def encode(self) -> bytes:
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.headers]
        head = orjson.dumps([self.status, headers, self.body is not None, self.body_bytes])
        return _HEAD.pack(len(head)) + head + (self.body or b"")

    @classmethod
    def decode(cls, raw: bytes) -> KeptAnswer:
        (length,) = _HEAD.unpack_from(raw)
        at = _HEAD.size + length
        status, headers, kept, body_bytes = orjson.loads(raw[_HEAD.size : at])
        pairs = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in headers)
        return cls(status, pairs, raw[at:] if kept else None, body_bytes)


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """The result of a claim. ``answer`` comes with `ClaimState.DUPLICATE`, and only then.

    Unlike with webhooks, another fingerprint is a conflict while the first request is pending too, even when its owner
    is dead: an unconfirmed request may have done its work, and the key stands for that one.
    """

    state: ClaimState
    answer: KeptAnswer | None = None


class AnswerStore(Protocol):
    """The protocol's steps; ``owner``: 16 bytes of the run's own.

    Each raises `ClaimsUnavailable` where the store can't be asked in time; what it did then isn't known.
    """

    @property
    def lease_s(self) -> float: ...

    async def claim(self, key: RequestKey, owner: bytes) -> KeyClaim:
        """Decides atomically who runs."""

    async def renew(self, key: RequestKey, owner: bytes) -> bool:
        """Renews the lease of an owner that still works; False: it isn't the owner any more."""

    async def confirm(self, key: RequestKey, owner: bytes, answer: KeptAnswer) -> bool:
        """Keeps the answer; False: another run has taken the key over, and its answer counts."""

    async def end_lease(self, key: RequestKey, owner: bytes) -> None:
        """Ends the own lease now: the next copy of the same request reclaims the key, and knows of this run."""

    async def release(self, key: RequestKey, owner: bytes) -> None:
        """Gives the key back, as if it had never come; only if still the owner."""


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

CLAIM = Script(
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

RENEW = Script(
    _NOW
    + _IS_OWNER
    + """
if not is_owner then return 0 end
redis.call('SET', KEYS[1], held:sub(1, 49) .. string.format('%013d', now + ARGV[2]), 'PX', ARGV[2] + ARGV[3])
return 1
"""
)

CONFIRM = Script(
    _IS_OWNER
    + """
if held and not is_owner then return 0 end
redis.call('SET', KEYS[1], 'd' .. ARGV[2] .. ARGV[3], 'PX', ARGV[4])
return 1
"""
)

RELEASE = Script(
    _IS_OWNER
    + """
if is_owner then redis.call('DEL', KEYS[1]) end
return 1
"""
)


class RedisAnswers:
    def __init__(self, redis: AsyncClient, gate: RedisGate, lease_s: float = LEASE_S) -> None:
        self._gate = gate
        self.lease_s = lease_s
        self._lease_ms = int(lease_s * 1000)
        self._kept_ms = int(DAY_S * 1000)
        self._redis = redis

    async def claim(self, key: RequestKey, owner: bytes) -> KeyClaim:
        state, *answer = await self._ask(CLAIM, key, owner, key.fingerprint32, self._lease_ms, self._kept_ms)
        return KeyClaim(ClaimState(state.decode()), KeptAnswer.decode(answer[0]) if answer else None)

    async def renew(self, key: RequestKey, owner: bytes) -> bool:
        return bool(await self._ask(RENEW, key, owner, self._lease_ms, self._kept_ms))

    async def confirm(self, key: RequestKey, owner: bytes, answer: KeptAnswer) -> bool:
        return bool(await self._ask(CONFIRM, key, owner, key.fingerprint32, answer.encode(), self._kept_ms))

    async def end_lease(self, key: RequestKey, owner: bytes) -> None:
        await self._ask(RENEW, key, owner, 0, self._kept_ms)

    async def release(self, key: RequestKey, owner: bytes) -> None:
        await self._ask(RELEASE, key, owner)

    async def _ask(self, script: Script, key: RequestKey, *arguments: bytes | int) -> Any:
        return await self._gate.run_step(lambda: script.run(self._redis, PREFIX + key.key32, *arguments))
