"""Kafka as a verification sees it: the ends of partitions, single records, and all that a topic holds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

import orjson

from core.decision import ErrorKind
from core.errors import PayhookError
from core.routing import mode_of, topics_of
from core.settings import KafkaSettings
from journal.kafka_log import KafkaLog, KafkaSilent, Point, TopicMissing
from journal.schema import TopicRecord

T = TypeVar("T")
Ends = dict[str, dict[int, tuple[int, int]]]
"""First offset held and next offset written, by topic and partition."""


class KafkaUnreachable(PayhookError):
    kind = ErrorKind.SBE

    def __init__(self, bootstrap: str, problem: str) -> None:
        self.bootstrap = bootstrap
        self.problem = problem
        super().__init__(f"Kafka at {bootstrap} doesn't answer ({problem}); verify needs the ends of its partitions")


class Kafka(Protocol):
    def find_ends(self, topics: Sequence[str]) -> Ends:
        """Returns the ends of each topic, without topics that don't exist."""

    def timestamp(self, topic: str, partition: int, offset: int) -> datetime | None:
        """Returns when the first record at or after an offset was written; None where there is none, or it has no time.

        :raises KafkaUnreachable: it doesn't answer
        """

    def records(self, topic: str) -> Iterator[tuple[int, TopicRecord]]:
        """Yields all records that a topic holds now, with the partition of each.

        :raises KafkaUnreachable: it doesn't answer
        """

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]: ...

    def records_at(self, points: Collection[Point]) -> Mapping[Point, TopicRecord]:
        """Returns the record at each offset, without points that Kafka holds no record for.

        :raises KafkaUnreachable: it doesn't answer
        """


class RealKafka:
    """A running broker. Every method raises `KafkaUnreachable` when it doesn't answer."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka

    def find_ends(self, topics: Sequence[str]) -> Ends:
        return self._ask_each(topics, KafkaLog.read_held_offsets)

    def timestamp(self, topic: str, partition: int, offset: int) -> datetime | None:
        with self._open_log() as log:
            low, _ = log.read_held_offsets([topic])[topic][partition]
            first = log.first_records([(topic, partition, max(low, offset))])
        return next((record.at for record in first.values()), None)

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        return self._ask_each(topics, KafkaLog.topic_ids)

    def records_at(self, points: Collection[Point]) -> dict[Point, TopicRecord]:
        with self._open_log() as log:
            return log.records_at(points)

    def records(self, topic: str) -> Iterator[tuple[int, TopicRecord]]:
        with self._open_log() as log:
            for partition, (low, high) in log.read_held_offsets([topic])[topic].items():
                for record in log.records(topic, partition, low, high):
                    yield partition, record

    def _ask_each(self, topics: Sequence[str], ask: Callable[[KafkaLog, list[str]], Mapping[str, T]]) -> dict[str, T]:
        answers: dict[str, T] = {}
        with self._open_log() as log:
            for topic in topics:
                with contextlib.suppress(TopicMissing):
                    answers |= ask(log, [topic])
        return answers

    @contextlib.contextmanager
    def _open_log(self) -> Iterator[KafkaLog]:
        with contextlib.closing(KafkaLog(self._kafka)) as log:
            try:
                yield log
            except KafkaSilent as silent:
                raise KafkaUnreachable(self._kafka.bootstrap_servers, silent.problem) from silent


def read_anchor_records(kafka: Kafka, stream: str, ends: dict[int, tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """Reads offset and bytes of a stream's anchors on their topic below ``ends``, by seq."""
    if not any(high > low for low, high in ends.values()):
        return
    until, key = max(high for _, high in ends.values()), stream.encode()
    records = [
        (record.offset, record.value or b"")
        for _, record in kafka.records(topics_of(mode_of(stream)).anchors)
        if record.offset < until and record.key == key
    ]
    yield from sorted(records, key=lambda record: (_seq_in(record[1]), record[0]))


def _seq_in(anchor: bytes) -> int:
    """Returns the seq that an anchor names; -1 for a record that isn't an anchor."""
    try:
        seq = orjson.loads(anchor)["seq"]
    except (ValueError, KeyError, TypeError):
        return -1
    return seq if isinstance(seq, int) else -1
