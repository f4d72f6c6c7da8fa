"""Kafka's topics are looked at before anything is taken: each that could lose records is named with what mends it."""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from core.settings import RECORD_BYTES_MAX, Durability, KafkaSettings, topic_config
from core.topics import TopicFault, TopicsUnfit, check_topics


@dataclass
class DescribedTopic:
    """As a broker describes it; on ``replicas`` brokers."""

    replicas: int = 3
    partitions: int = 4
    changed: dict[str, str] = field(default_factory=dict)

    @property
    def entries(self) -> dict[str, Any]:
        config = {"retention.ms": "-1", **topic_config(self.replicas), **self.changed}
        return {name: SimpleNamespace(value=value) for name, value in config.items()}


@dataclass
class TopicsAdmin:
    """An `AdminClient` of a broker that has these topics."""

    topics: dict[str, DescribedTopic]
    failure: KafkaException | None = None
    is_silent: bool = False
    """It tells which topics there are, and nothing of their configuration."""

    def list_topics(self, timeout: float) -> Any:
        assert timeout > 0
        if self.failure is not None:
            raise self.failure
        of_one = {name: [SimpleNamespace(replicas=list(range(one.replicas)))] for name, one in self.topics.items()}
        listed = {
            name: SimpleNamespace(partitions=dict(enumerate(found * self.topics[name].partitions)))
            for name, found in of_one.items()
        }
        return SimpleNamespace(topics=listed)

    def describe_configs(self, resources: list[Any]) -> dict[Any, Future[Any]]:
        (resource,) = resources
        answer: Future[Any] = Future()
        if self.is_silent:
            answer.set_exception(TimeoutError())
        else:
            answer.set_result(self.topics[resource.name].entries)
        return {resource: answer}


def check(topics: dict[str, DescribedTopic], durability: Durability = "replicated", **wanted: int) -> None:
    sizes = wanted or dict.fromkeys(topics, RECORD_BYTES_MAX)
    check_topics(TopicsAdmin(topics), KafkaSettings(bootstrap_servers="kafka:9092", durability=durability), sizes)  # type: ignore[arg-type]


def faults(topics: dict[str, DescribedTopic], durability: Durability = "replicated", **wanted: int) -> list[TopicFault]:
    with pytest.raises(TopicsUnfit) as refused:
        check(topics, durability, **wanted)
    return list(refused.value.faults)


def test_topics_are_fit_as_they_are_made() -> None:
    check({"events": DescribedTopic(), "control": DescribedTopic(replicas=5)})
    check({"events": DescribedTopic(replicas=1)}, "single")


@pytest.mark.parametrize("replicas", [1, 2])
def test_too_few_replicas_are_refused_where_more_are_asked_for(replicas: int) -> None:
    topic = DescribedTopic(replicas, changed={"min.insync.replicas": "2"})
    [fault] = faults({"events": topic})
    assert fault.problem == f"a partition has {replicas} replicas, 3 are the least"
    assert "kafka-reassign-partitions.sh" in fault.remedy
    check({"events": topic}, "single")


@pytest.mark.parametrize(
    ("name", "value", "durability"),
    [
        ("min.insync.replicas", "1", "replicated"),
        ("unclean.leader.election.enable", "true", "replicated"),
        ("unclean.leader.election.enable", "true", "single"),
        ("max.message.bytes", "1048588", "replicated"),
        ("max.message.bytes", "1048588", "single"),
        ("cleanup.policy", "compact", "replicated"),
        ("cleanup.policy", "compact,delete", "single"),
    ],
)
def test_what_loses_records_or_refuses_them_is_named_with_the_command_that_changes_it(
    name: str, value: str, durability: Durability
) -> None:
    [fault] = faults({"events": DescribedTopic(changed={name: value}), "control": DescribedTopic()}, durability)
    right = {**topic_config(3), "max.message.bytes": str(RECORD_BYTES_MAX)}[name]
    assert fault == TopicFault(
        "events",
        f"{name} is {value}",
        "kafka-configs.sh --bootstrap-server kafka:9092 --alter --entity-type topics --entity-name events "
        f"--add-config {name}={right}",
    )


def test_a_topic_needs_to_take_no_larger_records_than_are_sent_to_it() -> None:
    check({"receipts": DescribedTopic(changed={"max.message.bytes": "1048588"})}, receipts=0)


def test_one_acknowledging_broker_is_enough_where_one_is_all_there_is() -> None:
    check({"events": DescribedTopic(changed={"min.insync.replicas": "1"})}, "single")


def test_a_topic_that_is_not_there_is_refused() -> None:
    [fault] = faults({"events": DescribedTopic()}, events=0, control=0)
    assert (fault.topic, fault.problem, fault.remedy) == ("control", "it isn't there", "python -m stack.topics")


def test_a_topic_of_events_with_fewer_partitions_than_are_configured_is_refused() -> None:
    kafka = KafkaSettings(durability="single")
    check_topics(TopicsAdmin({"payments.events": DescribedTopic(partitions=9)}), kafka, {"payments.events": 0})  # type: ignore[arg-type]
    with pytest.raises(TopicsUnfit) as refused:
        check_topics(TopicsAdmin({"payments.events": DescribedTopic(partitions=3)}), kafka, {"payments.events": 0})  # type: ignore[arg-type]
    [fault] = refused.value.faults
    assert fault.problem == "it has 3 partitions, kafka.events_partitions is 4"
    assert fault.remedy == "python -m stack.topics"


def test_everything_that_is_wrong_is_said_at_once() -> None:
    events = DescribedTopic(1, changed={"cleanup.policy": "compact", "unclean.leader.election.enable": "true"})
    with pytest.raises(TopicsUnfit) as refused:
        check({"events": events, "control": DescribedTopic()}, events=0, control=0, dlq=0)
    lines = str(refused.value).splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["topic events", "topic events", "topic dlq"]
    assert "cleanup.policy is compact, unclean.leader.election.enable is true, min.insync.replicas is 1" in lines[1]
    assert lines[1].endswith("cleanup.policy=delete,unclean.leader.election.enable=false,min.insync.replicas=2")
    assert lines[3] == 'Where one broker is meant to be all there is, set kafka.durability to "single".'
    back = pickle.loads(pickle.dumps(refused.value))
    assert (back.faults, str(back)) == (refused.value.faults, str(refused.value))


def test_a_kafka_that_does_not_describe_its_topics_in_time_is_one_that_cannot_be_asked() -> None:
    silent = TopicsAdmin({"events": DescribedTopic(1)}, is_silent=True)
    with pytest.raises(KafkaException) as failed:
        check_topics(silent, KafkaSettings(durability="single"), {"events": 0})  # type: ignore[arg-type]
    assert failed.value.args[0].code() == KafkaError.REQUEST_TIMED_OUT
    assert "no answer within 15 s" in str(failed.value)


def test_a_kafka_that_cannot_be_asked_is_not_called_unfit() -> None:
    down = TopicsAdmin({}, KafkaException(KafkaError(KafkaError._TRANSPORT)))
    with pytest.raises(KafkaException):
        check_topics(down, KafkaSettings(durability="single"), {"events": 0})  # type: ignore[arg-type]
