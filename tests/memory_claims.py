"""The claims' protocol in a dictionary, for tests; `tests/contract/test_claims.py` holds it to what Redis does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.clock import Clock
from ingest.claims import PENDING_KEPT_S, ClaimKey, ClaimState


@dataclass(slots=True)
class _HeldClaim:
    content8: bytes
    owner: bytes | None
    lease_until: float
    kept_until: float


class MemoryClaims:
    """Claims of one process; ``lease_s`` and ``confirmed_s`` as Redis is given them."""

    def __init__(self, clock: Clock, lease_s: float, confirmed_s: float) -> None:
        self._clock = clock
        self._lease_s = lease_s
        self._confirmed_s = confirmed_s
        self._held: dict[bytes, _HeldClaim] = {}

    async def claim(self, keys: Sequence[ClaimKey], owner: bytes) -> list[ClaimState]:
        return [self._claim(key, owner) for key in keys]

    def settle(self, published: Sequence[ClaimKey], given_up: Sequence[ClaimKey], owner: bytes) -> None:
        for key in published:
            self._confirm(key, owner)
        for key in given_up:
            self._release(key, owner)

    async def await_settlements(self) -> None:
        return None

    def forget_all(self) -> None:
        """What an emptied Redis is like."""
        self._held.clear()

    def _claim(self, key: ClaimKey, owner: bytes) -> ClaimState:
        held = self._get(key.name)
        if held is not None and held.owner is None:
            return ClaimState.DUPLICATE if held.content8 == key.content8 else ClaimState.CONFLICT
        now = self._clock.monotonic_s()
        others = held if held is not None and held.owner != owner else None
        if others is not None and others.lease_until > now:
            return ClaimState.IN_FLIGHT
        until = now + self._lease_s
        self._held[key.name] = _HeldClaim(key.content8, owner, until, until + PENDING_KEPT_S)
        return ClaimState.CLAIMED if others is None else ClaimState.RECLAIMED

    def _confirm(self, key: ClaimKey, owner: bytes) -> None:
        held = self._get(key.name)
        if held is None or held.owner == owner:
            until = self._clock.monotonic_s() + self._confirmed_s
            self._held[key.name] = _HeldClaim(key.content8, None, until, until)

    def _release(self, key: ClaimKey, owner: bytes) -> None:
        held = self._get(key.name)
        if held is not None and held.owner == owner:
            del self._held[key.name]

    def _get(self, name: bytes) -> _HeldClaim | None:
        held = self._held.get(name)
        if held is not None and held.kept_until <= self._clock.monotonic_s():
            del self._held[name]
            return None
        return held
