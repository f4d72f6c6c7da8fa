"""Looks at Kafka's topics: whether they keep what they acknowledge (`core.settings`)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from core.errors import PayhookError
from core.routing import is_events
from core.settings import CLEANUP, IN_SYNC, IN_SYNC_MIN, RECORD_BYTES, REPLICAS_MIN, UNCLEAN, Durability, KafkaSettings

T = TypeVar("T")

ONE_BROKER = 'Where one broker is meant to be all there is, set kafka.durability to "single".'

ASK_S_MAX = 15.0
KNOWN_TRIES_MAX = 50
KNOWN_WAIT_S = 0.1


@dataclass(frozen=True, slots=True)
class TopicFault:
    topic: str
    problem: str
    remedy: str


class TopicsUnfit(PayhookError):
    def __init__(self, faults: tuple[TopicFault, ...], durability: Durability) -> None:
        self.faults = faults
        self.durability = durability
        lines = [f"topic {fault.topic}: {fault.problem}. To fix it: {fault.remedy}" for fault in faults]
        if durability == "replicated":
            lines.append(ONE_BROKER)
        super().__init__("\n".join(lines))


def check_topics(client: AdminClient, kafka: KafkaSettings, wanted: Mapping[str, int]) -> None:
    """Checks that no topic can lose what was acknowledged, and that each takes the records that are sent to it.

    Every topic exists with the configured partitions, deletes records by age alone, and elects no leader that lacks
    records. With ``kafka.durability`` ``replicated``, each partition has three replicas, and two have a record before
    it is acknowledged.

    :param wanted: bytes of a record that is sent to each topic
    :raises TopicsUnfit: it isn't so
    :raises KafkaException: Kafka can't be asked
    """
    durability = kafka.durability
    topics = client.list_topics(timeout=ASK_S_MAX).topics
    faults: list[TopicFault] = []
    for topic, record_bytes in wanted.items():
        if topic not in topics:
            faults.append(TopicFault(topic, "it isn't there", "python -m stack.topics"))
            continue
        partitions = len(topics[topic].partitions)
        if is_events(topic) and partitions < kafka.events_partitions:
            problem = f"it has {partitions} partitions, kafka.events_partitions is {kafka.events_partitions}"
            faults.append(TopicFault(topic, problem, "python -m stack.topics"))
        if durability == "replicated":
            faults += _check_replication(topic, topics[topic].partitions)
        changes = dict(_find_changes(read_topic_config(client, topic), record_bytes, durability))
        if changes:
            problem = ", ".join(f"{name} is {was}" for name, (was, _) in changes.items())
            settings = ",".join(f"{name}={expected}" for name, (_, expected) in changes.items())
            change = f"--alter --entity-type topics --entity-name {topic} --add-config {settings}"
            faults.append(TopicFault(topic, problem, kafka_tool_command("kafka-configs.sh", kafka, change)))
    if faults:
        raise TopicsUnfit(tuple(faults), durability)


def read_topic_config(client: AdminClient, topic: str) -> dict[str, Any]:
    """Reads a topic's configuration, with its broker's defaults. It waits for a topic that was made a moment ago.

    :raises KafkaException: Kafka can't be asked
    """
    for tries_left in range(KNOWN_TRIES_MAX - 1, -1, -1):
        (future,) = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        try:
            entries: dict[str, Any] = answer_of(future, ASK_S_MAX)
            return entries
        except KafkaException as unknown:
            if unknown.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART or tries_left == 0:
                raise
            time.sleep(KNOWN_WAIT_S)
    raise AssertionError("at least one try is made")


def answer_of(asked: Future[T], s_max: float) -> T:
    """Waits for the answer to an admin client's request.

    :raises KafkaException: it is refused, or nothing comes within ``s_max`` seconds
    """
    try:
        return asked.result(s_max)
    except TimeoutError as silent:
        raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT, f"no answer within {s_max:g} s")) from silent


def kafka_tool_command(tool: str, kafka: KafkaSettings, arguments: str) -> str:
    secured = "" if kafka.security.protocol == "PLAINTEXT" else " --command-config FILE"
    return f"{tool} --bootstrap-server {kafka.bootstrap_servers}{secured} {arguments}"


def _check_replication(topic: str, partitions: Mapping[int, Any]) -> Iterator[TopicFault]:
    fewest = min((len(partition.replicas) for partition in partitions.values()), default=0)
    if fewest < REPLICAS_MIN:
        problem = f"a partition has {fewest} replicas, {REPLICAS_MIN} are the least"
        yield TopicFault(topic, problem, f"give each of its partitions {REPLICAS_MIN} by kafka-reassign-partitions.sh")


def _find_changes(
    entries: Mapping[str, Any], record_bytes: int, durability: Durability
) -> Iterator[tuple[str, tuple[str, str]]]:
    is_now = {name: str(entries[name].value) for name in (CLEANUP, UNCLEAN, RECORD_BYTES, IN_SYNC)}
    if is_now[CLEANUP] != "delete":
        yield CLEANUP, (is_now[CLEANUP], "delete")
    if is_now[UNCLEAN] != "false":
        yield UNCLEAN, (is_now[UNCLEAN], "false")
    if int(is_now[RECORD_BYTES]) < record_bytes:
        yield RECORD_BYTES, (is_now[RECORD_BYTES], str(record_bytes))
    if durability == "replicated" and int(is_now[IN_SYNC]) < IN_SYNC_MIN:
        yield IN_SYNC, (is_now[IN_SYNC], str(IN_SYNC_MIN))
