"""A primary is killed with what its replica didn't get: claims come back by themselves, and no event counts twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.processor.stored import Stored
from tests.redis_sites import RedisSite, has_tls
from tests.redis_storm import DEFERRED, Storm

pytestmark = pytest.mark.more(reason="a primary, replicas and Sentinels")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[RedisSite]:
    with RedisSite(tmp_path / "redis", tls=has_tls()).watched() as site:
        yield site


def test_a_failover_that_loses_claims_costs_copies_that_the_journal_tells_apart(
    site: RedisSite, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    storm = Storm(site, Stored(tmp_path))
    lost: set[str] = set()
    took_s: list[float] = []

    async def fails_over(storm: Storm) -> None:
        await storm.goes_on(50)
        primary, replica = site.nodes
        site.part(replica)
        before = len(storm.answers)
        await storm.goes_on(50)
        primary.kill()
        lost.update(event_id for _, event_id, outcome in storm.answers[before:] if outcome == "claimed")
        killed_at = time.monotonic()
        took_s.append(await storm.claims_again(killed_at))
        await storm.goes_on(50)

    storm.run(fails_over)
    said = storm.decided_once()
    assert site.primary is site.nodes[1]
    assert said[DEFERRED] > 0
    assert lost & storm.with_copies(), "the copies of claims that were lost with the primary"
    record_property("claims again after s", round(took_s[0], 1))
