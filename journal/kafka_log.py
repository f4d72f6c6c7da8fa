"""Reads Kafka's topics as they are now: their ids, the offsets that they hold, and single records."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from core.clock import from_micros, to_micros
from core.decision import ErrorKind
from core.errors import PayhookError
from core.kafka import open_admin, open_consumer
from core.settings import KafkaSettings
from journal.schema import TopicRecord

ANSWER_S_MAX = 10.0
READ_S_MAX = 60.0
"""For the records of one request; a broker that takes longer isn't there."""

POLL_S = 0.1
POINT_BYTES = 1
"""A single record is needed: Kafka gives at least one batch, however large it is."""

STREAM_BYTES = 1 << 20

Held: TypeAlias = dict[str, dict[int, tuple[int, int]]]
"""First offset held and next offset to come, by topic and partition."""

Point: TypeAlias = tuple[str, int, int]
"""Topic, partition, offset."""


class TopicMissing(PayhookError):
    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"the Kafka topic {topic} doesn't exist. If it is payhook's own, run the set-up that makes the topics; if "
            "another program writes it, start that program first, or correct the stream's source"
        )


class KafkaSilent(PayhookError):
    kind = ErrorKind.SBE

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"Kafka doesn't say what it holds ({problem}); payhook asks again")


class TopicLog(Protocol):
    """Answers a check of positions. Every method raises `KafkaSilent` or, for a topic, `TopicMissing`."""

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Reads Kafka's own id of each topic: a topic that was deleted and created again has another one."""

    def read_held_offsets(self, topics: Sequence[str]) -> Held: ...

    def records_at(self, points: Iterable[Point]) -> Mapping[Point, TopicRecord]: ...

    def next_offsets(self, points: Iterable[Point]) -> Mapping[Point, int]:
        """Finds for each point the offset of the first record at or after it; leaves out points without one."""

    def close(self) -> None: ...


class KafkaLog:
    """Reads a real Kafka (`TopicLog`). Clients are made when they are first needed; `close` ends them. Belongs to one
    thread.

    :param reads: whether a topic's partition is looked at; `read_held_offsets` leaves the others out
    """

    def __init__(self, kafka: KafkaSettings, reads: Callable[[str, int], bool] = lambda _topic, _number: True) -> None:
        self._kafka = kafka
        self._reads = reads
        self._consumers: dict[int, Consumer] = {}
        self._admin: AdminClient | None = None

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()
        self._admin = None

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        if not topics:
            return {}
        if self._admin is None:
            self._admin = open_admin(self._kafka)
        ids: dict[str, str] = {}
        with translate_kafka_errors():
            asked = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=ANSWER_S_MAX)
            for topic, answer in asked.items():
                try:
                    ids[topic] = str(answer.result(ANSWER_S_MAX).topic_id)
                except KafkaException as failed:
                    if failed.args and failed.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise TopicMissing(topic) from failed
                    raise
        return ids

    def read_held_offsets(self, topics: Sequence[str]) -> Held:
        consumer = self._find_consumer(POINT_BYTES)
        held: Held = {}
        with translate_kafka_errors():
            known = consumer.list_topics(timeout=ANSWER_S_MAX).topics
            for topic in topics:
                if topic not in known or known[topic].error is not None:
                    raise TopicMissing(topic)
                held[topic] = {
                    number: _read_watermarks(consumer, TopicPartition(topic, number))
                    for number in sorted(known[topic].partitions)
                    if self._reads(topic, number)
                }
        return held

    def offsets_at(self, topic: str, ends: Mapping[int, tuple[int, int]], moment: datetime) -> dict[int, int]:
        """Finds for each partition the offset of the first record published at ``moment`` or later, else its end.

        :raises KafkaSilent: Kafka doesn't answer
        """
        at_ms = to_micros(moment) // 1_000
        wanted = [TopicPartition(topic, number, at_ms) for number in ends]
        with translate_kafka_errors():
            places = self._find_consumer(POINT_BYTES).offsets_for_times(wanted, timeout=ANSWER_S_MAX)
        return {place.partition: place.offset if place.offset >= 0 else ends[place.partition][1] for place in places}

    def records_at(self, points: Iterable[Point]) -> dict[Point, TopicRecord]:
        return {point: record for point, record in self.first_records(points).items() if record.offset == point[2]}

    def next_offsets(self, points: Iterable[Point]) -> dict[Point, int]:
        return {point: record.offset for point, record in self.first_records(points).items()}

    def first_records(self, points: Iterable[Point]) -> dict[Point, TopicRecord]:
        """Reads for each point the first record at or after it, if there is one. One round asks for a point of each
        partition.

        :raises KafkaSilent: Kafka doesn't answer
        """
        records: dict[Point, TopicRecord] = {}
        waiting: dict[tuple[str, int], list[int]] = {}
        for topic, partition, offset in sorted(set(points)):
            waiting.setdefault((topic, partition), []).append(offset)
        while waiting:
            round_ = {place: offsets.pop() for place, offsets in waiting.items()}
            waiting = {place: offsets for place, offsets in waiting.items() if offsets}
            records |= {(*place, round_[place]): record for place, record in self._first_at(round_)}
        return records

    def records(self, topic: str, partition: int, since: int, until: int) -> Iterator[TopicRecord]:
        """Yields records from ``since`` to before ``until``, in order.

        :raises KafkaSilent: Kafka doesn't answer
        """
        if since >= until:
            return
        consumer = self._find_consumer(STREAM_BYTES)
        consumer.assign([TopicPartition(topic, partition, since)])
        try:
            for message in _poll_messages(consumer):
                if message.error() is not None or _read_offset(message) >= until:
                    return
                yield _make_record(message)
                if _read_offset(message) + 1 >= until:
                    return
        finally:
            consumer.unassign()

    def _first_at(self, offsets: Mapping[tuple[str, int], int]) -> Iterator[tuple[tuple[str, int], TopicRecord]]:
        consumer = self._find_consumer(POINT_BYTES)
        consumer.assign([TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()])
        seen: set[tuple[str, int]] = set()
        try:
            for message in _poll_messages(consumer):
                place = (str(message.topic()), int(message.partition() or 0))
                if place not in offsets:
                    continue
                if place not in seen and message.error() is None:
                    yield place, _make_record(message)
                seen.add(place)
                if len(seen) == len(offsets):
                    return
        finally:
            consumer.unassign()

    def _find_consumer(self, fetch_bytes: int) -> Consumer:
        if fetch_bytes not in self._consumers:
            self._consumers[fetch_bytes] = open_consumer(
                self._kafka,
                {
                    "group.id": "payhook-positions",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "error",
                    "isolation.level": "read_uncommitted",
                    "allow.auto.create.topics": False,
                    "fetch.message.max.bytes": fetch_bytes,
                    "queued.min.messages": 1 if fetch_bytes == POINT_BYTES else 10_000,
                    "fetch.queue.backoff.ms": 1,
                    "fetch.wait.max.ms": 20,
                    "log_level": 0,
                },
            )
        return self._consumers[fetch_bytes]


def _read_watermarks(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    until = time.monotonic() + READ_S_MAX
    while True:
        try:
            return consumer.get_watermark_offsets(place, timeout=ANSWER_S_MAX)
        except KafkaException as failed:
            if failed.args[0].code() not in _LEADERLESS or time.monotonic() > until:
                raise
            time.sleep(POLL_S)


def _poll_messages(consumer: Consumer) -> Iterator[Message]:
    """Yields records as they come; a message with an error says that its partition has no more of them.

    :raises KafkaSilent: nothing comes for `READ_S_MAX`
    """
    until = time.monotonic() + READ_S_MAX
    while time.monotonic() < until:
        message = consumer.poll(POLL_S)
        if message is None:
            continue
        error = message.error()
        if error is None or error.code() in _NOTHING_THERE:
            until = time.monotonic() + READ_S_MAX
            yield message
        elif error.code() not in _PASSES:
            raise KafkaSilent(str(error))
    raise KafkaSilent(f"no record came within {READ_S_MAX:g} s")


_NOTHING_THERE = {
    KafkaError._PARTITION_EOF,  # noqa: SLF001 - librdkafka's names of its own errors
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    KafkaError.OFFSET_OUT_OF_RANGE,
}
_LEADERLESS = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
_PASSES = {
    *_LEADERLESS,
    KafkaError._TRANSPORT,  # noqa: SLF001 - as above
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
}


def _read_offset(message: Message) -> int:
    return int(message.offset() or 0)


def _make_record(message: Message) -> TopicRecord:
    headers: Any = message.headers() or ()
    kind, milliseconds = message.timestamp()
    at = None if kind == TIMESTAMP_NOT_AVAILABLE else from_micros(milliseconds * 1_000)
    return TopicRecord(_read_offset(message), message.value(), tuple(headers), at=at, key=message.key())


@contextlib.contextmanager
def translate_kafka_errors() -> Iterator[None]:
    try:
        yield
    except (KafkaException, TimeoutError) as failed:
        raise KafkaSilent(str(failed)) from failed
