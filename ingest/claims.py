"""The claim on an event key: one atomic decision a key, so that of many copies one is published.

Redis is the fast path, not the authority: what it forgets or can't answer, the journal decides. Here are the claim's
states and steps, and the circuit breaker before Redis.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

import pybreaker

from core.errors import PayhookError
from core.event import Mode
from core.generation import claim_name
from core.keys import hash_key
from core.redis import FAILURES

CONTENT_BYTES = 8
OWNER_BYTES = 16
PENDING_KEPT_S = 3_600
"""A pending key outlives its lease by far, so that the next owner knows that there was one before."""
HASH_BYTES = 16


class ClaimsUnavailable(PayhookError):
    """The store of claims can't be asked; whether anything was done there isn't known. The journal decides."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class ClaimState(StrEnum):
    """The state in which a claim found its key, and what the claimer does then."""

    CLAIMED = "claimed"
    """It was free, or the claimer's own already: publish."""
    RECLAIMED = "reclaimed"
    """Its owner's lease is over: publish, flagged."""
    IN_FLIGHT = "in_flight"
    """Another request publishes it now: wait, then ask again with this request's content."""
    DUPLICATE = "duplicate"
    """Published before with the same content: nothing to do."""
    CONFLICT = "conflict"
    """Published before with other content: publish, flagged; a person decides."""


@dataclass(frozen=True, slots=True)
class ClaimKey:
    """The name of an event key's claim, and the head of the content's hash that the claimer has for it.

    ``name``: `core.generation.claim_name` of the event key.
    """

    name: bytes
    content8: bytes

    @classmethod
    def for_event(cls, event_key: str, content_sha256: str, mode: Mode = "live", generation: int = 0) -> ClaimKey:
        """Names an event's claim. One key in two modes is two claims: each mode has a journal of its own.

        :param content_sha256: in hex
        """
        name = claim_name(event_key, mode, generation)
        return cls(name, bytes.fromhex(content_sha256[: 2 * CONTENT_BYTES]))

    @classmethod
    def for_delivery(cls, provider: str, delivery_id: str, body_sha256: str) -> ClaimKey:
        """Names the claim of a delivery whose id stands for one body; `confirmed_hashes` passes over it."""
        return cls(
            b"delivery:" + hash_key(f"{provider}:{delivery_id}"), bytes.fromhex(body_sha256[: 2 * CONTENT_BYTES])
        )


class Generations(Protocol):
    def find_generation(self, mode: Mode, entity_key: str) -> int | None:
        """Returns None where the generation isn't known, or the entity's processor is silent or refuses.

        Nothing of the entity is claimed then, and the journal decides.
        """

    def check(self, mode: Mode) -> None:
        """
        :raises RequestRefused: 503, what this receiver publishes would be decided out of order, or not at all: the
            processor has another number of partitions, or doesn't know the key that signs here
        """


class Claims(Protocol):
    """The protocol's two steps, each one round trip for all its keys. ``owner``: 16 bytes of the request's own."""

    async def claim(self, keys: Sequence[ClaimKey], owner: bytes) -> list[ClaimState]:
        """Decides each key atomically, in order.

        :raises ClaimsUnavailable: the store can't be asked in time
        """

    def settle(self, published: Sequence[ClaimKey], given_up: Sequence[ClaimKey], owner: bytes) -> None:
        """Marks keys as published, and gives back those that weren't: soon, tried until it worked or the lease is over.

        A key that another owner has taken over stays as it is. A claim that comes before it finds "in flight".
        """

    async def await_settlements(self) -> None:
        """Returns when all that was given to `settle` was sent or given up."""


log = logging.getLogger(__name__)

Result = TypeVar("Result")


class RedisGate:
    """Lets a round trip through while its server answers within ``timeout_s``; each master of a cluster has a breaker.

    The breaker's `calling` holds its lock only while the state is read and changed; `call` would hold it all along.

    :param failures_max: in a row; they open the breaker
    :param reset_s: until an open breaker lets one through again
    """

    def __init__(self, timeout_s: float, failures_max: int = 5, reset_s: float = 60.0) -> None:
        self._timeout_s = timeout_s
        self._failures_max = failures_max
        self._reset_s = reset_s
        self._breakers: dict[str, pybreaker.CircuitBreaker] = {}
        self.tries = 0
        self.failures = 0

    @property
    def is_refusing(self) -> bool:
        return any(breaker.current_state == pybreaker.STATE_OPEN for breaker in self._breakers.values())

    def keep_servers(self, servers: Collection[str]) -> None:
        self._breakers = {server: breaker for server, breaker in self._breakers.items() if server in servers}

    async def run_step(self, step: Callable[[], Awaitable[Result]], server: str = "") -> Result:
        """
        :param server: which one it asks, where there are several
        :raises ClaimsUnavailable: it failed, was late, or wasn't tried; what it did on Redis isn't known
        """
        self.tries += 1
        try:
            with self._breaker(server).calling():
                async with asyncio.timeout(self._timeout_s):
                    return await step()
        except pybreaker.CircuitBreakerError as refused:
            problem = str(refused)
        except (TimeoutError, *FAILURES) as failed:
            problem = describe_failure(failed)
            log.warning("Redis%s can't be asked: %s", f" at {server}" if server else "", problem)
        self.failures += 1
        raise ClaimsUnavailable(problem)

    def _breaker(self, server: str) -> pybreaker.CircuitBreaker:
        breaker = self._breakers.get(server)
        if breaker is None:
            breaker = pybreaker.CircuitBreaker(
                fail_max=self._failures_max,
                reset_timeout=self._reset_s,
                name=f"Redis at {server}" if server else "Redis",
                listeners=[BreakerLog()],
            )
            self._breakers[server] = breaker
        return breaker


def describe_failure(failed: BaseException) -> str:
    return f"{type(failed).__name__} {failed}".strip()


class BreakerLog(pybreaker.CircuitBreakerListener):
    def state_change(self, breaker: Any, _old: Any, new: Any) -> None:
        level = logging.INFO if new.name == pybreaker.STATE_CLOSED else logging.WARNING
        log.log(level, "the breaker to %s is %s", breaker.name, new.name)
