"""Where tables are: on a disk and on an object store alike. And how Redis runs outside of one machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stack.servers.redis import ADMIN, redis_server, redis_url
from stack.servers.server import run_server
from tests.object_store.fixtures import object_store, place, store_folder
from tests.redis_sites import RedisSite, has_tls

__all__ = ["object_store", "place", "store_folder"]


@pytest.fixture(scope="session")
def redis_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisSite]:
    with RedisSite(tmp_path_factory.mktemp("tls"), tls=True, asks=True).alone() as site:
        yield site


@pytest.fixture(scope="session")
def redis_sentinel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisSite]:
    with RedisSite(tmp_path_factory.mktemp("sentinel"), tls=has_tls()).watched() as site:
        yield site


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisSite]:
    with RedisSite(tmp_path_factory.mktemp("cluster"), tls=has_tls()).cluster() as site:
        yield site


@pytest.fixture(scope="module")
def real_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("redis")
    with run_server(redis_server(folder, folder / "redis.log")):
        yield redis_url(folder, ADMIN)
