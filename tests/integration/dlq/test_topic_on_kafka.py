"""A stream's dead-letter topic on a real broker: refused with a command that mends it, and never made unasked."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from core.clock import SystemClock
from core.settings import KafkaSettings, TopicsSettings
from core.topics import read_topic_config
from dlq.topic import MARK, DlqTopicRefused, DlqTopics
from journal.anchors import AnchorKeys
from operations.settings import DlqSettings
from processor.backlog.sizing import FixedExecutors
from processor.topics import SharedResources, check_dead_letter_topic
from stack.topics import Topic, make_topics

SOURCE = {"payments.events": dict.fromkeys(range(3), (0, 0)), "payments.control": {0: (0, 0)}}
"""What Kafka holds of the stream's source: three partitions."""


@pytest.fixture
def topic() -> str:
    return f"dlq.t{uuid.uuid4().hex[:12]}"


def start(bootstrap: str, topic: str, **settings: Any) -> None:
    """As a stream does before it takes its journal."""
    config = SimpleNamespace(name="greet", dlq=DlqSettings(topic=topic, **settings))
    wired: Any = SimpleNamespace(config=config, dlq_topic=topic)
    kafka = KafkaSettings(bootstrap_servers=bootstrap, durability="single")
    one = FixedExecutors(1, 1)
    shared = SharedResources(None, kafka, TopicsSettings(), {}, SystemClock(), one, AnchorKeys(["k" * 32]), None)  # type: ignore[arg-type]
    check_dead_letter_topic(wired, shared, SOURCE)


def make_elsewhere(bootstrap: str, topic: str, **config: str) -> None:
    """As the owner of another system makes a topic."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    (made,) = client.create_topics([NewTopic(topic, 3, 1, config=config)]).values()
    made.result(60)


def mark(bootstrap: str, topic: str) -> str:
    return str(read_topic_config(AdminClient({"bootstrap.servers": bootstrap}), topic)[MARK].value)


def partitions(bootstrap: str, topic: str) -> int:
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics
    return len(found[topic].partitions) if topic in found else 0


def test_a_topic_that_is_not_there_is_refused_and_not_made(kafka_broker: str, topic: str) -> None:
    with pytest.raises(DlqTopicRefused, match=f"kafka-topics.sh .* --create --topic {topic} --partitions 3"):
        start(kafka_broker, topic)
    assert partitions(kafka_broker, topic) == 0


def test_it_is_made_with_the_sources_partitions_where_that_is_set(kafka_broker: str, topic: str) -> None:
    start(kafka_broker, topic, create_topic=True)
    assert partitions(kafka_broker, topic) == 3
    start(kafka_broker, topic)


@pytest.mark.row("E8")
def test_one_with_fewer_partitions_than_the_source_is_refused_and_left_as_it_is(kafka_broker: str, topic: str) -> None:
    make_topics(
        KafkaSettings(bootstrap_servers=kafka_broker), [Topic(topic, 2, -1, is_dead_letters=True)], replication=1
    )
    with pytest.raises(DlqTopicRefused, match=f"--alter --topic {topic} --partitions 3"):
        start(kafka_broker, topic, create_topic=True)
    assert partitions(kafka_broker, topic) == 2


@pytest.mark.row("C3")
def test_a_topic_without_the_mark_is_refused_until_its_owner_marks_it(kafka_broker: str, topic: str) -> None:
    """KIP-1191, on a broker that knows the mark."""
    make_elsewhere(kafka_broker, topic)
    with pytest.raises(DlqTopicRefused, match=f"--entity-name {topic} --add-config {MARK}=true"):
        start(kafka_broker, topic, create_topic=True)
    assert mark(kafka_broker, topic) == "false"
    assert DlqTopics(
        AdminClient({"bootstrap.servers": kafka_broker}), KafkaSettings(bootstrap_servers=kafka_broker)
    ).mark_topic(topic)
    start(kafka_broker, topic)


def test_a_topic_that_was_made_with_the_mark_is_taken(kafka_broker: str, topic: str) -> None:
    make_elsewhere(kafka_broker, topic, **{MARK: "true"})
    start(kafka_broker, topic)


def test_a_topic_that_a_stream_makes_is_marked(kafka_broker: str, topic: str) -> None:
    start(kafka_broker, topic, create_topic=True)
    assert mark(kafka_broker, topic) == "true"


def test_making_the_topics_marks_dead_letter_topics_that_an_older_broker_made(kafka_broker: str, topic: str) -> None:
    make_elsewhere(kafka_broker, topic)
    make_topics(
        KafkaSettings(bootstrap_servers=kafka_broker), [Topic(topic, 3, -1, is_dead_letters=True)], replication=1
    )
    assert mark(kafka_broker, topic) == "true"
    start(kafka_broker, topic)
