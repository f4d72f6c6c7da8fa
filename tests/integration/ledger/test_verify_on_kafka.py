"""Verification beside a real broker, index and postings of their real writers included."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from core.settings import KafkaSettings
from journal.kafka_log import KafkaLog, KafkaSilent
from ledger.verify.kafka import KafkaUnreachable, RealKafka
from stack.servers.ports import LOOPBACK, free_ports


@pytest.fixture
def produce(kafka_broker: str) -> Callable[..., None]:
    producer = Producer({"bootstrap.servers": kafka_broker, "acks": "all"})

    def send(topic: str, partition: int, value: bytes | None, **headers: bytes) -> None:
        producer.produce(topic, value=value, partition=partition, headers=list(headers.items()))
        assert producer.flush(60) == 0

    return send


def test_the_ends_of_partitions_and_the_age_of_a_record(
    kafka_broker: str, make_topic: Callable[[str, int], str], produce: Callable[..., None]
) -> None:
    topic = make_topic("events", 2)
    before = datetime.now(UTC).replace(microsecond=0)
    produce(topic, 1, b"a")
    produce(topic, 1, b"b")
    kafka = RealKafka(KafkaSettings(bootstrap_servers=kafka_broker))
    assert kafka.find_ends([topic, "no-such-topic"]) == {topic: {0: (0, 0), 1: (0, 2)}}
    written = kafka.timestamp(topic, 1, 1)
    assert written is not None and before <= written <= datetime.now(UTC)
    assert kafka.timestamp(topic, 1, 2) is None


def test_a_record_that_does_not_come_is_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what waits there would count as settled, and its receipts as never decided."""
    monkeypatch.setattr("journal.kafka_log.READ_S_MAX", 0.5)
    (port,) = free_ports(1)
    with (
        closing(KafkaLog(KafkaSettings(bootstrap_servers=f"{LOOPBACK}:{port}"))) as log,
        pytest.raises(KafkaSilent, match="no record came"),
    ):
        log.first_records([("payments.events", 0, 0)])
    monkeypatch.setattr("journal.kafka_log.ANSWER_S_MAX", 0.5)
    with pytest.raises(KafkaUnreachable, match="doesn't answer"):
        RealKafka(KafkaSettings(bootstrap_servers=f"{LOOPBACK}:{port}")).timestamp("payments.events", 0, 0)


def test_all_that_a_topic_holds(
    kafka_broker: str, make_topic: Callable[[str, int], str], produce: Callable[..., None]
) -> None:
    topic = make_topic("dlq.ledger", 2)
    produce(topic, 0, b"body", seq=b"7")
    produce(topic, 1, None, seq=b"8")
    records = dict(RealKafka(KafkaSettings(bootstrap_servers=kafka_broker)).records(topic))
    assert {partition: (record.offset, record.value) for partition, record in records.items()} == {
        0: (0, b"body"),
        1: (0, None),
    }
    assert records[0].headers == (("seq", b"7"),)


def test_a_kafka_that_does_not_answer_is_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in flight can't be known then, so nothing is claimed."""
    monkeypatch.setattr("journal.kafka_log.ANSWER_S_MAX", 0.5)
    (port,) = free_ports(1)
    with pytest.raises(KafkaUnreachable, match="doesn't answer"):
        RealKafka(KafkaSettings(bootstrap_servers=f"{LOOPBACK}:{port}")).find_ends(["payments.events"])
