"""Deliveries and their copies while Redis fails over: the receiver's protocol on real servers, the engine behind it.

Kafka is the file that the engine reads. Redis promises nothing: what it forgot is published again, what it can't be
asked is published as deferred, and the journal decides each event once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from core.clock import SystemClock
from core.event import Headers
from ingest.claims import RedisGate
from ingest.generations import RedisGenerations
from ingest.limits import LIMITS
from ingest.metrics import IngestMetrics
from ingest.protocol import ClaimProtocol
from ingest.redis_claims import RedisClaims
from load.bench.receiver import announce_generation
from tests.integration.processor.stored import FileKafka, Stored, event_of
from tests.redis_sites import RedisSite
from tests.unit.ingest.app_under_test import ListPublisher
from tests.unit.processor.harness import NOW

TIMEOUT_S = 0.05
"""`ingest.redis_timeout_ms` as it is unless it is set."""
SENDERS = 4
PAUSE_S = 0.03
BATCH_MAX = 1_000
COPY_AFTER = 40
"""An event's copy comes so many events later."""
AGAIN_S_MAX = 60.0
CLAIMED, DEFERRED, DUPLICATE = "claimed", "deferred", "duplicate"


class FilePublisher(ListPublisher):
    """Publishes to the file that the engine reads."""

    def __init__(self, kafka: FileKafka) -> None:
        super().__init__()
        self._kafka = kafka

    async def publish(self, topic: str, key: bytes, value: bytes, headers: Headers) -> bool:
        self._kafka.append(value, headers)
        return True


@dataclass
class Storm:
    """What a receiver answers; every answer is a 2xx, for its Kafka takes everything.

    ``answers``: when each was given, the event's id, and what was said of it.
    """

    site: RedisSite
    stored: Stored
    answers: list[tuple[float, str, str]] = field(default_factory=list)
    _number: int = 0

    def run(self, disturb: Callable[[Storm], Awaitable[None]]) -> None:
        """Sends until ``disturb`` has returned, then each event once more."""
        asyncio.run(self._run(disturb))

    async def _run(self, disturb: Callable[[Storm], Awaitable[None]]) -> None:
        with self.site.primary_client() as client:
            announce_generation(client)
        async with self.site.open(TIMEOUT_S) as client:
            gate = RedisGate(TIMEOUT_S, LIMITS.redis_failures_max, LIMITS.redis_reset_s)
            claims = RedisClaims(client, gate, LIMITS.lease_s, LIMITS.confirmed_s)
            generations = RedisGenerations(client, ("live",), SystemClock(), 4, tuple)
            publisher = FilePublisher(self.stored.kafka)
            protocol = ClaimProtocol(claims, generations, publisher, IngestMetrics(), SystemClock(), 1.0)
            await generations.read()
            follows = asyncio.create_task(generations.follow())
            senders = [asyncio.create_task(self._send(protocol)) for _ in range(SENDERS)]
            try:
                await disturb(self)
            finally:
                for task in (follows, *senders):
                    task.cancel()
                await asyncio.gather(*senders, return_exceptions=True)
            for event_id in sorted({event_id for _, event_id, _ in self.answers}):
                await self._deliver(protocol, event_id)
            await claims.await_settlements()

    async def _send(self, protocol: ClaimProtocol) -> None:
        while True:
            number, self._number = self._number, self._number + 1
            await self._deliver(protocol, f"e{number}")
            if number >= COPY_AFTER:
                await self._deliver(protocol, f"e{number - COPY_AFTER}")
            await asyncio.sleep(PAUSE_S)

    async def _deliver(self, protocol: ClaimProtocol, event_id: str) -> None:
        taken = await protocol.take_events([event_of(event_id)], NOW, None)
        if not taken.is_in_flight:
            self.answers.append((time.monotonic(), event_id, taken.claims[0].outcome))

    async def goes_on(self, count: int = 100) -> None:
        """Returns after so many more answers."""
        there = len(self.answers) + count
        async with asyncio.timeout(AGAIN_S_MAX):
            while len(self.answers) < there:  # noqa: ASYNC110 - of several senders
                await asyncio.sleep(0.01)

    async def claims_again(self, since: float) -> float:
        """The seconds from ``since`` until an event was claimed after one was deferred."""
        async with asyncio.timeout(AGAIN_S_MAX):
            while True:
                later = [(at, outcome) for at, _, outcome in self.answers if at >= since]
                deferred = next((at for at, outcome in later if outcome == DEFERRED), None)
                if deferred is not None:
                    again = next((at for at, outcome in later if at > deferred and outcome == CLAIMED), None)
                    if again is not None:
                        return again - since
                await asyncio.sleep(0.01)

    def decided_once(self) -> Counter[str]:
        """The engine decides what was published: each event that was answered once. Returns what was answered."""
        self.stored.kafka.batch_max = BATCH_MAX
        self.stored.decide_all()
        self.stored.check()
        decisions = self.stored.decisions()
        assert set(decisions) == {event_id for _, event_id, _ in self.answers}
        assert all(found[0] == "applied" and set(found[1:]) <= {DUPLICATE} for found in decisions.values())
        return Counter(outcome for *_, outcome in self.answers)

    def with_copies(self) -> set[str]:
        """Events whose copies the journal recognised."""
        return {event_id for event_id, found in self.stored.decisions().items() if len(found) > 1}
