"""A body by its topic, partition and offset, from a real broker: what a story shows where no copy is kept."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import TopicPartition

from core.settings import KafkaSettings
from dead_letters.payload import OriginUnreadable, kafka_origin
from stack.servers.ports import LOOPBACK, free_ports
from tests.dead_items import DeadItems
from tests.integration.conftest import Topics


@pytest.fixture
def written(kafka_broker: str, topics: Topics) -> list[bytes]:
    """Three records of one partition."""
    bodies = [b'{"number": %d}' % number for number in range(3)]
    producer = Producer({"bootstrap.servers": kafka_broker, "acks": "all"})
    for body in bodies:
        producer.produce(topics.events, body, partition=0)
    assert producer.flush(60) == 0
    return bodies


def test_a_record_is_read_by_its_place(kafka_broker: str, topics: Topics, written: list[bytes]) -> None:
    read = kafka_origin(KafkaSettings(bootstrap_servers=kafka_broker))
    assert [read(topics.events, 0, offset) for offset in (2, 0, 1)] == [written[2], written[0], written[1]]


def test_what_the_topic_no_longer_holds_or_never_held_is_none(
    kafka_broker: str, topics: Topics, written: list[bytes]
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_broker})
    for deleted in admin.delete_records([TopicPartition(topics.events, 0, 1)]).values():
        deleted.result(60)
    read = kafka_origin(KafkaSettings(bootstrap_servers=kafka_broker))
    assert [read(topics.events, 0, offset) for offset in (0, 1, 3, 99)] == [None, written[1], None, None]


def test_a_broker_or_topic_that_is_not_there_is_said(kafka_broker: str) -> None:
    (port,) = free_ports(1)
    with pytest.raises(OriginUnreadable, match=r"orders\[0\]@7 can't be read now"):
        kafka_origin(KafkaSettings(bootstrap_servers=f"{LOOPBACK}:{port}"), read_s_max=1.0)("orders", 0, 7)
    with pytest.raises(OriginUnreadable, match="nobody-made-this"):
        kafka_origin(KafkaSettings(bootstrap_servers=kafka_broker), read_s_max=5.0)("nobody-made-this", 0, 0)


def test_a_story_has_the_body_that_only_kafka_holds(
    kafka_broker: str, topics: Topics, written: list[bytes], tmp_path: Path
) -> None:
    items = DeadItems(tmp_path)
    items.dead(body_sha256=hashlib.sha256(written[0]).hexdigest())
    items.commit()
    read = kafka_origin(KafkaSettings(bootstrap_servers=kafka_broker))
    index = items.followed(origin=lambda topic, partition, offset: read(topics.events, partition, offset))
    payload = index.item(1).payload
    assert (payload.raw, payload.source, payload.pretty) == (written[0], "kafka", '{\n  "number": 0\n}')
