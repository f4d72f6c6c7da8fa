"""Redis' data went back, or is gone: claims are a fast path, and the journal tells every copy."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis.asyncio
from redis import Redis

from core.clock import SystemClock
from core.generation import Announcement, generation_key
from core.settings import RedisSettings
from ingest.claims import ClaimKey, ClaimState, RedisGate
from ingest.generations import RedisGenerations
from ingest.metrics import IngestMetrics
from ingest.protocol import ClaimProtocol
from ingest.redis_claims import RedisClaims
from journal.reader import JournalReader
from processor.claims import open_generation_writer
from processor.history.losses import Acceptance, Findings, accept_losses
from stack.servers.redis import ADMIN, redis_server, redis_url
from stack.servers.server import run_server
from tests.integration.processor.stored import Stored, event_of
from tests.redis_storm import FilePublisher
from tests.unit.processor.harness import NOW

pytestmark = pytest.mark.more(reason="a whole way in with a Redis of its own for each case")

LEASE_S, BRIEF_S = 600.0, 0.05
"""Longer than any test, and one that ends by itself."""
WAIT_S = 60.0
"""For a brief lease to end."""
CONFIRMED_S = 3_600.0
BEFORE, AFTER = ("a", "dead-b"), ("c", "dead-d")


@dataclass
class ReceiverAndEngine:
    """A receiver on a real Redis, and the engine that decides what it publishes."""

    folder: Path
    stored: Stored
    seen: int = 0
    """The highest generation that the receiver has read, which it keeps while it runs."""

    @property
    def data(self) -> Path:
        return self.folder / "redis"

    @property
    def generation(self) -> int:
        journal = str(self.stored.journal)
        return JournalReader(journal).state().generation if self.stored.journal.exists() else 0

    @contextlib.contextmanager
    def redis(self, *, announces: bool = True) -> Iterator[Redis]:
        """Redis runs, and the processor has announced the journal's generation."""
        url = redis_url(self.data, ADMIN)
        with run_server(redis_server(self.data, self.folder / "redis.log")), Redis.from_url(url) as client:
            if announces:
                writer = open_generation_writer(RedisSettings(url=url), "live", tuple)
                writer._write(Announcement(self.generation, 4))
            yield client

    def sends(self, *event_ids: str, restarted: bool = False) -> list[str]:
        """What becomes of webhooks, one after the other; ``restarted``: the receiver knows of no generation yet."""
        return asyncio.run(self._sends(event_ids, restarted=restarted))

    async def _sends(self, event_ids: tuple[str, ...], *, restarted: bool) -> list[str]:
        client = redis.asyncio.Redis.from_url(redis_url(self.data, ADMIN))
        claims = RedisClaims(client, RedisGate(timeout_s=60.0), LEASE_S, CONFIRMED_S)
        generations = RedisGenerations(client, ("live",), SystemClock(), 4, tuple)
        generations._seen["live"] = 0 if restarted else self.seen
        publisher = FilePublisher(self.stored.kafka)
        protocol = ClaimProtocol(claims, generations, publisher, IngestMetrics(), SystemClock(), WAIT_S)
        try:
            await generations.read()
            taken = [await protocol.take_events([event_of(one)], NOW, None) for one in event_ids]
            await claims.await_settlements()
            self.seen = generations._seen["live"]
            return [one.claims[0].outcome for one in taken]
        finally:
            await client.aclose()

    def claims_and_dies(self, event_id: str) -> None:
        """A request that is killed before it published."""

        async def inside() -> list[ClaimState]:
            client = redis.asyncio.Redis.from_url(redis_url(self.data, ADMIN))
            claims = RedisClaims(client, RedisGate(timeout_s=60.0), BRIEF_S, CONFIRMED_S)
            event = event_of(event_id)
            try:
                return await claims.claim([ClaimKey.for_event(event.event_key, event.content_sha256)], b"o" * 16)
            finally:
                await client.aclose()

        assert asyncio.run(inside()) == [ClaimState.CLAIMED]


@pytest.fixture
def ground(tmp_path: Path) -> ReceiverAndEngine:
    """Two events are claimed in the copy of Redis' data, and two more were taken since; the engine decided all."""
    made = ReceiverAndEngine(tmp_path, Stored(tmp_path))
    with made.redis():
        assert made.sends(*BEFORE) == ["claimed", "claimed"]
    shutil.copytree(made.data, tmp_path / "older")
    with made.redis():
        assert made.sends(*AFTER, *BEFORE, *AFTER) == ["claimed"] * 2 + ["duplicate"] * 4
    made.stored.decide_all()
    return made


def older(ground: ReceiverAndEngine) -> list[str]:
    """Redis as it was; what becomes of webhooks from before then."""
    shutil.rmtree(ground.data)
    shutil.copytree(ground.folder / "older", ground.data)
    return ["duplicate", "duplicate"]


def emptied(ground: ReceiverAndEngine) -> list[str]:
    shutil.rmtree(ground.data)
    return ["claimed", "claimed"]


@pytest.mark.parametrize("back", [older, emptied])
def test_copies_of_what_redis_forgot_are_published_again_and_the_engine_tells_them(
    ground: ReceiverAndEngine, back: Callable[[ReceiverAndEngine], list[str]]
) -> None:
    of_before = back(ground)
    with ground.redis():
        assert ground.sends(*AFTER) == ["claimed", "claimed"]
        assert ground.sends(*BEFORE) == of_before
        assert ground.sends("e", *AFTER, *BEFORE) == ["claimed"] + ["duplicate"] * 4
    ground.stored.decide_all()
    ground.stored.check()
    twice = ["duplicate"] if back is emptied else []
    assert ground.stored.decisions() == {
        "a": ["applied", *twice],
        "dead-b": ["dead", *twice],
        "c": ["applied", "duplicate"],
        "dead-d": ["dead", "duplicate"],
        "e": ["applied"],
    }


def test_a_claim_that_was_pending_in_the_copy_is_taken_over(tmp_path: Path) -> None:
    """By the time it is back its event was published and decided, or its sender died; the copy can't say which."""
    ground = ReceiverAndEngine(tmp_path, Stored(tmp_path))
    with ground.redis():
        for one in BEFORE:
            ground.claims_and_dies(one)
    shutil.copytree(ground.data, tmp_path / "older")
    with ground.redis():
        assert ground.sends("a") == ["reclaimed"]
    ground.stored.decide_all()
    older(ground)
    with ground.redis():
        assert ground.sends(*BEFORE) == ["reclaimed", "reclaimed"]
    ground.stored.decide_all()
    ground.stored.check()
    assert ground.stored.decisions() == {"a": ["applied", "duplicate"], "dead-b": ["dead"]}


def accept_lost(journal: Path) -> None:
    state = JournalReader(str(journal)).state()
    findings = Findings("ledger", state.next_seq - 1, state.epoch)
    accept_losses(journal, findings, [], 0, Acceptance("ada", "lost", NOW))


@pytest.mark.parametrize("restarted", [False, True])
def test_an_older_generation_in_the_copy_makes_nothing_a_duplicate_that_kafka_lost(
    ground: ReceiverAndEngine, *, restarted: bool
) -> None:
    """The copy holds confirmed claims of events that were lost since, and the generation of then."""
    stored = ground.stored
    with ground.redis():
        assert ground.sends("lost") == ["claimed"]
    shutil.rmtree(ground.folder / "older")
    shutil.copytree(ground.data, ground.folder / "older")
    stored.kafka.lose(1)
    accept_lost(stored.journal)
    with ground.redis():
        assert (ground.generation, ground.sends("f")) == (1, ["claimed"])
    older(ground)
    with ground.redis() as client:
        assert client.get(generation_key("live")) == b"1 p4", "the processor's is the higher one"
        assert ground.sends("lost", restarted=restarted) == ["claimed"]
        assert ground.sends("lost", "f", "a") == ["duplicate", "claimed", "claimed"]
    stored.decide_all()
    stored.check()
    decisions = stored.decisions()
    assert (decisions["lost"], decisions["f"]) == (["applied"], ["applied", "duplicate"])
    assert decisions["a"] == ["applied", "duplicate"]


def test_a_receiver_that_runs_believes_no_older_generation_before_the_processor_has_written(
    ground: ReceiverAndEngine,
) -> None:
    with ground.redis() as client:
        accept_lost(ground.stored.journal)
        client.set(generation_key("live"), Announcement(1, 4).encode())
        assert ground.sends("e") == ["claimed"]
    older(ground)
    with ground.redis(announces=False) as client:
        client.set(generation_key("live"), Announcement(0, 4).encode())
        assert ground.sends("a") == ["claimed"], "in generation 1, where it has no claim"


def test_an_announcement_in_a_copy_ends_when_it_would_have_ended(ground: ReceiverAndEngine) -> None:
    """So a copy that is older than some seconds announces nothing, and events go on without claims."""
    with ground.redis() as client:
        left_ms = client.pttl(generation_key("live"))
        assert left_ms > 0
    with ground.redis(announces=False) as client:
        assert client.pttl(generation_key("live")) <= left_ms
        client.pexpire(generation_key("live"), 0)
        assert ground.sends("e") == ["deferred"]
