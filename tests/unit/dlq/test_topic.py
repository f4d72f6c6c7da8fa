"""A stream's dead letters go only to a topic that is marked as one; else a sentence says what mends it."""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from core.settings import KafkaSettings
from dlq.topic import MARK, DlqTopicRefused, DlqTopics


@dataclass
class Entry:
    value: str


@dataclass
class ListedTopic:
    partitions: dict[int, object]


def done(result: object = None, failure: Exception | None = None) -> Future[Any]:
    future: Future[Any] = Future()
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
    return future


@dataclass
class PartitionedTopics:
    """Topics with their number of partitions. ``marks``: None on a broker that doesn't know the mark."""

    known: dict[str, int]
    marks: dict[str, str] | None = None
    unknown_for: int = 0
    marked_late: int = 0
    """So many answers after a change are still those from before it."""
    changed: list[str] = field(default_factory=list)

    def list_topics(self, timeout: float) -> Any:
        topics = {name: ListedTopic(dict.fromkeys(range(count))) for name, count in self.known.items()}
        return type("Metadata", (), {"topics": topics})

    def describe_configs(self, resources: list[Any]) -> dict[Any, Future[Any]]:
        (resource,) = resources
        if self.unknown_for:
            self.unknown_for -= 1
            return {resource: done(failure=KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))}
        entries = {"retention.ms": Entry("1")}
        if self.marks is not None:
            late = resource.name in self.changed and self.marked_late > 0
            self.marked_late -= late
            entries[MARK] = Entry("false" if late else self.marks.get(resource.name, "false"))
        return {resource: done(entries)}

    def incremental_alter_configs(self, resources: list[Any]) -> dict[Any, Future[Any]]:
        (resource,) = resources
        assert self.marks is not None
        self.marks[resource.name] = "true"
        self.changed.append(resource.name)
        return {resource: done()}

    def create_topics(self, wanted: list[Any]) -> dict[str, Future[Any]]:
        (topic,) = wanted
        self.known[topic.topic] = topic.num_partitions
        return {topic.topic: done()}


def check(broker: PartitionedTopics, topic: str = "dlq.greet", partitions: int = 4, *, create: bool = False) -> None:
    topics = DlqTopics(broker, KafkaSettings(bootstrap_servers="kafka:9092"))  # type: ignore[arg-type]
    topics.check("greet", topic, partitions, create=create, replication=1)


@pytest.mark.parametrize("partitions", [4, 6])
def test_a_topic_with_a_partition_for_each_of_its_source_is_taken(partitions: int) -> None:
    check(PartitionedTopics({"dlq.greet": partitions}))


@pytest.mark.row("C2")
@pytest.mark.row("C3")
@pytest.mark.parametrize(
    ("broker", "topic", "reported"),
    [
        (
            PartitionedTopics({}),
            "dlq.greet",
            "--create --topic dlq.greet --partitions 4 (or set dlq.create_topic of the stream",
        ),
        (PartitionedTopics({"dlq.greet": 3}), "dlq.greet", "--alter --topic dlq.greet --partitions 4"),
        (PartitionedTopics({"graveyard": 4}), "graveyard", "set dlq.topic of the stream greet to dlq.greet"),
        (
            PartitionedTopics({"dlq.greet": 4}, marks={}),
            "dlq.greet",
            f"--entity-name dlq.greet --add-config {MARK}=true",
        ),
    ],
    ids=["not there", "too few partitions", "no prefix", "not marked"],
)
def test_any_other_topic_is_refused_with_the_command_that_mends_it(
    broker: PartitionedTopics, topic: str, reported: str
) -> None:
    before = dict(broker.known)
    with pytest.raises(DlqTopicRefused) as raised:
        check(broker, topic)
    assert reported in str(raised.value)
    assert reported in raised.value.command
    assert broker.known == before
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_a_topic_that_its_owner_marked_is_taken() -> None:
    check(PartitionedTopics({"dlq.greet": 4}, marks={"dlq.greet": "true"}))


@pytest.mark.parametrize("marks", [None, {}], ids=["a broker that knows no mark", "one that does"])
def test_it_is_made_where_that_is_set_and_marked_where_the_broker_knows_how(marks: dict[str, str] | None) -> None:
    broker = PartitionedTopics({}, marks=marks, unknown_for=1)
    check(broker, create=True)
    assert broker.known == {"dlq.greet": 4}
    assert broker.changed == ([] if marks is None else ["dlq.greet"])
    check(broker)


def test_a_topic_that_was_just_made_is_taken_though_the_broker_learns_of_its_mark_later() -> None:
    broker = PartitionedTopics({}, marks={}, marked_late=2)
    check(broker, create=True)
    check(broker)


def test_somebody_elses_topic_is_never_marked() -> None:
    broker = PartitionedTopics({"dlq.greet": 4}, marks={})
    with pytest.raises(DlqTopicRefused):
        check(broker, create=True)
    assert broker.changed == []
