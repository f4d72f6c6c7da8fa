"""Claims behind a circuit breaker: a Redis that is down, slow or full costs its promise of speed, nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import pybreaker
from redis.exceptions import RedisError

from ingest.claims import ClaimKey, Claims, ClaimState

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class GuardedClaims:
    """Answers None (or False) where Redis can't be asked within ``timeout_s``: the caller defers to the journal."""

    def __init__(self, claims: Claims, breaker: pybreaker.CircuitBreaker, timeout_s: float) -> None:
        self._claims = claims
        self._breaker = breaker
        self._timeout_s = timeout_s
        self.failures = 0
        breaker.add_listener(_StateLog())

    @property
    def refusing(self) -> bool:
        """Whether Redis isn't even asked for now."""
        return bool(self._breaker.current_state == pybreaker.STATE_OPEN)

    async def claim(self, keys: Sequence[ClaimKey], owner: bytes) -> list[ClaimState] | None:
        return await self._guard(self._claims.claim(keys, owner))

    async def confirm(self, keys: Sequence[ClaimKey], owner: bytes) -> bool:
        """Whether it is done; a key left pending is taken over after its lease, and the journal tells copies apart."""
        return await self._guard(_done(self._claims.confirm(keys, owner))) is not None

    async def release(self, keys: Sequence[ClaimKey], owner: bytes) -> bool:
        return await self._guard(_done(self._claims.release(keys, owner))) is not None

    async def _guard(self, step: Awaitable[Result]) -> Result | None:
        try:
            with self._breaker.calling():
                async with asyncio.timeout(self._timeout_s):
                    return await step
        except pybreaker.CircuitBreakerError:
            if asyncio.iscoroutine(step):
                step.close()
        except (TimeoutError, RedisError, OSError) as failed:
            log.warning("Redis can't be asked: %s %s", type(failed).__name__, failed)
        self.failures += 1
        return None


class _StateLog(pybreaker.CircuitBreakerListener):
    """Says when Redis is given up, and when it is back."""

    def state_change(self, _breaker: Any, _old: Any, new: Any) -> None:
        level = logging.INFO if new.name == pybreaker.STATE_CLOSED else logging.WARNING
        log.log(level, "the breaker to Redis is %s", new.name)


async def _done(step: Awaitable[None]) -> bool:
    await step
    return True
