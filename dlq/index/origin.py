"""One record of Kafka by its place: where the dead-letter topic has headers alone, or a body is no longer kept."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, TopicPartition

from core.errors import PayhookError

READ_S_MAX = 10.0


class OriginUnreadable(PayhookError):
    """Kafka didn't hand the record over."""

    def __init__(self, place: str, problem: str) -> None:
        self.place = place
        self.problem = problem
        super().__init__(f"Kafka's {place} can't be read now: {problem}; try again when it answers")


def kafka_origin(bootstrap: str, read_s_max: float = READ_S_MAX) -> Callable[[str, int, int], bytes | None]:
    """Reads a record's value from these servers (`dlq.index.payload.Origin`). It joins no group and commits nothing.

    What it returns raises `OriginUnreadable` where Kafka doesn't answer in time.
    """

    def read(topic: str, partition: int, offset: int) -> bytes | None:
        place = f"{topic}[{partition}]@{offset}"
        # No group is joined, but the client wants a name.
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"payhook-look-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
        try:
            return _read(consumer, TopicPartition(topic, partition, offset), read_s_max)
        except KafkaException as failed:
            raise OriginUnreadable(place, str(failed.args[0])) from failed
        finally:
            consumer.close()

    return read


def _read(consumer: Consumer, wanted: TopicPartition, read_s_max: float) -> bytes | None:
    first, end = consumer.get_watermark_offsets(wanted, timeout=read_s_max)
    if not first <= wanted.offset < end:
        return None
    consumer.assign([wanted])
    message = consumer.poll(read_s_max)
    if message is None:
        place = f"{wanted.topic}[{wanted.partition}]@{wanted.offset}"
        raise OriginUnreadable(place, f"no answer within {read_s_max:g} s")
    if message.error() is not None:
        raise KafkaException(message.error())
    if message.offset() != wanted.offset:
        return None
    value = message.value()
    return value if isinstance(value, bytes) else b""
