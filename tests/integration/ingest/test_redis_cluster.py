"""Claims on a Redis Cluster whose masters die, hang and hand over slots: each key depends on its own master alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import pytest
from redis.crc import key_slot

from core.clock import SystemClock
from core.event import Mode
from core.generation import Announcement, generation_keys
from ingest.claims import ClaimKey, ClaimState, ClaimsUnavailable, RedisGate
from ingest.generations import RedisGenerations
from ingest.redis_claims import RedisClaims
from load.client import wait_for
from tests.processes import pause
from tests.redis_sites import SLOTS, RedisNode, RedisSite, has_tls

pytestmark = pytest.mark.more(reason="a cluster of six servers")

ANN, BOB = b"a" * 16, b"b" * 16
CONTENT8 = bytes(8)
WAIT_S = 60.0
TRIP_S = 2.0
"""Of a busy machine; a master that hangs costs its own claims so long, and no others any of it."""
RESET_S = 0.3
LIVE: Mode = "live"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisSite]:
    with RedisSite(tmp_path_factory.mktemp("cluster"), tls=has_tls()).cluster() as site:
        yield site


@pytest.fixture
def site(shared: RedisSite) -> RedisSite:
    """Three masters that answer, empty."""
    for node in shared.nodes:
        if node.process.exit_code is not None:
            node.start()
    assert wait_for(shared.is_whole, WAIT_S)
    shared.on_masters(lambda client: client.flushall())
    return shared


@dataclass
class ClusterClaims:
    """Claims as a receiver has them."""

    claims: RedisClaims
    gate: RedisGate
    new_generations: Callable[[], RedisGenerations]

    async def found(self, key: ClaimKey, owner: bytes = ANN) -> ClaimState | None:
        """What a claim finds; None where its master can't be asked."""
        try:
            [state] = await self.claims.claim([key], owner)
        except ClaimsUnavailable:
            return None
        return state

    async def read_generation(self) -> int:
        """The generation, by a receiver that has read none yet; it reads again each time that it takes too long."""
        generations = self.new_generations()
        async with asyncio.timeout(WAIT_S):
            while (generation := generations.find_generation(LIVE, "e")) is None:
                await generations.read()
        return generation

    async def comes_to(self, key: ClaimKey, wanted: ClaimState | None, owner: bytes = ANN) -> float:
        """The seconds until a claim of it finds that."""
        began = time.monotonic()
        async with asyncio.timeout(WAIT_S):
            while await self.found(key, owner) is not wanted:  # noqa: ASYNC110 - a server's state
                await asyncio.sleep(0.05)
        return time.monotonic() - began


@contextlib.asynccontextmanager
async def opened(site: RedisSite, timeout_s: float = TRIP_S) -> AsyncIterator[ClusterClaims]:
    async with site.open(timeout_s) as client:
        gate = RedisGate(timeout_s, failures_max=5, reset_s=RESET_S)
        claims = RedisClaims(client, gate, 600.0, 1_000.0)
        yield ClusterClaims(claims, gate, lambda: RedisGenerations(client, (LIVE,), SystemClock(), 4, tuple))
        await claims.await_settlements()


def keys_of(node: int, count: int, name: str) -> list[ClaimKey]:
    """Keys whose slots the node has."""
    found: list[ClaimKey] = []
    number = 0
    while len(found) < count:
        key = ClaimKey.for_event(f"{name}:{number}", "00" * 32)
        number += 1
        if key_slot(key.name) * 3 // SLOTS == node:
            found.append(key)
    return found


def announce(site: RedisSite, generation: int = 3) -> None:
    for key in generation_keys(LIVE, cluster=True):
        node = site.nodes[key_slot(key.encode()) * 3 // SLOTS]
        with node.admin() as client:
            client.set(key, Announcement(generation, 4).encode())


def back(site: RedisSite, dead: int) -> None:
    """Started again, and known to the others as a master that answers: two that miss one each refuse all claims."""
    site.nodes[dead].start()
    assert wait_for(site.is_whole, WAIT_S)


@pytest.mark.row("F4")
def test_while_a_master_is_dead_keys_of_the_others_go_on_being_claimed(site: RedisSite) -> None:
    """Whichever it is: the generation can be read, and requests of both kinds come at the same instant."""
    announce(site)

    async def history() -> None:
        async with opened(site) as ground:
            for dead in range(3):
                held = keys_of(dead, 1, f"held {dead}")[0]
                assert await ground.found(held) is ClaimState.CLAIMED
                ground.claims.settle([held], [], ANN)
                await ground.claims.await_settlements()
                site.nodes[dead].kill()
                others = [key for node in {0, 1, 2} - {dead} for key in keys_of(node, 30, f"others {dead}")]
                its = keys_of(dead, 10, f"its {dead}")
                found = await asyncio.gather(*(ground.found(key) for key in [*its, *others]))
                assert found == [None] * len(its) + [ClaimState.CLAIMED] * len(others)
                with pytest.raises(ClaimsUnavailable):
                    await ground.claims.claim([others[0], its[0]], ANN)
                assert await ground.read_generation() == 3
                back(site, dead)
                assert await ground.comes_to(held, ClaimState.DUPLICATE) < WAIT_S
                assert not ground.gate.is_refusing

    asyncio.run(history())


def test_a_master_that_hangs_holds_up_no_claim_of_another(site: RedisSite) -> None:
    hung, other = keys_of(0, 40, "hung"), keys_of(1, 40, "other")

    async def history() -> float:
        async with opened(site) as ground:
            assert await ground.found(hung[0]) is ClaimState.CLAIMED
            assert await ground.found(other[0]) is ClaimState.CLAIMED
            pause(site.nodes[0].process.process_id)
            try:
                waiting = [asyncio.create_task(ground.found(key)) for key in hung[1:]]
                await asyncio.sleep(0)
                began = time.monotonic()
                found = await asyncio.gather(*(ground.found(key) for key in other[1:]))
                took_s = time.monotonic() - began
                assert found == [ClaimState.CLAIMED] * len(found)
                assert await asyncio.gather(*waiting) == [None] * len(waiting)
            finally:
                os.killpg(site.nodes[0].process.process_id, signal.SIGCONT)
            await ground.comes_to(hung[0], ClaimState.CLAIMED)
            return took_s

    assert asyncio.run(history()) < TRIP_S


def test_what_a_dead_master_wasnt_told_is_settled_when_it_is_back(site: RedisSite) -> None:
    key = keys_of(2, 1, "late")[0]

    async def history() -> None:
        async with opened(site) as ground:
            assert await ground.found(key) is ClaimState.CLAIMED
            site.nodes[2].kill()
            ground.claims.settle([key], [], ANN)
            while not ground.claims.unsettled_count:  # noqa: ASYNC110 - no event announces it
                await asyncio.sleep(0.05)
            back(site, 2)
            await ground.comes_to(key, ClaimState.DUPLICATE, BOB)

    asyncio.run(history())


def test_while_a_slot_moves_its_claims_are_followed(site: RedisSite) -> None:
    """One claim is still where the slot was, one has been moved, one is new; then all belong to the other master."""
    still, moved, new, late = (ClaimKey(b"{slot}%d" % n, CONTENT8) for n in range(4))
    slot = key_slot(still.name)
    source = site.nodes[slot * 3 // SLOTS]
    target = next(node for node in site.nodes if node is not source)

    async def history() -> None:
        async with opened(site) as ground, opened(site) as another:
            assert await ground.claims.claim([still, moved], ANN) == [ClaimState.CLAIMED] * 2
            with source.admin() as at_source, target.admin() as at_target:
                ids = [client.execute_command("CLUSTER MYID") for client in (at_source, at_target)]
                at_target.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[0])
                at_source.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[1])
                give(site, at_source, target, moved.name)
                found = await ground.claims.claim([still, moved, new], BOB)
                assert found == [ClaimState.IN_FLIGHT, ClaimState.IN_FLIGHT, ClaimState.CLAIMED]
                ground.claims.settle([moved], [], ANN)
                assert await ground.found(moved, BOB) is ClaimState.DUPLICATE
                give(site, at_source, target, still.name)
                for client in (at_target, at_source):
                    client.execute_command("CLUSTER SETSLOT", slot, "NODE", ids[1])
                found = await ground.claims.claim([still, moved, new, late], ANN)
                wanted = [ClaimState.CLAIMED, ClaimState.DUPLICATE, ClaimState.IN_FLIGHT, ClaimState.CLAIMED]
                assert found == wanted
                assert await ground.claims.claim([still, moved, new, late], ANN) == wanted
                assert await another.found(late, BOB) is ClaimState.IN_FLIGHT
                for client in (at_source, at_target):
                    client.flushall()
                    client.execute_command("CLUSTER SETSLOT", slot, "NODE", ids[0])

    asyncio.run(history())


def give(site: RedisSite, source: object, target: RedisNode, key: bytes) -> None:
    answer = source.execute_command(  # type: ignore[attr-defined]
        *("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "AUTH2", "admin", site.passwords["admin"], "KEYS", key)
    )
    assert answer == b"OK"


@pytest.mark.parametrize("dead", [0, 1])
def test_a_node_that_is_down_at_the_start_costs_its_own_keys(
    site: RedisSite, dead: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Node 0 is the one that the settings name: where it is down nothing is known of the others, until it is back."""

    async def history() -> None:
        its, other = keys_of(dead, 1, f"down {dead}")[0], keys_of(2, 1, f"up {dead}")[0]
        site.nodes[dead].kill()
        async with opened(site) as ground:
            await ground.new_generations().read()
            assert await ground.found(its) is None
            assert await ground.found(other) is (None if dead == 0 else ClaimState.CLAIMED)
            back(site, dead)
            await ground.comes_to(its, ClaimState.CLAIMED)
            await ground.comes_to(other, ClaimState.CLAIMED)

    asyncio.run(history())
    assert f"127.0.0.1:{site.nodes[dead].port}" in caplog.text
    if dead == 0:
        assert (
            "live events are published as deferred, without a claim: Redis can't be asked: RedisClusterException"
            in caplog.text
        )
