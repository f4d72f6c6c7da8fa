"""What payhook's user must be allowed on an outside Redis is what docs/redis.md lists: no less, and no more."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from core.generation import Announcement
from core.redis import sync_redis
from ingest.claims import ClaimKey, ClaimState, ClaimsUnavailable, RedisGate
from ingest.redis_claims import RedisClaims, confirmed_hashes
from processor.claims import WRITE
from stack.servers.redis import CLUSTER_COMMANDS, COMMANDS, PAYHOOK, SENTINEL_COMMANDS
from tests.redis_sites import RedisNode, RedisSite

DOCS = Path(__file__).parents[2] / "docs" / "redis.md"
REFUSED = (
    *("FLUSHALL", "KEYS *", "CONFIG GET dir", "SHUTDOWN NOSAVE", "ACL LIST", "SCRIPT FLUSH", "CLIENT KILL TYPE normal"),
    *("REPLICAOF NO ONE", "CLUSTER FAILOVER", "CLUSTER RESET", "CLUSTER FORGET x", "PTTL key", "SUBSCRIBE x"),
)
OF_SENTINEL = ("SENTINEL FAILOVER claims", "SENTINEL REMOVE claims", "SENTINEL SET claims quorum 1", "SHUTDOWN")
ANN = b"a" * 16


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisSite]:
    with RedisSite(tmp_path_factory.mktemp("alone"), tls=False).alone() as site:
        yield site


def everything(site: RedisSite) -> None:
    """All that payhook asks of a Redis."""

    async def claims() -> None:
        async with site.open() as client:
            gate = RedisGate(5.0)
            claims = RedisClaims(client, gate, 60.0, 60.0)
            kept, free = ClaimKey.for_event("kept", "00" * 32), ClaimKey.for_event("free", "00" * 32)
            assert (await claims.claim([kept, free], ANN))[1] is ClaimState.CLAIMED
            claims.settle([kept], [free], ANN)
            await claims.await_settlements()
            if gate.failures:
                raise PermissionError("a settlement was refused")

    with contextlib.closing(sync_redis(site.settings(), 5.0)) as client:
        client.eval(WRITE, 1, "generation", 1, Announcement(1, 4).encode(), 1_000)
        assert client.ping()
        with site.nodes[0].admin() as admin:
            admin.script_flush()
        asyncio.run(claims())
        assert list(confirmed_hashes(client, "live", 0))


@pytest.mark.parametrize("command", COMMANDS)
def test_without_one_of_them_something_cant_be_done(alone: RedisSite, command: str) -> None:
    with alone.nodes[0].admin() as admin:
        everything(alone)
        admin.execute_command("ACL SETUSER", PAYHOOK, f"-{command}")
        try:
            with pytest.raises((ResponseError, ClaimsUnavailable, PermissionError)):
                everything(alone)
        finally:
            admin.execute_command("ACL SETUSER", PAYHOOK, f"+{command}")


@pytest.mark.parametrize("command", REFUSED)
def test_nothing_else_is_allowed(alone: RedisSite, command: str) -> None:
    refused_of(alone, alone.nodes[0], command)


def refused_of(site: RedisSite, node: RedisNode, command: str) -> None:
    settings = site.settings(url=site.url(node.port))
    with contextlib.closing(sync_redis(settings, 5.0)) as client, pytest.raises(NoPermissionError):
        client.execute_command(*command.split())


@pytest.mark.more(reason="a cluster, and Sentinels")
def test_on_a_clusters_nodes_and_on_sentinels_nothing_else_is_allowed(tmp_path: Path) -> None:
    with RedisSite(tmp_path / "cluster", tls=False).cluster() as cluster:
        for command in REFUSED:
            refused_of(cluster, cluster.nodes[0], command)
    with RedisSite(tmp_path / "sentinel", tls=False).watched() as watched:
        for command in OF_SENTINEL:
            refused_of(watched, watched.sentinels[0], command)


def test_the_docs_list_them() -> None:
    text = DOCS.read_text("utf-8")
    text = text.replace("\\|", "|")
    rows = dict(re.findall(r"^\| (each server|besides on a cluster|each Sentinel) \| `([^`]+)` \|", text, re.MULTILINE))
    for row, commands in (
        ("each server", COMMANDS),
        ("besides on a cluster", CLUSTER_COMMANDS),
        ("each Sentinel", SENTINEL_COMMANDS),
    ):
        assert rows[row] == " ".join(f"+{command}" for command in commands)
