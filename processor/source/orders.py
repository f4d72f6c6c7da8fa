"""The control topic read beside Spark, for as long as a stream is blocked and takes no batches."""

from __future__ import annotations

import logging

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from journal.state import Marks
from processor.decide.intake import KafkaRecord

log = logging.getLogger(__name__)

RECORDS_MAX = 10
"""Of one read: an order may name thousands of items."""

READ_S_MAX = 0.05
OFFSETS_LOST = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)  # noqa: SLF001  the library's public name


class ControlTopic:
    """Reads one topic from a journal's marks on (`processor.source.while_blocked.Orders`).

    No offsets are committed: the marks say what is decided. A command's headers mean nothing and are left out.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "payhook-control",
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "enable.auto.commit": False,
            }
        )
        self._assigned: dict[int, int] | None = None

    def read(self, marks: Marks) -> list[KafkaRecord]:
        """Records from the marks on, in each partition's order; empty where none has come, or Kafka gives no answer.

        :raises KafkaException: the offsets at the marks aren't there
        """
        wanted = marks.get(self._topic, {})
        if self._assigned != wanted:
            self._consumer.assign([TopicPartition(self._topic, number, at) for number, at in wanted.items()])
            self._assigned = dict(wanted)
        records = [_record(message) for message in self._consumer.consume(RECORDS_MAX, READ_S_MAX) if _is_good(message)]
        for record in records:
            self._assigned[record.partition] = record.offset + 1
        return records

    def close(self) -> None:
        self._consumer.close()


def _is_good(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.code() in OFFSETS_LOST:
        raise KafkaException(error)
    log.warning("the control topic can't be read now: %s", error.str())
    return False


def _record(message: Message) -> KafkaRecord:
    return KafkaRecord(message.topic() or "", message.partition() or 0, message.offset() or 0, message.value(), [])
