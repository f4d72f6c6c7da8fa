"""The lag is what Kafka holds less what is decided, and unknown when Kafka doesn't answer."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Producer

from console.health import KafkaLag
from core.settings import KafkaSettings
from stack.servers.ports import LOOPBACK, free_ports


def test_undecided_records_are_counted_over_all_partitions(
    kafka_broker: str, make_topic: Callable[[str, int], str]
) -> None:
    topic = make_topic("events", 2)
    producer = Producer({"bootstrap.servers": kafka_broker})
    for number in range(5):
        producer.produce(topic, b"x", partition=number % 2)
    assert producer.flush(60) == 0
    lag = KafkaLag(KafkaSettings(bootstrap_servers=kafka_broker))
    try:
        assert lag.read({topic: {"0": 0, "1": 0}}) == {topic: 5}
        assert lag.read({topic: {"0": 3, "1": 1}}) == {topic: 1}
        assert lag.read({}) == {}
    finally:
        lag.close()


def test_without_kafka_the_lag_is_unknown() -> None:
    (port,) = free_ports(1)
    lag = KafkaLag(KafkaSettings(bootstrap_servers=f"{LOOPBACK}:{port}"))
    try:
        assert lag.read({"payments.events": {"0": 0}}) is None
    finally:
        lag.close()
