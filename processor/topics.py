"""Checks the topics of a stream before it begins: its own, and that of its dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from core.clock import Clock
from core.kafka import open_admin, open_producer
from core.record_keys import RecordKeys
from core.routing import topics_of
from core.settings import RECORD_BYTES_MAX, KafkaSettings, TopicsSettings
from core.topics import check_topics
from dlq.topic import DlqTopics
from journal.anchors import AnchorKeys
from journal.kafka_log import Held, translate_kafka_errors
from processor.backlog.sizing import Executors
from processor.claims import ReceiverClaims
from processor.wiring import Wired
from providers.port import Adapter


@dataclass(frozen=True, slots=True)
class SharedResources:
    """The things that the streams of one Spark application share. ``executors`` run its tasks.

    ``record_keys``: sign and check events and commands. ``claims``: of the receivers that publish their events.
    """

    session: SparkSession
    kafka: KafkaSettings
    topics: TopicsSettings
    adapters: Mapping[str, Adapter]
    clock: Clock
    executors: Executors
    anchor_keys: AnchorKeys
    record_keys: RecordKeys | None
    claims: ReceiverClaims | None = None

    def task_counter(self, tasks_max: int) -> Callable[[], int]:
        """Makes a function that says how many tasks of a stream's handlers run at a time now.

        :param tasks_max: what the stream's settings allow; 0: as many as the executors have
        """
        return lambda: tasks_max or self.executors.tasks


def check_dead_letter_topic(wired: Wired, shared: SharedResources, held: Held) -> None:
    """
    :raises DlqTopicRefused: the topic can't take the stream's dead letters
    :raises KafkaSilent: Kafka doesn't answer
    """
    dlq = wired.config.dlq
    partitions = max((max(numbers) + 1 for numbers in held.values() if numbers), default=1)
    replication = shared.topics.count_replicas(shared.kafka.durability)
    topics = DlqTopics(open_admin(shared.kafka), shared.kafka)
    topic = wired.dlq_topic
    with translate_kafka_errors():
        topics.check(
            *(wired.config.name, topic, partitions),
            create=dlq.create_topic,
            replication=replication,
            prefix=dlq.prefix,
        )


def check_own_topics(wired: Wired, shared: SharedResources) -> None:
    """Checks payhook's own topics, not another program's.

    :raises TopicsUnfit: one of them could lose records
    :raises KafkaSilent: Kafka doesn't answer
    """
    names = topics_of(wired.mode)
    record_bytes = {names.control: 0, wired.dlq_topic: 0}
    if wired.events_topic == names.events:
        record_bytes[names.events] = RECORD_BYTES_MAX
    with translate_kafka_errors():
        check_topics(open_admin(shared.kafka), shared.kafka, record_bytes)


def make_dead_letter_producer(kafka: KafkaSettings) -> Callable[[], Any]:
    """Makes a producer that never creates a missing topic.

    Such a topic would have the broker's number of partitions, and no mark.
    """
    settings: dict[str, Any] = {
        "acks": "all",
        "enable.idempotence": True,
        "allow.auto.create.topics": False,
    }
    return partial(open_producer, kafka, settings)
