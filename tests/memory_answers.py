"""The claims' protocol with answers in a dictionary, for tests; `tests/contract/test_idempotency_store.py` holds it to
what Redis does.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.clock import Clock
from ingest.claims import ClaimState
from ingest.idempotency.store import DAY_S, LEASE_S, KeptAnswer, KeyClaim, RequestKey


@dataclass(slots=True)
class _HeldAnswer:
    fingerprint32: bytes
    owner: bytes | None
    answer: bytes
    lease_until: float
    kept_until: float


class MemoryAnswers:
    """Answers of one process; ``lease_s`` and ``kept_s`` as Redis is given them."""

    def __init__(self, clock: Clock, lease_s: float = LEASE_S, kept_s: float = DAY_S) -> None:
        self._clock = clock
        self._lease_s = lease_s
        self._kept_s = kept_s
        self._held: dict[bytes, _HeldAnswer] = {}

    @property
    def lease_s(self) -> float:
        return self._lease_s

    async def claim(self, key: RequestKey, owner: bytes) -> KeyClaim:
        held = self._get(key)
        if held is not None and held.fingerprint32 != key.fingerprint32:
            return KeyClaim(ClaimState.CONFLICT)
        if held is not None and held.owner is None:
            return KeyClaim(ClaimState.DUPLICATE, KeptAnswer.decode(held.answer))
        if held is not None and held.lease_until > self._clock.monotonic_s():
            return KeyClaim(ClaimState.IN_FLIGHT)
        self._pend(key, owner, self._lease_s)
        return KeyClaim(ClaimState.CLAIMED if held is None else ClaimState.RECLAIMED)

    async def renew(self, key: RequestKey, owner: bytes) -> bool:
        held = self._get(key)
        if held is None or held.owner != owner:
            return False
        self._pend(key, owner, self._lease_s)
        return True

    async def confirm(self, key: RequestKey, owner: bytes, answer: KeptAnswer) -> bool:
        held = self._get(key)
        if held is not None and held.owner != owner:
            return False
        until = self._clock.monotonic_s() + self._kept_s
        self._held[key.key32] = _HeldAnswer(key.fingerprint32, None, answer.encode(), until, until)
        return True

    async def end_lease(self, key: RequestKey, owner: bytes) -> None:
        held = self._get(key)
        if held is not None and held.owner == owner:
            self._pend(key, owner, 0.0)

    async def release(self, key: RequestKey, owner: bytes) -> None:
        held = self._get(key)
        if held is not None and held.owner == owner:
            del self._held[key.key32]

    def forget_all(self) -> None:
        """What an emptied Redis is like."""
        self._held.clear()

    def _pend(self, key: RequestKey, owner: bytes, lease_s: float) -> None:
        until = self._clock.monotonic_s() + lease_s
        self._held[key.key32] = _HeldAnswer(key.fingerprint32, owner, b"", until, until + self._kept_s)

    def _get(self, key: RequestKey) -> _HeldAnswer | None:
        held = self._held.get(key.key32)
        if held is not None and held.kept_until <= self._clock.monotonic_s():
            del self._held[key.key32]
            return None
        return held
