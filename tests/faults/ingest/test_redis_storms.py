"""Failover after failover while deliveries and their copies come: each event is decided once, and claims come back."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from load.client import wait_for
from tests.integration.processor.stored import Stored
from tests.processes import pause
from tests.redis_sites import DOWN_MS, RedisNode, RedisSite, has_tls
from tests.redis_storm import CLAIMED, DEFERRED, Storm

ROUNDS = 4
WAIT_S = 60.0
AGAIN_S_MAX = 30.0


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[RedisSite]:
    with RedisSite(tmp_path / "redis", tls=has_tls()).watched() as site:
        yield site


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RedisSite]:
    """Three masters with a replica each."""
    with RedisSite(tmp_path / "redis", tls=has_tls()).cluster(replicas=1) as site:
        yield site


async def in_thread(condition: Callable[[], bool]) -> None:
    """Waits for it while deliveries go on."""
    assert await asyncio.to_thread(wait_for, condition, WAIT_S)


async def joined(site: RedisSite, node: RedisNode) -> None:
    """It replicates the one that took over."""
    await in_thread(lambda: node.role == "slave" and site._replicates(node))


async def kill(_site: RedisSite, primary: RedisNode) -> Callable[[], Awaitable[None]]:
    primary.kill()

    async def back() -> None:
        await asyncio.to_thread(primary.start)

    return back


async def kill_with_a_sentinel(site: RedisSite, primary: RedisNode) -> Callable[[], Awaitable[None]]:
    """A host that both were on is gone; it is the first that a client would ask."""
    site.sentinels[0].kill()
    back_of_primary = await kill(site, primary)

    async def back() -> None:
        await back_of_primary()
        await asyncio.to_thread(site.sentinels[0].start)

    return back


async def hang(_site: RedisSite, primary: RedisNode) -> Callable[[], Awaitable[None]]:
    """It keeps its connections, and believes for a moment that it is still the primary when it comes round."""
    pause(primary.process.process_id)

    async def back() -> None:
        os.killpg(primary.process.process_id, signal.SIGCONT)

    return back


@pytest.mark.parametrize("ends", [kill, kill_with_a_sentinel, hang])
def test_behind_sentinel(
    watched: RedisSite,
    tmp_path: Path,
    ends: Callable[[RedisSite, RedisNode], Awaitable[Callable[[], Awaitable[None]]]],
    record_property: Callable[[str, object], None],
) -> None:
    """Each time the replica lacks the last claims."""
    storm = Storm(watched, Stored(tmp_path))
    took_s: list[float] = []
    lost: set[str] = set()

    async def rounds(storm: Storm) -> None:
        for _ in range(ROUNDS):
            await storm.goes_on()
            primary = await asyncio.to_thread(lambda: watched.primary)
            [replica] = [node for node in watched.nodes if node is not primary]
            await asyncio.to_thread(watched.part, replica)
            before = len(storm.answers)
            await storm.goes_on()
            back = await ends(watched, primary)
            at = time.monotonic()
            lost.update(event_id for _, event_id, outcome in storm.answers[before:] if outcome == CLAIMED)
            took_s.append(await storm.claims_again(at))
            await asyncio.to_thread(partial(watched.part, replica, parted=False))
            await back()
            await joined(watched, primary)
            await storm.goes_on()

    storm.run(rounds)
    said = storm.decided_once()
    assert said[DEFERRED] > 0
    assert lost & storm.with_copies()
    assert max(took_s) < AGAIN_S_MAX
    record_property("claims again after s", sorted(round(one, 2) for one in took_s))
    record_property("answers; events published twice", f"{dict(said)}; {len(storm.with_copies())}")


def test_of_a_cluster(cluster: RedisSite, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Each master in turn is killed and its replica promoted; meanwhile the others' keys are claimed."""
    storm = Storm(cluster, Stored(tmp_path))
    took_s: list[float] = []
    meanwhile: list[float] = []

    async def rounds(storm: Storm) -> None:
        for number in range(ROUNDS):
            await storm.goes_on()
            masters = [node for node in cluster.nodes if node.role == "master"]
            victim = masters[number % len(masters)]
            before = {node.port for node in masters}
            victim.kill()
            at = time.monotonic()
            await in_thread(partial(_promoted, cluster, before))
            until = time.monotonic()
            said = [outcome for when, _, outcome in storm.answers if at + 0.1 < when < until]
            meanwhile.append(sum(outcome != DEFERRED for outcome in said) / max(1, len(said)))
            took_s.append(await _all_claimed(storm, at))
            await asyncio.to_thread(victim.start)
            await joined(cluster, victim)

    storm.run(rounds)
    said = storm.decided_once()
    assert said[DEFERRED] > 0
    assert max(took_s) < AGAIN_S_MAX
    assert statistics.median(meanwhile) > 1 / 3, "of three masters' keys those of two"
    record_property("all claimed again after s", sorted(round(one, 2) for one in took_s))
    record_property("share that wasn't deferred meanwhile", sorted(round(one, 2) for one in meanwhile))
    record_property("answers; events published twice", f"{dict(said)}; {len(storm.with_copies())}")


def _promoted(site: RedisSite, before: set[int]) -> bool:
    return any(node.port not in before and node.role == "master" for node in site.nodes)


async def _all_claimed(storm: Storm, since: float) -> float:
    """Until a second passes in which nothing is deferred; the seconds from ``since`` to the last that was."""
    async with asyncio.timeout(WAIT_S):
        while True:
            await asyncio.sleep(0.1)
            last = max((at for at, _, outcome in storm.answers if outcome == DEFERRED), default=since)
            if time.monotonic() - last > 1.0 + DOWN_MS / 1000:
                return last - since
