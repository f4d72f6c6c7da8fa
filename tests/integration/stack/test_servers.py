"""The embedded servers are real: they answer, keep what they were given, and leave nothing running."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
import redis
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from core.settings import RECORD_BYTES_MAX, KafkaSettings
from stack.errors import ServerNotUp
from stack.servers.ports import LOOPBACK, free_ports, is_listening
from stack.servers.redis import redis_server, redis_url
from stack.servers.server import Server, run_server
from stack.topics import Topic, make_topics
from tests.plain_kafka import kafka_server


@pytest.mark.more(reason="a broker of its own that starts twice")
def test_a_broker_keeps_its_messages_over_a_restart_on_other_ports(tmp_path: Path) -> None:
    ports = free_ports(4)
    for run, (port, controller_port) in enumerate([ports[:2], ports[2:]]):
        with run_server(kafka_server(tmp_path / "kafka", port, controller_port, tmp_path / "kafka.log")) as broker:
            bootstrap = f"{LOOPBACK}:{port}"
            make_topics(KafkaSettings(bootstrap_servers=bootstrap), [Topic("kept", 1, -1)], replication=1)
            producer = Producer({"bootstrap.servers": bootstrap})
            producer.produce("kept", str(run).encode())
            assert producer.flush(60) == 0
            if run == 1:
                assert _values(bootstrap, "kept", 2) == [b"0", b"1"]
        assert not psutil.pid_exists(broker.process_id)
        assert not is_listening(port)


def test_a_record_of_the_largest_size_is_taken(kafka_broker: str) -> None:
    make_topics(KafkaSettings(bootstrap_servers=kafka_broker), [Topic("large", 1, -1)], replication=1)
    refused: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": kafka_broker, "message.max.bytes": 2 * RECORD_BYTES_MAX})
    producer.produce("large", bytes(RECORD_BYTES_MAX - 1024), on_delivery=lambda error, _: refused.append(error))
    producer.flush(60)
    assert refused == [None]


def test_no_topic_is_made_on_the_fly(kafka_broker: str) -> None:
    client = AdminClient({"bootstrap.servers": kafka_broker, "allow.auto.create.topics": True})
    client.list_topics("nobody.made.this", timeout=60)
    assert "nobody.made.this" not in client.list_topics(timeout=60).topics


def test_topics_are_made_once_and_grow_to_what_is_wanted(kafka_broker: str) -> None:
    make_topics(KafkaSettings(bootstrap_servers=kafka_broker), [Topic("counted", 2, -1)], replication=1)
    make_topics(KafkaSettings(bootstrap_servers=kafka_broker), [Topic("counted", 2, -1)], replication=1)
    make_topics(KafkaSettings(bootstrap_servers=kafka_broker), [Topic("counted", 3, -1)], replication=1)
    make_topics(KafkaSettings(bootstrap_servers=kafka_broker), [Topic("counted", 2, -1)], replication=1)
    listed = AdminClient({"bootstrap.servers": kafka_broker}).list_topics(timeout=60).topics
    assert len(listed["counted"].partitions) == 3


def test_a_redis_keeps_its_keys_over_a_restart(tmp_path: Path) -> None:
    for run in range(2):
        with run_server(redis_server(tmp_path / "redis", tmp_path / "redis.log")) as server:
            client = redis.Redis.from_url(redis_url(tmp_path / "redis"))
            assert int(client.get("runs") or 0) == run
            client.set("runs", run + 1)
            client.close()
        assert not psutil.pid_exists(server.process_id)


def test_a_server_that_ends_at_its_start_is_reported_with_its_last_words(tmp_path: Path) -> None:
    broken = Server("broken", ("sh", "-c", "echo the disk is full; exit 3"), tmp_path / "log", answers=lambda: False)
    with (
        pytest.raises(ServerNotUp, match=r"(?s)broken ended with code 3 at its start; .*the disk is full"),
        run_server(broken),
    ):
        pass


def test_a_server_that_never_answers_is_killed(tmp_path: Path) -> None:
    command = ("sleep", f"100.{os.getpid()}")
    deaf = Server("deaf", command, tmp_path / "log", answers=lambda: False, start_s=0.3)
    with pytest.raises(ServerNotUp, match="deaf didn't answer within 0.3 s"), run_server(deaf):
        pass
    assert not [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == [*command]]


def _values(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(count, timeout=60)
        if any(message.error() for message in messages):
            raise KafkaException(messages[0].error())
        return [message.value() for message in messages]
    finally:
        consumer.close()
