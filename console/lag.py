"""How far the processor is behind Kafka: what is there, less what is decided."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TypeAlias

from confluent_kafka import Consumer, KafkaException, TopicPartition

ANSWER_S_MAX = 2.0

Marks: TypeAlias = Mapping[str, Mapping[str, int]]
"""Topic to partition (as JSON has it) to the next offset to decide."""


class KafkaLag:
    """One connection, asked when somebody looks. ``read`` blocks: call it off the event loop."""

    def __init__(self, bootstrap: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "payhook-lag",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self._consumer = Consumer(settings)
        self._one_at_a_time = threading.Lock()

    def read(self, marks: Marks) -> dict[str, int] | None:
        """Undecided records by topic; None when Kafka doesn't say."""
        with self._one_at_a_time:
            try:
                return {topic: self._of(topic, partitions) for topic, partitions in marks.items()}
            except KafkaException:
                return None

    def close(self) -> None:
        self._consumer.close()

    def _of(self, topic: str, partitions: Mapping[str, int]) -> int:
        return sum(self._end(topic, int(number)) - until for number, until in partitions.items())

    def _end(self, topic: str, partition: int) -> int:
        _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWER_S_MAX)
        return int(end)
