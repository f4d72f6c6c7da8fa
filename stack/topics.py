"""Makes Kafka's topics, as configured; ``python -m stack.topics`` does it on a broker of one's own."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from core.errors import PayhookError
from core.kafka import open_admin
from core.routing import topics_of
from core.settings import RECORD_BYTES_MAX, KafkaSettings, topic_config
from core.topics import ONE_BROKER, answer_of, check_topics
from dlq.topic import DlqTopics
from processor.streams import list_enabled
from stack.settings import Settings, load_settings, streams_of

MAKE_TIMEOUT_S = 30.0
LOOK_S = 0.05
CONTROL_PARTITIONS = RECEIPTS_PARTITIONS = 1
"""Commands have one order; a record of receipts holds hundreds."""

MILLISECONDS_A_DAY = 86_400_000
SEGMENT_MS_MAX = MILLISECONDS_A_DAY
"""Kafka removes whole segments, and by default begins a new one after a week: a quiet topic would keep bodies for that
much longer than its retention says."""


class TopicRefused(PayhookError):
    def __init__(self, topic: str, problem: str) -> None:
        self.topic = topic
        self.problem = problem
        super().__init__(f"topic {topic}: {problem}")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is made; ``retention_ms`` of -1 keeps for ever. ``is_dead_letters``: it is to be marked."""

    name: str
    partitions: int
    retention_ms: int
    is_dead_letters: bool = False


def plan_topics(settings: Settings) -> list[Topic]:
    streams, partitions = streams_of(settings), settings.kafka.events_partitions
    events_ms = settings.topics.events_retention_days * MILLISECONDS_A_DAY
    dlq_ms = settings.topics.dlq_retention_days * MILLISECONDS_A_DAY
    planned = []
    for mode in settings.ingest.taken_modes:
        names = topics_of(mode)
        dead_letters = [topic for stream in list_enabled(streams, mode) for topic in stream.dlq_topics(mode)]
        planned += [
            Topic(names.events, partitions, events_ms),
            Topic(names.control, CONTROL_PARTITIONS, -1),
            Topic(names.receipts, RECEIPTS_PARTITIONS, events_ms),
            Topic(names.anchors, 1, -1),
            *(Topic(name, partitions, dlq_ms, is_dead_letters=True) for name in dead_letters),
        ]
    return planned


def make_topics(kafka: KafkaSettings, wanted: Sequence[Topic], replication: int) -> None:
    """Makes what isn't there yet, gives a topic the partitions that it lacks, and returns once the broker serves it.
    Dead-letter topics are marked as such, those that an older broker made too.

    More partitions move no entity: events are divided by ``kafka.events_partitions`` alone.

    :raises TopicRefused: the broker refuses
    """
    client = open_admin(kafka)
    listed = client.list_topics(timeout=MAKE_TIMEOUT_S).topics
    small = [
        topic for topic in wanted if topic.name in listed and len(listed[topic.name].partitions) < topic.partitions
    ]
    grown = client.create_partitions([NewPartitions(topic.name, topic.partitions) for topic in small]) if small else {}
    for name, future in grown.items():
        try:
            answer_of(future, MAKE_TIMEOUT_S)
        except KafkaException as refused:
            raise TopicRefused(name, str(refused.args[0])) from refused
    missing = [topic for topic in wanted if topic.name not in listed]
    made = client.create_topics([_build_topic(topic, replication) for topic in missing]) if missing else {}
    for name, future in made.items():
        try:
            answer_of(future, MAKE_TIMEOUT_S)
        except KafkaException as refused:
            error = refused.args[0]
            if error.code() == KafkaError.INVALID_REPLICATION_FACTOR:
                raise TopicRefused(name, f"{error.str()} {ONE_BROKER}") from refused
            if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicRefused(name, str(error)) from refused
    _await_listing(client, {topic.name: topic.partitions for topic in [*missing, *small]})
    dead_letters = DlqTopics(client, kafka)
    for topic in wanted:
        if topic.is_dead_letters:
            dead_letters.mark_topic(topic.name)


def _await_listing(client: AdminClient, made: Mapping[str, int]) -> None:
    """Waits until the broker lists a topic's partitions: it answers some time before that it made them."""
    deadline = time.monotonic() + MAKE_TIMEOUT_S
    while True:
        listed = client.list_topics(timeout=MAKE_TIMEOUT_S).topics
        unlisted = [
            name for name, wanted in made.items() if name not in listed or len(listed[name].partitions) < wanted
        ]
        if not unlisted:
            return
        if time.monotonic() > deadline:
            raise TopicRefused(min(unlisted), f"was made, and isn't listed after {MAKE_TIMEOUT_S:.0f} s; look at Kafka")
        time.sleep(LOOK_S)


def _build_topic(topic: Topic, replication: int) -> NewTopic:
    config = {"retention.ms": str(topic.retention_ms), **topic_config(replication)}
    if topic.retention_ms > 0:
        config["segment.ms"] = str(min(SEGMENT_MS_MAX, topic.retention_ms))
    return NewTopic(topic.name, num_partitions=topic.partitions, replication_factor=replication, config=config)


def main() -> int:
    try:
        settings = load_settings()
        kafka, wanted = settings.kafka, plan_topics(settings)
        make_topics(kafka, wanted, settings.topics.count_replicas(kafka.durability))
        sizes = dict.fromkeys((topic.name for topic in wanted), RECORD_BYTES_MAX)
        check_topics(open_admin(kafka), kafka, sizes)
    except (PayhookError, KafkaException) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
