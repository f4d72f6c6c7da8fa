"""What Kafka holds against what the journal's marks want, on a real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from processor.source.offsets import OffsetsLost, TopicMissing, check_marks, starts, watermarks


@pytest.fixture
def topic(kafka_broker: str, make_topic: Callable[[str, int], str]) -> str:
    name = make_topic("events", 2)
    producer = Producer({"bootstrap.servers": kafka_broker})
    for number in range(10):
        producer.produce(name, b"x", partition=0, key=str(number))
    producer.flush(10)
    return name


def delete_before(kafka_broker: str, topic: str, offset: int) -> None:
    client = AdminClient({"bootstrap.servers": kafka_broker})
    for future in client.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(10)


def test_a_new_journal_starts_where_kafka_does(kafka_broker: str, topic: str) -> None:
    held = watermarks(kafka_broker, [topic])
    assert held == {topic: {0: (0, 10), 1: (0, 0)}}
    check_marks(starts(held), held)
    check_marks({topic: {0: 10, 1: 0}}, held)


def test_offsets_that_kafka_deleted_before_they_were_decided_stop_the_start(kafka_broker: str, topic: str) -> None:
    delete_before(kafka_broker, topic, 6)
    held = watermarks(kafka_broker, [topic])
    check_marks({topic: {0: 6, 1: 0}}, held)
    with pytest.raises(OffsetsLost, match="offset 5 is next, Kafka holds 6 to 10"):
        check_marks({topic: {0: 5, 1: 0}}, held)


def test_a_topic_that_was_made_anew_stops_the_start(kafka_broker: str, topic: str) -> None:
    with pytest.raises(OffsetsLost):
        check_marks({topic: {0: 11, 1: 0}}, watermarks(kafka_broker, [topic]))


def test_a_topic_that_nobody_made_is_named(kafka_broker: str) -> None:
    with pytest.raises(TopicMissing, match=r"nobody\.made\.this"):
        watermarks(kafka_broker, ["nobody.made.this"])
