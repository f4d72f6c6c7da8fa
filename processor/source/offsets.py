"""What Kafka holds, asked once at start: a mark that Kafka can't serve must stop the stream."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from core.errors import PayhookError
from journal.marks import Marks

ANSWER_S_MAX = 10.0


class TopicMissing(PayhookError):
    """A topic that the set-up should have made isn't there."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(f"the Kafka topic {topic} doesn't exist; run the set-up that makes the topics")


class OffsetsLost(PayhookError):
    """Kafka no longer holds, or never held, the offsets that come next."""

    def __init__(self, topic: str, partition: int, until: int, low: int, high: int) -> None:
        self.topic = topic
        self.partition = partition
        self.until = until
        self.low = low
        self.high = high
        super().__init__(
            f"{topic}[{partition}]: offset {until} is next, Kafka holds {low} to {high}. Events were lost, or the "
            "topic was made anew. Restore the topic, or settle with finance what was lost, before starting again."
        )


def watermarks(bootstrap: str, topics: Sequence[str]) -> dict[str, dict[int, tuple[int, int]]]:
    """First offset held and next offset written, by topic and partition.

    :raises TopicMissing: one of the topics doesn't exist
    """
    known = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=ANSWER_S_MAX).topics
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "payhook-watermarks", "enable.auto.commit": False})
    try:
        held: dict[str, dict[int, tuple[int, int]]] = {}
        for topic in topics:
            if topic not in known:
                raise TopicMissing(topic)
            held[topic] = {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=ANSWER_S_MAX)
                for number in sorted(known[topic].partitions)
            }
        return held
    finally:
        consumer.close()


def starts(held: dict[str, dict[int, tuple[int, int]]]) -> Marks:
    """Where a journal that knows nothing of a partition begins: at what Kafka still holds."""
    return {topic: {number: low for number, (low, _) in ends.items()} for topic, ends in held.items()}


def check_marks(marks: Marks, held: dict[str, dict[int, tuple[int, int]]]) -> None:
    """
    :raises OffsetsLost: a mark lies outside what Kafka holds
    """
    for topic, partitions in marks.items():
        for number, until in partitions.items():
            low, high = held.get(topic, {}).get(number, (0, 0))
            if not low <= until <= high:
                raise OffsetsLost(topic, number, until, low, high)
