"""Claim → publish → confirm: from verified events to an answer that promises only what is durable."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from core.card_numbers import without_card_numbers
from core.clock import Clock, Deadline
from core.crash import crash_point
from core.event import Dedupe, Event, to_headers
from core.routing import topics_of
from core.tracing import Tracing
from ingest.claims import OWNER_BYTES, ClaimKey, Claims, ClaimState, ClaimsUnavailable, Generations
from ingest.metrics import IngestMetrics
from ingest.publisher import Publisher

ASK_AGAIN_S = 0.05
PROCESS_BYTES = 10
"""Random bytes of an owner's name: they tell processes apart, and a number tells apart the requests of one."""

_FLAGS = {
    ClaimState.CLAIMED: Dedupe.CLAIMED,
    ClaimState.RECLAIMED: Dedupe.RECLAIMED,
    ClaimState.CONFLICT: Dedupe.CONFLICT,
}


@dataclass(slots=True)
class EventClaim:
    """The claim of one distinct event of a request, and what became of it. ``flag`` is set where it must be published.

    ``beside``: the request's first event of the same key, where this one has other content. ``key``: what it was last
    claimed by, in the generation of that moment; None where nothing was claimed.
    """

    event: Event
    beside: EventClaim | None = None
    key: ClaimKey | None = None
    state: ClaimState | None = None
    flag: Dedupe | None = None
    published: bool = False

    @property
    def outcome(self) -> str:
        if self.flag is not None:
            return self.flag.value if self.published else "not_published"
        return self.state.value if self.state is not None else "not_published"


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of a request's claims. ``is_in_flight``: another request still holds one of its events."""

    claims: list[EventClaim]

    @property
    def has_failed(self) -> bool:
        return any(claim.flag is not None and not claim.published for claim in self.claims)

    @property
    def is_in_flight(self) -> bool:
        return any(claim.state is ClaimState.IN_FLIGHT for claim in self.claims)

    @property
    def is_replayed(self) -> bool:
        return all(claim.state is ClaimState.DUPLICATE for claim in self.claims)


class ClaimProtocol:
    """Takes the events of one request; safe for any number of requests at once."""

    def __init__(
        self,
        claims: Claims,
        generations: Generations,
        publisher: Publisher,
        metrics: IngestMetrics,
        clock: Clock,
        in_flight_wait_s: float,
    ) -> None:
        self._claims = claims
        self._generations = generations
        self._publisher = publisher
        self._metrics = metrics
        self._clock = clock
        self._in_flight_wait_s = in_flight_wait_s
        self._process = os.urandom(PROCESS_BYTES)
        self._requests = itertools.count()

    async def take_events(self, events: Sequence[Event], received_at: datetime, traceparent: str | None) -> ClaimResult:
        """Claims all, publishes what must be, confirms what Kafka acknowledged, releases the rest.

        What another request holds is asked for again, with this request's own content, until the wait is over;
        what is claimed here is settled before that, so that two requests of the same events don't wait for each other.

        :raises RequestRefused: 503, the processor would decide them out of order, or not at all (`Generations.check`)
        """
        for mode in {event.mode for event in events}:
            self._generations.check(mode)
        claims = merge_copies(events)
        owner = self._make_owner()
        wait = Deadline(self._clock, self._in_flight_wait_s)
        open_claims = claims
        while True:
            await self._claim_events(open_claims, owner)
            await self._publish_events(open_claims, owner, received_at, traceparent)
            open_claims = [claim for claim in open_claims if claim.state is ClaimState.IN_FLIGHT]
            if not open_claims or wait.has_passed:
                return ClaimResult(claims)
            await asyncio.sleep(min(ASK_AGAIN_S, wait.remaining_s))

    async def is_first_body(self, provider: str, delivery_id: str, body_sha256: str) -> bool:
        """Returns whether a delivery came with no other body before, as far as Redis remembers: for eight days.

        True while Redis is down.
        """
        key = ClaimKey.for_delivery(provider, delivery_id, body_sha256)
        owner = self._make_owner()
        [state] = await self._claim_keys([key], owner)
        if state in (ClaimState.CLAIMED, ClaimState.RECLAIMED):
            self._claims.settle([key], [], owner)
        return state is not ClaimState.CONFLICT

    def _make_owner(self) -> bytes:
        return self._process + next(self._requests).to_bytes(OWNER_BYTES - PROCESS_BYTES)

    async def _claim_events(self, claims: Sequence[EventClaim], owner: bytes) -> None:
        """Claims all in one round trip; a key's second content within the request follows the answer to its first."""
        asked = [claim for claim in claims if claim.beside is None]
        for claim in asked:
            claim.key = self._make_key(claim.event)
        states = iter(await self._claim_keys([claim.key for claim in asked if claim.key is not None], owner))
        for claim in asked:
            claim.state = None if claim.key is None else next(states)
            claim.flag = Dedupe.DEFERRED if claim.state is None else _FLAGS.get(claim.state)
        for claim in claims:
            if claim.beside is not None:
                in_flight = claim.beside.state is ClaimState.IN_FLIGHT
                claim.state = ClaimState.IN_FLIGHT if in_flight else ClaimState.CONFLICT
                claim.flag = None if in_flight else Dedupe.CONFLICT

    def _make_key(self, event: Event) -> ClaimKey | None:
        generation = self._generations.find_generation(event.mode, event.entity_key)
        if generation is None:
            return None
        # By its content as it was sent, where that may be kept: that doesn't depend on what is masked.
        content = event.original_content_sha256 or event.content_sha256
        return ClaimKey.for_event(event.event_key, content, event.mode, generation)

    async def _claim_keys(self, keys: Sequence[ClaimKey], owner: bytes) -> list[ClaimState | None]:
        if not keys:
            return []
        began = self._clock.monotonic_s()
        try:
            return [*await self._claims.claim(keys, owner)]
        except ClaimsUnavailable:
            return [None] * len(keys)
        finally:
            self._metrics.claim_seconds.observe_seconds(self._clock.monotonic_s() - began)

    async def _publish_events(
        self, claims: Sequence[EventClaim], owner: bytes, received_at: datetime, traceparent: str | None
    ) -> None:
        flagged = [(claim, claim.flag) for claim in claims if claim.flag is not None]
        if not flagged:
            return
        records = [
            (
                topics_of(claim.event.mode).events,
                claim.event.entity_key.encode(),
                claim.event.body,
                to_headers(claim.event, received_at, flag, traceparent),
            )
            for claim, flag in flagged
        ]
        began = self._clock.monotonic_s()
        publishing = [self._publisher.publish(*record) for record in records]
        acknowledged = [await publishing[0]] if len(publishing) == 1 else await asyncio.gather(*publishing)
        self._metrics.publish_seconds.observe_seconds(self._clock.monotonic_s() - began)
        for (claim, _), published in zip(flagged, acknowledged, strict=True):
            claim.published = published
        crash_point("ingest.between_publish_and_confirm")
        self._confirm_events([claim for claim, _ in flagged], owner)

    def _confirm_events(self, claims: Sequence[EventClaim], owner: bytes) -> None:
        """Confirms what Kafka acknowledged, and gives back the rest; the answer doesn't wait for it.

        A deferred event is settled too: where the time-out hid a claim that was made, it ends here. What can't be
        settled within the lease is taken over after it, and the journal tells the copies apart.
        """
        published: list[ClaimKey] = []
        given_up: list[ClaimKey] = []
        for claim in claims:
            if claim.key is not None and claim.flag is not Dedupe.CONFLICT:
                (published if claim.published else given_up).append(claim.key)
        self._claims.settle(published, given_up, owner)


def merge_copies(events: Sequence[Event]) -> list[EventClaim]:
    """Makes one claim of all copies of an event within a request; other content of its key stands beside the first."""
    if len(events) == 1:
        return [EventClaim(events[0])]
    claims: dict[tuple[str, str], EventClaim] = {}
    firsts: dict[str, EventClaim] = {}
    for event in events:
        same = (event.event_key, event.content_sha256)
        if same not in claims:
            claim = claims[same] = EventClaim(event, firsts.get(event.event_key))
            firsts.setdefault(event.event_key, claim)
    return list(claims.values())


TakeEvents: TypeAlias = Callable[[Sequence[Event], datetime, str | None], Awaitable[ClaimResult]]
"""`ClaimProtocol.take_events`, traced or not."""


def add_tracing(take: TakeEvents, tracing: Tracing | None) -> TakeEvents:
    """Returns ``take`` within a span, which begins where the request was read; without ``tracing`` as it is."""
    if tracing is None:
        return take

    async def take_traced(events: Sequence[Event], received_at: datetime, traceparent: str | None) -> ClaimResult:
        span = tracing.receive(events[0].provider, traceparent, received_at)
        outcome = "failed"
        try:
            result = await take(events, received_at, span.traceparent)
            outcome = ",".join(sorted({claim.outcome for claim in result.claims}))
            return result
        finally:
            key = without_card_numbers(events[0].event_key)
            span.end({"payhook.event_key": key, "payhook.events": len(events), "payhook.outcome": outcome})

    return take_traced
