"""The circuit breaker before Redis: down, slow or full, it costs its promise of speed and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pybreaker
from redis.exceptions import RedisError

from ingest.claims import ClaimsUnavailable

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class RedisGate:
    """Lets a round trip through while Redis answers within ``timeout_s``.

    The breaker's `calling` holds its lock only while the state is looked at and told; `call` would hold it all along.
    """

    def __init__(self, breaker: pybreaker.CircuitBreaker, timeout_s: float) -> None:
        self._breaker = breaker
        self._timeout_s = timeout_s
        self.tries = 0
        self.failures = 0
        breaker.add_listener(_StateLog())

    @property
    def refusing(self) -> bool:
        """Whether Redis isn't even asked for now."""
        return bool(self._breaker.current_state == pybreaker.STATE_OPEN)

    async def through(self, step: Callable[[], Awaitable[Result]]) -> Result:
        """
        :raises ClaimsUnavailable: it failed, was late, or wasn't tried; what it did on Redis isn't known
        """
        self.tries += 1
        try:
            with self._breaker.calling():
                async with asyncio.timeout(self._timeout_s):
                    return await step()
        except pybreaker.CircuitBreakerError as refused:
            problem = str(refused)
        except (TimeoutError, RedisError, OSError) as failed:
            problem = f"{type(failed).__name__} {failed}".strip()
            log.warning("Redis can't be asked: %s", problem)
        self.failures += 1
        raise ClaimsUnavailable(problem)


class _StateLog(pybreaker.CircuitBreakerListener):
    """Says when Redis is given up, and when it is back."""

    def state_change(self, _breaker: Any, _old: Any, new: Any) -> None:
        level = logging.INFO if new.name == pybreaker.STATE_CLOSED else logging.WARNING
        log.log(level, "the breaker to Redis is %s", new.name)
