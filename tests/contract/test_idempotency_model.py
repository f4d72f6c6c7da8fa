"""Any history of requests, dead runners and a lost store: an answer stays, and nothing runs twice unknowingly."""

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
from ingest.claims import ClaimState, RedisGate
from ingest.idempotency.store import AnswerStore, KeptAnswer, KeyClaim, RedisAnswers, RequestKey
from tests.examples import examples
from tests.memory_answers import MemoryAnswers

LEASE_S = 60.0
KEPT_S = 86_400.0
GATE = RedisGate(timeout_s=5.0)
BODIES = st.sampled_from([b"refund 5", b"refund 7"])
PROBE = bytes(16)
"""An owner that claims nothing in the model: it asks only where the answer can't be a claim."""


@dataclass
class ApplicationRun:
    """One run of the application, as far as it has come."""

    key: RequestKey
    owner: bytes
    acted: bool = False


@dataclass
class KnownAnswer:
    """What a store that makes no mistake would know of the key."""

    key: RequestKey
    owner: bytes | None
    lease_until: float
    kept_until: float
    answer: KeptAnswer | None = None


class Requests(RuleBasedStateMachine):
    """Requests with one key, and two bodies, from clients that repeat themselves."""

    store_class: Any
    runners: Bundle[ApplicationRun] = Bundle("runners")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
        self.runner = asyncio.Runner()
        self.time = patch("time.time", lambda: self.clock.now().timestamp())
        self.time.start()
        self.store: AnswerStore
        if self.store_class is MemoryAnswers:
            self.store = MemoryAnswers(self.clock, LEASE_S, KEPT_S)
        else:
            self.redis = fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer())
            self.store = RedisAnswers(self.redis, GATE, LEASE_S)
        self.owners = itertools.count(1)
        self.known: KnownAnswer | None = None
        self.acted: list[ApplicationRun] = []
        self.undisturbed = True

    def teardown(self) -> None:
        self.runner.close()
        self.time.stop()

    @rule(target=runners, body=BODIES)
    def request(self, body: bytes) -> ApplicationRun:
        runner = ApplicationRun(RequestKey.for_request("ann", "k", body), next(self.owners).to_bytes(16, "big"))
        claimed = self.runner.run(self.store.claim(runner.key, runner.owner))
        assert claimed == self.expected(runner.key)
        if claimed.state in (ClaimState.CLAIMED, ClaimState.RECLAIMED):
            if claimed.state is ClaimState.CLAIMED and self.undisturbed:
                assert all(one.key != runner.key for one in self.acted), "it acted before, unknown to the runner"
            self.pend(runner, LEASE_S)
        else:
            runner.acted = True
        return runner

    @rule(runner=runners)
    def act(self, runner: ApplicationRun) -> None:
        """The application does its work; a request that was refused or answered has nothing to do."""
        if not runner.acted:
            runner.acted = True
            self.acted.append(runner)

    @rule(runner=runners)
    def renew(self, runner: ApplicationRun) -> None:
        renewed = self.runner.run(self.store.renew(runner.key, runner.owner))
        assert renewed == self.owns(runner)
        if renewed:
            self.pend(runner, LEASE_S)

    @rule(runner=consumes(runners), size=st.sampled_from([0, 5, None]))
    def confirm(self, runner: ApplicationRun, size: int | None) -> None:
        if runner not in self.acted:
            return
        answer = KeptAnswer(
            201, ((b"location", runner.owner.hex().encode()),), None if size is None else b"x" * size, 5
        )
        confirmed = self.runner.run(self.store.confirm(runner.key, runner.owner, answer))
        assert confirmed == (self.live() is None or self.owns(runner))
        if confirmed:
            until = self.clock.monotonic_s() + KEPT_S
            self.known = KnownAnswer(runner.key, None, until, until, answer)

    @rule(runner=consumes(runners))
    def lapse(self, runner: ApplicationRun) -> None:
        """The application answered 5xx, or raised."""
        owned = self.owns(runner)
        self.runner.run(self.store.end_lease(runner.key, runner.owner))
        if owned:
            self.pend(runner, 0.0)

    @rule(runner=consumes(runners))
    def release(self, runner: ApplicationRun) -> None:
        """Only a run that did nothing, and that no other one came before, gives the key back."""
        if any(one.key == runner.key for one in self.acted):
            return
        owned = self.owns(runner)
        self.runner.run(self.store.release(runner.key, runner.owner))
        if owned:
            self.known = None

    @rule(runner=consumes(runners))
    def dies(self, runner: ApplicationRun) -> None:
        """Wherever it was."""

    @rule(seconds=st.sampled_from([1.0, LEASE_S + 1.0, 0.6 * KEPT_S]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        if seconds > LEASE_S + 1.0:
            self.undisturbed = False

    @rule()
    def store_loses_everything(self) -> None:
        self.undisturbed = False
        self.known = None
        if isinstance(self.store, MemoryAnswers):
            self.store.forget_all()
        else:
            self.runner.run(self.flush())

    @invariant()
    def an_answer_stays_what_it_was(self) -> None:
        known = self.live()
        if known is not None and known.answer is not None:
            found = self.runner.run(self.store.claim(known.key, PROBE))
            assert found == KeyClaim(ClaimState.DUPLICATE, known.answer)

    async def flush(self) -> None:
        await self.redis.flushall()

    def expected(self, key: RequestKey) -> KeyClaim:
        known = self.live()
        if known is None:
            return KeyClaim(ClaimState.CLAIMED)
        if known.key != key:
            return KeyClaim(ClaimState.CONFLICT)
        if known.owner is None:
            return KeyClaim(ClaimState.DUPLICATE, known.answer)
        alive = known.lease_until > self.clock.monotonic_s()
        return KeyClaim(ClaimState.IN_FLIGHT if alive else ClaimState.RECLAIMED)

    def owns(self, runner: ApplicationRun) -> bool:
        known = self.live()
        return known is not None and known.owner == runner.owner

    def pend(self, runner: ApplicationRun, lease_s: float) -> None:
        until = self.clock.monotonic_s() + lease_s
        self.known = KnownAnswer(runner.key, runner.owner, until, until + KEPT_S)

    def live(self) -> KnownAnswer | None:
        if self.known is not None and self.known.kept_until <= self.clock.monotonic_s():
            self.known = None
        return self.known


@pytest.mark.hypothesis
@pytest.mark.parametrize("store_class", [MemoryAnswers, RedisAnswers])
def test_whatever_happens_a_store_answers_as_the_model_does(store_class: Any) -> None:
    class RequestsOfStore(Requests):
        pass

    RequestsOfStore.store_class = store_class
    run_state_machine_as_test(RequestsOfStore, settings=settings(max_examples=examples(150), stateful_step_count=20))
