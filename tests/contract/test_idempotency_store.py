"""The claim protocol with kept answers, row by row: in memory, on fakeredis, and on a real Redis in each
of its forms."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol, TypeAlias, TypeVar
from unittest.mock import patch

import fakeredis
import pytest
import redis

from core.clock import ManualClock
from core.redis import AsyncClient, async_redis
from core.settings import RedisSettings
from ingest.claims import ClaimState, RedisGate
from ingest.idempotency.store import AnswerStore, KeptAnswer, KeyClaim, RedisAnswers, RequestKey
from tests.memory_answers import MemoryAnswers
from tests.redis_sites import FORMS, MORE_FORMS, RedisSite

LASTS_S, BRIEF_S = 60.0, 0.05
"""Leases and answers: those that a test outlives last briefly, the others outlive the test."""
RENEWED_S = 2.0
ANN, BOB = b"a" * 16, b"b" * 16
ASK_S = 5.0
OpenClient: TypeAlias = Callable[[], contextlib.AbstractAsyncContextManager[AsyncClient]]
ANSWER = KeptAnswer(201, ((b"content-type", b"text/plain"), (b"location", b"/a")), b"\x00\xffdone", 6)
TOO_LARGE = KeptAnswer(200, (), None, 10**9)
Result = TypeVar("Result")
_numbers = itertools.count()


class AnswersBackend(Protocol):
    """Where the suite runs: a store, and time that passes."""

    def run(
        self, use: Callable[[AnswerStore], Awaitable[Result]], lease_s: float = LASTS_S, kept_s: float = LASTS_S
    ) -> Result: ...
    def pass_time(self, seconds: float) -> None: ...
    def forget(self) -> None: ...


class MemoryAnswersBackend:
    def __init__(self) -> None:
        self._clock = ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
        self._store = MemoryAnswers(self._clock, LASTS_S, LASTS_S)

    def run(
        self, use: Callable[[AnswerStore], Awaitable[Result]], lease_s: float = LASTS_S, kept_s: float = LASTS_S
    ) -> Result:
        self._store._lease_s, self._store._kept_s = lease_s, kept_s

        async def inside() -> Result:
            return await use(self._store)

        return asyncio.run(inside())

    def pass_time(self, seconds: float) -> None:
        self._clock.advance(seconds)

    def forget(self) -> None:
        self._store.forget_all()


class RedisAnswersBackend:
    """``open_client`` is called in each run's event loop; time passes by itself."""

    def __init__(self, open_client: OpenClient, empty: Callable[[], object]) -> None:
        self._open_client = open_client
        self._empty = empty

    def run(
        self, use: Callable[[AnswerStore], Awaitable[Result]], lease_s: float = LASTS_S, kept_s: float = LASTS_S
    ) -> Result:
        async def inside() -> Result:
            async with self._open_client() as client:
                with patch("ingest.idempotency.store.DAY_S", kept_s):
                    store = RedisAnswers(client, RedisGate(timeout_s=60.0), lease_s)
                return await use(store)

        return asyncio.run(inside())

    def pass_time(self, seconds: float) -> None:
        asyncio.run(asyncio.sleep(seconds))

    def forget(self) -> None:
        self._empty()


@pytest.fixture(params=["memory", "fakeredis", "redis", *MORE_FORMS])
def ground(request: pytest.FixtureRequest) -> AnswersBackend:
    if request.param == "memory":
        return MemoryAnswersBackend()
    if request.param == "fakeredis":
        server = fakeredis.FakeServer()
        return RedisAnswersBackend(
            lambda: contextlib.aclosing(fakeredis.FakeAsyncRedis(server=server)),
            lambda: fakeredis.FakeRedis(server=server).flushall(),
        )
    if request.param in FORMS:
        site: RedisSite = request.getfixturevalue(request.param)
        return RedisAnswersBackend(site.open, lambda: site.on_masters(lambda client: client.flushall()))
    url = request.getfixturevalue("real_redis")
    settings = RedisSettings(url=url)
    return RedisAnswersBackend(
        lambda: async_redis(settings, ASK_S, ASK_S), lambda: redis.Redis.from_url(url).flushall()
    )


@pytest.fixture
def key() -> RequestKey:
    return RequestKey.for_request("ann", f"key-{next(_numbers)}", b"POST", b"/refunds", b"{}")


def other(key: RequestKey) -> RequestKey:
    """The same key with another request."""
    return RequestKey(key.key32, bytes(32))


def claim(ground: AnswersBackend, key: RequestKey, owner: bytes = ANN, lease_s: float = LASTS_S) -> KeyClaim:
    return ground.run(lambda store: store.claim(key, owner), lease_s)


def state(ground: AnswersBackend, key: RequestKey, owner: bytes = ANN) -> ClaimState:
    return claim(ground, key, owner).state


def confirm(
    ground: AnswersBackend, key: RequestKey, owner: bytes = ANN, answer: KeptAnswer = ANSWER, kept_s: float = LASTS_S
) -> bool:
    return ground.run(lambda store: store.confirm(key, owner, answer), kept_s=kept_s)


def renew(ground: AnswersBackend, key: RequestKey, owner: bytes = ANN) -> bool:
    return ground.run(lambda store: store.renew(key, owner))


def lapse(ground: AnswersBackend, key: RequestKey, owner: bytes = ANN) -> None:
    ground.run(lambda store: store.end_lease(key, owner))


def release(ground: AnswersBackend, key: RequestKey, owner: bytes = ANN) -> None:
    ground.run(lambda store: store.release(key, owner))


def test_the_first_to_ask_has_it_and_a_copy_finds_it_in_flight(ground: AnswersBackend, key: RequestKey) -> None:
    assert claim(ground, key) == KeyClaim(ClaimState.CLAIMED)
    assert claim(ground, key, BOB) == KeyClaim(ClaimState.IN_FLIGHT)


@pytest.mark.parametrize("answer", [ANSWER, TOO_LARGE])
def test_confirmed_a_copy_finds_the_answer_byte_for_byte(
    ground: AnswersBackend, key: RequestKey, answer: KeptAnswer
) -> None:
    claim(ground, key)
    assert confirm(ground, key, answer=answer)
    assert claim(ground, key, BOB) == KeyClaim(ClaimState.DUPLICATE, answer)


def test_another_request_with_the_key_is_a_conflict_at_every_moment(ground: AnswersBackend, key: RequestKey) -> None:
    claim(ground, key, lease_s=BRIEF_S)
    assert state(ground, other(key), BOB) is ClaimState.CONFLICT
    ground.pass_time(2 * BRIEF_S)
    assert state(ground, other(key), BOB) is ClaimState.CONFLICT, "its dead owner may have acted"
    claim(ground, key)
    confirm(ground, key)
    assert claim(ground, other(key), BOB) == KeyClaim(ClaimState.CONFLICT)


def test_a_key_whose_owner_died_is_taken_over_after_its_lease(ground: AnswersBackend, key: RequestKey) -> None:
    claim(ground, key, lease_s=BRIEF_S)
    ground.pass_time(2 * BRIEF_S)
    assert state(ground, key, BOB) is ClaimState.RECLAIMED
    assert state(ground, key, ANN) is ClaimState.IN_FLIGHT


def test_an_owner_that_renews_keeps_its_claim_beyond_the_lease(ground: AnswersBackend, key: RequestKey) -> None:
    claim(ground, key, lease_s=RENEWED_S)
    assert renew(ground, key)
    ground.pass_time(RENEWED_S + 0.1)
    assert state(ground, key, BOB) is ClaimState.IN_FLIGHT


def test_an_owner_that_lost_its_claim_can_do_nothing_with_it(ground: AnswersBackend, key: RequestKey) -> None:
    claim(ground, key, lease_s=BRIEF_S)
    ground.pass_time(2 * BRIEF_S)
    claim(ground, key, BOB)
    assert not renew(ground, key, ANN)
    assert not confirm(ground, key, ANN)
    lapse(ground, key, ANN)
    release(ground, key, ANN)
    assert state(ground, key, ANN) is ClaimState.IN_FLIGHT
    assert confirm(ground, key, BOB)
    assert not confirm(ground, key, ANN, TOO_LARGE), "an answer that was given isn't replaced"
    assert claim(ground, key, ANN).answer == ANSWER


def test_an_answer_is_final(ground: AnswersBackend, key: RequestKey) -> None:
    claim(ground, key)
    confirm(ground, key)
    assert not renew(ground, key)
    lapse(ground, key)
    release(ground, key)
    assert claim(ground, key, BOB).answer == ANSWER


def test_released_it_is_free_at_once_for_any_request(ground: AnswersBackend, key: RequestKey) -> None:
    claim(ground, key)
    release(ground, key)
    assert state(ground, other(key), BOB) is ClaimState.CLAIMED


def test_lapsed_it_is_free_at_once_for_the_same_request_only(ground: AnswersBackend, key: RequestKey) -> None:
    claim(ground, key)
    lapse(ground, key)
    assert state(ground, other(key), BOB) is ClaimState.CONFLICT
    assert state(ground, key, BOB) is ClaimState.RECLAIMED


def test_after_its_time_a_key_is_new_again(ground: AnswersBackend, key: RequestKey) -> None:
    claim(ground, key)
    confirm(ground, key, kept_s=BRIEF_S)
    ground.pass_time(2 * BRIEF_S)
    assert state(ground, other(key), BOB) is ClaimState.CLAIMED


def test_a_key_that_was_forgotten_between_claim_and_confirm_is_known_again(
    ground: AnswersBackend, key: RequestKey
) -> None:
    claim(ground, key)
    ground.forget()
    assert not renew(ground, key)
    assert confirm(ground, key)
    assert claim(ground, key, BOB).answer == ANSWER


def test_keys_of_several_callers_are_several_keys(ground: AnswersBackend) -> None:
    name = f"key-{next(_numbers)}"
    mine, yours = (RequestKey.for_request(caller, name, b"POST") for caller in ("ann", "bob"))
    claim(ground, mine)
    assert state(ground, yours, BOB) is ClaimState.CLAIMED


@pytest.mark.row("A14")
def test_of_fifty_that_ask_at_once_one_has_it(ground: AnswersBackend, key: RequestKey) -> None:
    async def all_at_once(store: AnswerStore) -> list[KeyClaim]:
        return await asyncio.gather(*(store.claim(key, bytes([n]) * 16) for n in range(50)))

    states = [claimed.state for claimed in ground.run(all_at_once)]
    assert sorted(states) == [ClaimState.CLAIMED] + [ClaimState.IN_FLIGHT] * 49
