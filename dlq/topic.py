"""Checks a stream's dead-letter topic before the stream starts: its owner must have marked it as one.

The mark is the topic's configuration `errors.deadletterqueue.group.enable` (KIP-1191, from Kafka 4.4). A broker that
doesn't know it is asked for less: the stream's configuration names the topic, and the name begins with ``dlq.prefix``.
"""

from __future__ import annotations

import logging
import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from core.errors import PayhookError
from core.settings import KafkaSettings, topic_config
from core.topics import ASK_S_MAX, KNOWN_TRIES_MAX, KNOWN_WAIT_S, answer_of, kafka_tool_command, read_topic_config
from dlq.settings import DLQ_PREFIX

log = logging.getLogger(__name__)

MARK = "errors.deadletterqueue.group.enable"


class DlqTopicRefused(PayhookError):
    def __init__(self, topic: str, problem: str, command: str) -> None:
        self.topic = topic
        self.problem = problem
        self.command = command
        super().__init__(f"dead-letter topic {topic}: {problem}. To fix it: {command}")


class DlqTopics:
    def __init__(self, client: AdminClient, kafka: KafkaSettings) -> None:
        self._client = client
        self._kafka = kafka

    def check(
        self,
        stream: str,
        topic: str,
        partitions_min: int,
        *,
        create: bool,
        replication: int,
        prefix: str = DLQ_PREFIX,
    ) -> None:
        """Checks that the topic exists, is marked and has a partition for each of the source's.

        :param partitions_min: those of the source: a dead letter goes to the partition it came from
        :param create: make it if it isn't there
        :raises DlqTopicRefused: with the command that corrects it
        :raises KafkaException: Kafka can't be asked
        """
        if not topic.startswith(prefix):
            fix = f"set dlq.topic of the stream {stream} to {prefix}{stream}"
            raise DlqTopicRefused(topic, f"its name doesn't begin with {prefix}", fix)
        partitions = self._count_partitions(topic)
        if partitions is None:
            if not create:
                fix = f"{self._create_command(topic, partitions_min)} (or set dlq.create_topic of the stream {stream})"
                raise DlqTopicRefused(topic, "it doesn't exist, and dlq.create_topic is off", fix)
            self._create_topic(topic, partitions_min, replication)
            return
        if partitions < partitions_min:
            fix = kafka_tool_command(
                "kafka-topics.sh", self._kafka, f"--alter --topic {topic} --partitions {partitions_min}"
            )
            raise DlqTopicRefused(topic, f"it has {partitions} partitions, its source has {partitions_min}", fix)
        if self._read_mark(topic) == "false":
            change = f"--alter --entity-type topics --entity-name {topic} --add-config {MARK}=true"
            problem = f"it isn't marked as one: its owner hasn't set {MARK}"
            raise DlqTopicRefused(topic, problem, kafka_tool_command("kafka-configs.sh", self._kafka, change))

    def mark_topic(self, topic: str) -> bool:
        """Marks a topic of payhook's own; returns whether the broker knows the mark."""
        known = self._read_mark(topic)
        if known == "false":
            change = ConfigEntry(MARK, "true", incremental_operation=AlterConfigOpType.SET)
            wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
            for future in self._client.incremental_alter_configs([wanted]).values():
                answer_of(future, ASK_S_MAX)
            self._await_mark(topic)
        return known is not None

    def _await_mark(self, topic: str) -> None:
        for _ in range(KNOWN_TRIES_MAX):
            if self._read_mark(topic) != "false":
                return
            time.sleep(KNOWN_WAIT_S)

    def _count_partitions(self, topic: str) -> int | None:
        known = self._client.list_topics(timeout=ASK_S_MAX).topics
        return len(known[topic].partitions) if topic in known else None

    def _read_mark(self, topic: str) -> str | None:
        entries = read_topic_config(self._client, topic)
        return str(entries[MARK].value).lower() if MARK in entries else None

    def _create_topic(self, topic: str, partitions: int, replication: int) -> None:
        config = topic_config(replication)
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=replication, config=config)
        (made,) = self._client.create_topics([wanted]).values()
        try:
            answer_of(made, ASK_S_MAX)
        except KafkaException as refused:
            if refused.args[0].code() == KafkaError.REQUEST_TIMED_OUT:
                raise
            if refused.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                fix = self._create_command(topic, partitions)
                raise DlqTopicRefused(topic, f"it can't be made: {refused.args[0]}", fix) from refused
        self.mark_topic(topic)
        log.warning("%s was made, with %d partitions and the broker's retention", topic, partitions)

    def _create_command(self, topic: str, partitions: int) -> str:
        return kafka_tool_command("kafka-topics.sh", self._kafka, f"--create --topic {topic} --partitions {partitions}")
