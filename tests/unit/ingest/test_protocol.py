"""Claim → publish → confirm, where requests meet each other and where Redis only half answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from core.clock import ManualClock
from core.event import Dedupe, Event
from ingest.claims import ClaimKey, ClaimState, ClaimsUnavailable
from ingest.metrics import IngestMetrics
from ingest.protocol import ClaimProtocol, ClaimResult
from tests import virtual_time
from tests.events import make_event
from tests.memory_claims import MemoryClaims
from tests.unit.ingest.app_under_test import ListPublisher, SetGenerations

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
OTHER_OWNER = b"o" * 16
CONTENT, OTHER_CONTENT = "11" * 32, "22" * 32


def event(event_id: str, content: str = CONTENT, entity: str = "stripe:acct:pi_1") -> Event:
    return make_event(event_id, content_sha256=content, entity_key=entity)


def key(one: Event) -> ClaimKey:
    return ClaimKey.for_event(one.event_key, one.content_sha256)


class ReceiverOfSharedClaims:
    """A receiver's protocol over claims that every receiver shares."""

    def __init__(self, claims: MemoryClaims | None = None, wait_s: float = 0.15) -> None:
        self.clock = ManualClock(NOW)
        self.claims = claims or MemoryClaims(self.clock, 30.0, 1e6)
        self.generations = SetGenerations()
        self.publisher = ListPublisher()
        clock = virtual_time.LoopClock()
        self.protocol = ClaimProtocol(self.claims, self.generations, self.publisher, IngestMetrics(), clock, wait_s)

    async def take(self, *events: Event) -> ClaimResult:
        return await self.protocol.take_events(events, NOW, None)

    async def state(self, one: Event) -> ClaimState:
        """What another receiver would be answered; asked with an owner who leaves no trace behind."""
        [state] = await self.claims.claim([key(one)], OTHER_OWNER)
        self.claims.settle([], [key(one)], OTHER_OWNER)
        return state


def outcomes(taken: ClaimResult) -> list[str]:
    return [claim.outcome for claim in taken.claims]


def test_one_key_with_two_contents_in_a_request_publishes_both_the_second_as_a_conflict() -> None:
    ground = ReceiverOfSharedClaims()
    first, second = event("evt_1"), event("evt_1", OTHER_CONTENT)
    taken = virtual_time.run(ground.take(first, second, first, second))
    assert outcomes(taken) == ["claimed", "conflict"]
    assert ground.publisher.flags == ["claimed", "conflict"]
    assert virtual_time.run(ground.state(first)) is ClaimState.DUPLICATE


def test_a_second_content_waits_with_its_first_and_is_not_published_before_it() -> None:
    ground = ReceiverOfSharedClaims()
    first, second = event("evt_1"), event("evt_1", OTHER_CONTENT)

    async def meet() -> ClaimResult:
        await ground.claims.claim([key(first)], OTHER_OWNER)
        return await ground.take(first, second)

    taken = virtual_time.run(meet())
    assert (taken.is_in_flight, outcomes(taken)) == (True, ["in_flight", "in_flight"])
    assert ground.publisher.records == []


def test_two_requests_with_the_same_events_in_opposite_order_both_end_well() -> None:
    """Neither holds what the other waits for: what a request has claimed, it settles before it waits."""
    ground = ReceiverOfSharedClaims(wait_s=1.0)
    one, two = event("evt_1"), event("evt_2")

    class Interleaved(MemoryClaims):
        """Each request's first claim gets one key only, as when two scripts interleave."""

        async def claim(self, keys: Sequence[ClaimKey], owner: bytes) -> list[ClaimState]:
            said = []
            for asked in keys:
                said += await super().claim([asked], owner)
                await asyncio.sleep(0.01)
            return said

    ground = ReceiverOfSharedClaims(Interleaved(ground.clock, 30.0, 1e6), wait_s=1.0)

    async def both() -> list[ClaimResult]:
        return list(await asyncio.gather(ground.take(one, two), ground.take(two, one)))

    for taken in virtual_time.run(both()):
        assert (taken.has_failed, taken.is_in_flight) == (False, False)
    assert len(ground.publisher.records) == 2


Meanwhile = Callable[[ReceiverOfSharedClaims, ClaimKey], object]
MEANWHILE: dict[str, tuple[Meanwhile, str, str]] = {
    "another content was confirmed": (
        lambda it, key: it.claims.settle([key], [], OTHER_OWNER),
        OTHER_CONTENT,
        "conflict",
    ),
    "it was released": (lambda it, key: it.claims.settle([], [key], OTHER_OWNER), CONTENT, "claimed"),
    "its lease ended": (lambda it, _: it.clock.advance(31), CONTENT, "reclaimed"),
    "the generation rose": (lambda it, _: it.generations.by_mode.update({"live": 1}), CONTENT, "claimed"),
}
"""What becomes of a key that is claimed while a request with this content waits for it, and what it is told then."""


@pytest.mark.parametrize(("meanwhile", "content", "outcome"), MEANWHILE.values(), ids=MEANWHILE)
def test_a_request_that_waited_asks_again_with_its_own_content(
    meanwhile: Meanwhile, content: str, outcome: str
) -> None:
    ground = ReceiverOfSharedClaims(wait_s=5.0)

    async def meet() -> ClaimResult:
        await ground.claims.claim([key(event("evt_1"))], OTHER_OWNER)
        taking = asyncio.create_task(ground.take(event("evt_1", content)))
        await asyncio.sleep(0.02)
        meanwhile(ground, key(event("evt_1")))
        return await taking

    assert outcomes(virtual_time.run(meet())) == [outcome]
    assert ground.publisher.flags == [outcome]


class LateClaims(MemoryClaims):
    """A Redis that does as asked and answers the claim too late."""

    async def claim(self, keys: Sequence[ClaimKey], owner: bytes) -> list[ClaimState]:
        said = await super().claim(keys, owner)
        if owner != OTHER_OWNER:
            raise ClaimsUnavailable("late")
        return said


@pytest.mark.parametrize(("acknowledged", "left"), [(True, ClaimState.DUPLICATE), (False, ClaimState.CLAIMED)])
def test_a_claim_that_was_made_but_not_heard_is_settled_with_its_deferred_event(
    acknowledged: bool, left: ClaimState
) -> None:
    one = event("evt_1")
    ground = ReceiverOfSharedClaims(LateClaims(ManualClock(NOW), 30.0, 1e6))
    if not acknowledged:
        ground.publisher.fails.add(one.entity_key.encode())
    taken = virtual_time.run(ground.take(one))
    assert (taken.has_failed, taken.claims[0].flag) == (not acknowledged, Dedupe.DEFERRED)
    assert virtual_time.run(ground.state(one)) is left


def test_a_deferred_copy_beside_a_claimed_one_leaves_the_claim_to_its_owner() -> None:
    theirs, ours = event("evt_1"), event("evt_1", OTHER_CONTENT)
    ground = ReceiverOfSharedClaims(LateClaims(ManualClock(NOW), 30.0, 1e6))

    async def meet() -> ClaimResult:
        await ground.claims.claim([key(theirs)], OTHER_OWNER)
        taken = await ground.take(ours)
        ground.claims.settle([key(theirs)], [], OTHER_OWNER)
        return taken

    assert outcomes(virtual_time.run(meet())) == ["deferred"]
    assert virtual_time.run(ground.state(theirs)) is ClaimState.DUPLICATE
    assert virtual_time.run(ground.state(ours)) is ClaimState.CONFLICT


def test_of_a_batch_each_event_is_settled_by_what_kafka_said_of_it() -> None:
    ground = ReceiverOfSharedClaims()
    taken_one, lost, known = event("evt_1"), event("evt_2", entity="stripe:acct:pi_2"), event("evt_3")
    virtual_time.run(ground.take(known))
    ground.publisher.fails.add(b"stripe:acct:pi_2")
    taken = virtual_time.run(ground.take(taken_one, lost, known))
    assert (taken.has_failed, outcomes(taken)) == (True, ["claimed", "not_published", "duplicate"])
    assert virtual_time.run(ground.state(taken_one)) is ClaimState.DUPLICATE
    assert virtual_time.run(ground.state(lost)) is ClaimState.CLAIMED


def test_a_conflict_settles_nothing_the_known_content_stays() -> None:
    ground = ReceiverOfSharedClaims()
    known = event("evt_1")
    other = replace(known, content_sha256=OTHER_CONTENT)

    async def twice() -> None:
        await ground.take(known)
        await ground.take(other)
        await ground.take(other)

    virtual_time.run(twice())
    assert ground.publisher.flags == ["claimed", "conflict", "conflict"]
    assert virtual_time.run(ground.state(known)) is ClaimState.DUPLICATE


def test_in_a_higher_generation_what_was_published_before_is_claimed_again() -> None:
    ground = ReceiverOfSharedClaims()
    one = event("evt_1")

    async def history() -> list[list[str]]:
        said = [outcomes(await ground.take(one)), outcomes(await ground.take(one))]
        ground.generations.by_mode["live"] = 1
        return [*said, outcomes(await ground.take(one)), outcomes(await ground.take(one))]

    assert virtual_time.run(history()) == [["claimed"], ["duplicate"], ["claimed"], ["duplicate"]]
    assert ground.publisher.flags == ["claimed", "claimed"]


def test_without_a_generation_events_go_on_deferred_and_leave_no_claim() -> None:
    ground = ReceiverOfSharedClaims()
    one = event("evt_1")
    ground.generations.by_mode["live"] = None

    async def history() -> ClaimState:
        assert outcomes(await ground.take(one)) == ["deferred"]
        assert outcomes(await ground.take(one)) == ["deferred"]
        return await ground.state(one)

    assert virtual_time.run(history()) is ClaimState.CLAIMED
    assert ground.publisher.flags == ["deferred", "deferred"]


def test_each_mode_has_a_generation_of_its_own() -> None:
    ground = ReceiverOfSharedClaims()
    ground.generations.by_mode = {"live": None, "test": 2}
    live, test = event("evt_1"), replace(event("evt_2"), mode="test")
    assert outcomes(virtual_time.run(ground.take(live, test))) == ["deferred", "claimed"]


def test_what_was_claimed_is_confirmed_in_the_generation_that_it_was_claimed_in() -> None:
    """It may have been published to the Kafka whose loss raised the generation."""
    ground = ReceiverOfSharedClaims()
    one = event("evt_1")

    async def raised_meanwhile() -> tuple[ClaimResult, ClaimResult]:
        ground.publisher.gate = asyncio.Event()
        taking = asyncio.create_task(ground.take(one))
        await asyncio.sleep(0.02)
        ground.generations.by_mode["live"] = 1
        ground.publisher.gate.set()
        return await taking, await ground.take(one)

    before, after = virtual_time.run(raised_meanwhile())
    assert (outcomes(before), outcomes(after)) == (["claimed"], ["claimed"])
