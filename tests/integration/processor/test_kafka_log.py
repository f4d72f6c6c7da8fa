"""What Kafka says of its topics, on a real broker: ids, ranges, single records."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from core.settings import KafkaSettings
from journal.kafka_log import KafkaLog, TopicMissing
from stack.topics import Topic, make_topics
from tests.hosts import until

RECORDS = 10


@pytest.fixture
def topic(kafka_broker: str, make_topic: Callable[[str, int], str]) -> str:
    name = make_topic("events", 2)
    _fill(kafka_broker, name)
    return name


def _fill(kafka_broker: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka_broker})
    for number in range(RECORDS):
        producer.produce(topic, b"body %d" % number, partition=0, headers=[("event_key", b"evt_%d" % number)])
    assert producer.flush(30) == 0


@pytest.fixture
def log(kafka_broker: str) -> Iterator[KafkaLog]:
    opened = KafkaLog(KafkaSettings(bootstrap_servers=kafka_broker))
    yield opened
    opened.close()


def delete_before(kafka_broker: str, topic: str, offset: int) -> None:
    client = AdminClient({"bootstrap.servers": kafka_broker})
    for future in client.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(30)


def test_ranges_are_what_is_held(kafka_broker: str, topic: str, log: KafkaLog) -> None:
    assert log.read_held_offsets([topic]) == {topic: {0: (0, RECORDS), 1: (0, 0)}}
    delete_before(kafka_broker, topic, 6)
    assert log.read_held_offsets([topic]) == {topic: {0: (6, RECORDS), 1: (0, 0)}}


def test_single_records_are_read_with_their_headers_and_what_is_not_there_is_left_out(
    kafka_broker: str, topic: str, log: KafkaLog
) -> None:
    delete_before(kafka_broker, topic, 2)
    points = [(topic, 0, offset) for offset in (1, 2, 9, 10, 500)] + [(topic, 1, 0)]
    found = log.records_at(points)
    assert sorted(found) == [(topic, 0, 2), (topic, 0, 9)]
    assert found[topic, 0, 9].value == b"body 9"
    assert found[topic, 0, 9].headers == (("event_key", b"evt_9"),)
    nexts = log.next_offsets([(topic, 0, 4), (topic, 0, 10), (topic, 1, 0)])
    assert nexts == {(topic, 0, 4): 4}


def test_a_run_of_records_is_read_in_order(topic: str, log: KafkaLog) -> None:
    assert [one.offset for one in log.records(topic, 0, 3, 7)] == [3, 4, 5, 6]
    assert [one.offset for one in log.records(topic, 0, 8, 500)] == [8, 9]
    assert list(log.records(topic, 1, 0, 5)) == []


def test_the_marker_of_a_transaction_is_a_gap(kafka_broker: str, make_topic: Callable[[str, int], str]) -> None:
    topic = make_topic("mirrored", 1)
    producer = Producer({"bootstrap.servers": kafka_broker, "transactional.id": f"mirror-{topic}"})
    producer.init_transactions(60)
    for number in range(2):
        producer.begin_transaction()
        producer.produce(topic, b"body %d" % number, partition=0)
        producer.commit_transaction(60)
    log = KafkaLog(KafkaSettings(bootstrap_servers=kafka_broker))
    try:
        assert log.read_held_offsets([topic]) == {topic: {0: (0, 4)}}
        points = [(topic, 0, 0), (topic, 0, 1), (topic, 0, 3)]
        assert log.next_offsets(points) == {(topic, 0, 0): 0, (topic, 0, 1): 2}
        assert [one.offset for one in log.records(topic, 0, 0, 4)] == [0, 2]
    finally:
        log.close()


def test_a_topic_that_is_created_again_has_another_id(kafka_broker: str, topic: str, log: KafkaLog) -> None:
    before = log.topic_ids([topic])
    assert log.topic_ids([topic]) == before
    admin = AdminClient({"bootstrap.servers": kafka_broker})
    admin.delete_topics([topic])[topic].result(30)
    make_topics(KafkaSettings(bootstrap_servers=kafka_broker), [Topic(topic, 2, 86_400_000)], 1)

    def has_another() -> bool:
        """The controller has made it; the broker that is asked may come to know it later."""
        try:
            return log.topic_ids([topic])[topic] not in ("", before[topic])
        except TopicMissing:
            return False

    until(has_another, 30, "the broker knows the new topic")


def test_a_topic_that_does_not_exist_is_named(log: KafkaLog) -> None:
    for ask in (log.read_held_offsets, log.topic_ids):
        with pytest.raises(TopicMissing, match=r"no\.such\.topic"):
            ask(["no.such.topic"])
