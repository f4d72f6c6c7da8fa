"""Any history of two receivers, lost leases and a lost Redis: a claim never says more than Kafka holds."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import fakeredis
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from core.clock import ManualClock
from ingest.claims import CONTENT_BYTES, PENDING_KEPT_S, ClaimKey, Claims, ClaimState, RedisGate
from ingest.redis_claims import RedisClaims
from tests.examples import examples
from tests.memory_claims import MemoryClaims

LEASE_S = 30.0
CONFIRMED_S = 691_200.0
EVENT_KEY = "stripe:evt_1:charge.succeeded"
CONTENT, OTHER = "11" * 32, "22" * 32
GATE = RedisGate(timeout_s=5.0)
CONTENTS = st.sampled_from([CONTENT, OTHER])
PUBLISHED = (ClaimState.CLAIMED, ClaimState.RECLAIMED, ClaimState.CONFLICT)
START = datetime(2026, 1, 31, tzinfo=UTC)


@dataclass
class ClaimRequest:
    """One delivery at one of the receivers, as far as it has come."""

    content: str
    owner: bytes
    state: ClaimState | None = None
    acknowledged: bool = False


@dataclass
class Key:
    """What a store that forgets nothing by mistake would know."""

    content: str
    owner: bytes | None
    until: float


class MemoryStore:
    """`MemoryClaims`, with its own clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.claims = MemoryClaims(clock, LEASE_S, CONFIRMED_S)

    async def forget(self) -> None:
        self.claims.forget_all()

    async def held(self, key: ClaimKey) -> tuple[bytes | None, bytes] | None:
        held = self.claims._get(key.name)
        return None if held is None else (held.owner, held.content8)


class RedisStore:
    """`RedisClaims` on fakeredis, which takes its time from ``time.time``."""

    def __init__(self, _clock: ManualClock) -> None:
        self._client = fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer())
        self.claims = RedisClaims(self._client, GATE, LEASE_S, CONFIRMED_S)

    async def forget(self) -> None:
        await self._client.flushall()

    async def held(self, key: ClaimKey) -> tuple[bytes | None, bytes] | None:
        held: Any = await self._client.get(key.name)
        if held is None:
            return None
        return (None, held[1:]) if held[:1] == b"d" else (held[1:17], held[17:25])


class ClaimHistory(RuleBasedStateMachine):
    """Steps of deliveries of one event key, in any order; ``kafka`` holds the contents that were acknowledged."""

    store_class: Any
    requests: Bundle[ClaimRequest] = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(START)
        self.runner = asyncio.Runner()
        self.time = patch("time.time", lambda: self.clock.now().timestamp())
        self.time.start()
        self.store = self.store_class(self.clock)
        self.claims: Claims = self.store.claims
        self.owners = itertools.count()
        self.kafka: list[str] = []
        self.key: Key | None = None
        self.undisturbed = True
        self.taken = 0

    def teardown(self) -> None:
        self.runner.close()
        self.time.stop()

    @rule(target=requests, content=CONTENTS)
    def arrive(self, content: str) -> ClaimRequest:
        request = ClaimRequest(content, next(self.owners).to_bytes(16, "big"))
        self.ask(request)
        return request

    @rule(target=requests, content=CONTENTS)
    def arrive_while_redis_is_away(self, content: str) -> ClaimRequest:
        """It is published as deferred, and settles with a Redis that is back by then."""
        self.undisturbed = False
        return ClaimRequest(content, next(self.owners).to_bytes(16, "big"))

    @rule(target=requests, request=consumes(requests))
    def ask_again(self, request: ClaimRequest) -> ClaimRequest:
        """Only a request that was answered `in_flight` does."""
        if request.state is ClaimState.IN_FLIGHT:
            self.ask(request)
        return request

    @rule(request=requests)
    def kafka_acknowledges(self, request: ClaimRequest) -> None:
        if not request.acknowledged and (request.state is None or request.state in PUBLISHED):
            request.acknowledged = True
            self.kafka.append(request.content)
            self.taken += request.state is ClaimState.CLAIMED

    async def settled(self, published: list[ClaimKey], given_up: list[ClaimKey], owner: bytes) -> None:
        self.claims.settle(published, given_up, owner)
        await self.claims.await_settlements()

    @rule(request=consumes(requests))
    def settle(self, request: ClaimRequest) -> None:
        """Confirm or release, as the receiver does; a conflict and a duplicate have nothing to settle."""
        if request.state not in (None, ClaimState.CLAIMED, ClaimState.RECLAIMED):
            return
        keys = [ClaimKey.for_event(EVENT_KEY, request.content)]
        if request.acknowledged:
            self.runner.run(self.settled(keys, [], request.owner))
            if (key := self.live_key()) is None or key.owner == request.owner:
                self.key = Key(request.content, None, self.clock.monotonic_s() + CONFIRMED_S)
        else:
            self.runner.run(self.settled([], keys, request.owner))
            if self.key is not None and self.key.owner == request.owner:
                self.key = None

    @rule(request=consumes(requests))
    def receiver_dies(self, request: ClaimRequest) -> None:
        """Wherever it was: before Kafka, or after it and before the confirmation."""

    @rule(seconds=st.sampled_from([1.0, LEASE_S + 1.0, 0.6 * CONFIRMED_S]))
    def time_passes(self, seconds: float) -> None:
        self.undisturbed = self.undisturbed and seconds < LEASE_S
        self.clock.advance(seconds)

    @rule()
    def redis_loses_everything(self) -> None:
        self.undisturbed = False
        self.runner.run(self.store.forget())
        self.key = None

    @invariant()
    def a_confirmed_key_is_in_kafka(self) -> None:
        if self.key is not None and self.key.owner is None:
            assert self.key.content in self.kafka

    @invariant()
    def the_store_holds_what_the_model_does(self) -> None:
        key = self.live_key()
        held = self.runner.run(self.store.held(ClaimKey.for_event(EVENT_KEY, CONTENT)))
        assert held == (key and (key.owner, bytes.fromhex(key.content)[:CONTENT_BYTES]))

    @invariant()
    def without_trouble_one_copy_is_published(self) -> None:
        assert self.taken <= 1 or not self.undisturbed

    def ask(self, request: ClaimRequest) -> None:
        [said] = self.runner.run(self.claims.claim([ClaimKey.for_event(EVENT_KEY, request.content)], request.owner))
        assert said == self.expected(request)
        request.state = said
        if said in (ClaimState.CLAIMED, ClaimState.RECLAIMED):
            self.key = Key(request.content, request.owner, self.clock.monotonic_s() + LEASE_S)
        if said is ClaimState.DUPLICATE:
            assert request.content in self.kafka, "a 200 for what nobody holds"
        if said is ClaimState.CONFLICT:
            assert any(content != request.content for content in self.kafka)

    def expected(self, request: ClaimRequest) -> ClaimState:
        key = self.live_key()
        if key is None:
            return ClaimState.CLAIMED
        if key.owner is None:
            return ClaimState.DUPLICATE if key.content == request.content else ClaimState.CONFLICT
        return ClaimState.IN_FLIGHT if key.until > self.clock.monotonic_s() else ClaimState.RECLAIMED

    def live_key(self) -> Key | None:
        """What Redis still has: a pending key stays for an hour past its lease."""
        if self.key is not None:
            kept_s = 0.0 if self.key.owner is None else PENDING_KEPT_S
            if self.key.until + kept_s <= self.clock.monotonic_s():
                self.key = None
        return self.key


@pytest.mark.hypothesis
@pytest.mark.parametrize("store_class", [MemoryStore, RedisStore])
def test_whatever_happens_a_claim_answers_as_the_model_does(store_class: Any) -> None:
    class ClaimHistoryOfStore(ClaimHistory):
        pass

    ClaimHistoryOfStore.store_class = store_class
    run_state_machine_as_test(
        ClaimHistoryOfStore, settings=settings(max_examples=examples(150), stateful_step_count=20)
    )
