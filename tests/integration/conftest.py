"""Real servers for the tests beside this file: a Redis and a Kafka broker of this test run's own.

They start on free loopback ports when the first test asks, and are gone when the run ends.
"""

from __future__ import annotations

import gc
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from core.settings import KafkaSettings
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.redis import ADMIN, redis_url
from stack.servers.redis import redis_server as redis_server_on
from stack.servers.server import run_server
from stack.topics import Topic, make_topics
from tests.plain_kafka import kafka_server

ONE_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Topics:
    """One test's own topics; the names begin with a prefix that no other test has."""

    prefix: str
    events: str
    control: str
    receipts: str
    dlq: str


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real Redis, shared by the run. A test that wants it empty asks for ``empty_redis``."""
    folder: Path = tmp_path_factory.mktemp("redis")
    with run_server(redis_server_on(folder, folder / "redis.log")):
        yield redis_url(folder, ADMIN)


@pytest.fixture
def empty_redis(redis_server: str) -> str:
    """The URL of the real Redis, emptied for this test."""
    client = redis.Redis.from_url(redis_server)
    client.flushall()
    client.close()
    return redis_server


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap address of a real broker, shared by the run."""
    folder: Path = tmp_path_factory.mktemp("kafka")
    port, controller_port = free_ports(2)
    with run_server(kafka_server(folder, port, controller_port, folder / "kafka.log")):
        yield f"{LOOPBACK}:{port}"
        # Clients that tests left behind would print that nothing answers them any more.
        gc.collect()


@pytest.fixture
def make_topic(kafka_broker: str) -> Callable[[str, int], str]:
    """Makes a topic of this test's own: ``make_topic("events", 4)`` is its name."""
    prefix = f"t{uuid.uuid4().hex[:12]}"

    def make(name: str, partitions: int = 1) -> str:
        topic = f"{prefix}.{name}"
        make_topics(
            KafkaSettings(bootstrap_servers=kafka_broker), [Topic(topic, partitions, ONE_DAY_MS)], replication=1
        )
        return topic

    return make


@pytest.fixture
def topics(kafka_broker: str) -> Topics:
    """payhook's topics, of this test's own: 4 partitions for events and dead letters, 1 for the others."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    counts: Mapping[str, int] = {"payments.events": 4, "payments.control": 1, "payments.receipts": 1, "dlq.ledger": 4}
    wanted = [Topic(f"{prefix}.{name}", count, ONE_DAY_MS) for name, count in counts.items()]
    make_topics(KafkaSettings(bootstrap_servers=kafka_broker), wanted, replication=1)
    return Topics(prefix, *(topic.name for topic in wanted))
