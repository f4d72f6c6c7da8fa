"""Claim → publish → confirm: from verified events to an answer that promises only what is durable."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.clock import Clock
from core.crash import crash_point
from core.event import Dedupe, Event, to_headers
from ingest.claims import OWNER_BYTES, ClaimKey, ClaimState
from ingest.guarded_claims import GuardedClaims
from ingest.metrics import IngestMetrics
from ingest.publisher import Publisher, publish_all

EVENTS_TOPIC = "payments.events"
ASK_AGAIN_S = 0.05

_FLAGS = {
    ClaimState.CLAIMED: Dedupe.CLAIMED,
    ClaimState.RECLAIMED: Dedupe.RECLAIMED,
    ClaimState.CONFLICT: Dedupe.CONFLICT,
}


@dataclass(slots=True)
class Taking:
    """One distinct event of a request and what became of it. ``flag`` is set where it must be published."""

    event: Event
    key: ClaimKey
    state: ClaimState | None = None
    flag: Dedupe | None = None
    published: bool = False

    @property
    def outcome(self) -> str:
        """The word for receipts and metrics."""
        if self.flag is not None:
            return self.flag.value if self.published else "not_published"
        return self.state.value if self.state is not None else "not_published"


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a request's events. ``in_flight``: another request has one of them still."""

    takings: list[Taking]

    @property
    def failed(self) -> bool:
        return any(taking.flag is not None and not taking.published for taking in self.takings)

    @property
    def in_flight(self) -> bool:
        return any(taking.state is ClaimState.IN_FLIGHT for taking in self.takings)

    @property
    def replayed(self) -> bool:
        return all(taking.state is ClaimState.DUPLICATE for taking in self.takings)


class Protocol:
    """Takes the events of one request; safe for any number of requests at once."""

    def __init__(
        self,
        claims: GuardedClaims,
        publisher: Publisher,
        metrics: IngestMetrics,
        clock: Clock,
        in_flight_wait_s: float,
        topic: str = EVENTS_TOPIC,
    ) -> None:
        self._claims = claims
        self._publisher = publisher
        self._metrics = metrics
        self._clock = clock
        self._in_flight_wait_s = in_flight_wait_s
        self._topic = topic

    async def take(self, events: Sequence[Event], received_at: datetime, traceparent: str | None) -> Taken:
        """Claims all, publishes what must be, confirms what Kafka acknowledged, releases the rest."""
        takings = distinct(events)
        owner = os.urandom(OWNER_BYTES)
        await self._claim(takings, owner)
        await self._wait_for_others(takings, owner)
        await self._publish(takings, received_at, traceparent)
        crash_point("ingest.between_publish_and_confirm")
        await self._settle(takings, owner)
        return Taken(takings)

    async def _claim(self, takings: Sequence[Taking], owner: bytes) -> None:
        """One round trip for all; an event that was claimed in this request with other content is a conflict."""
        asked = [taking for taking in takings if taking.state is None or taking.state is ClaimState.IN_FLIGHT]
        began = self._clock.monotonic()
        states = await self._claims.claim([taking.key for taking in asked], owner) if asked else []
        self._metrics.claim_seconds.observe(self._clock.monotonic() - began)
        for number, taking in enumerate(asked):
            if states is None:
                taking.state, taking.flag = None, Dedupe.DEFERRED
            else:
                taking.state, taking.flag = states[number], _FLAGS.get(states[number])

    async def _wait_for_others(self, takings: Sequence[Taking], owner: bytes) -> None:
        """While another request holds a key: asks again, with this request's own content."""
        until = self._clock.monotonic() + self._in_flight_wait_s
        while any(taking.state is ClaimState.IN_FLIGHT for taking in takings):
            left = until - self._clock.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(ASK_AGAIN_S, left))
            await self._claim([taking for taking in takings if taking.state is ClaimState.IN_FLIGHT], owner)

    async def _publish(self, takings: Sequence[Taking], received_at: datetime, traceparent: str | None) -> None:
        flagged = [(taking, taking.flag) for taking in takings if taking.flag is not None]
        records = [
            (
                taking.event.entity_key.encode(),
                taking.event.body,
                to_headers(taking.event, received_at, flag, traceparent),
            )
            for taking, flag in flagged
        ]
        for (taking, _), published in zip(
            flagged, await publish_all(self._publisher, self._topic, records), strict=True
        ):
            taking.published = published

    async def _settle(self, takings: Sequence[Taking], owner: bytes) -> None:
        own = [taking for taking in takings if taking.flag in (Dedupe.CLAIMED, Dedupe.RECLAIMED)]
        confirmed = [taking.key for taking in own if taking.published]
        released = [taking.key for taking in own if not taking.published]
        if confirmed:
            await self._claims.confirm(confirmed, owner)
        if released:
            await self._claims.release(released, owner)


def distinct(events: Sequence[Event]) -> list[Taking]:
    """One taking for copies of an event within a request; the same key with other content is flagged a conflict."""
    takings: dict[tuple[str, str], Taking] = {}
    contents: dict[str, str] = {}
    for event in events:
        same = (event.event_key, event.content_sha256)
        if same in takings:
            continue
        taking = takings[same] = Taking(event, ClaimKey(*same))
        if contents.setdefault(event.event_key, event.content_sha256) != event.content_sha256:
            taking.state, taking.flag = ClaimState.CONFLICT, Dedupe.CONFLICT
    return list(takings.values())
