"""Reads dead letters that another program keeps on a topic, in KIP-1191's form, and brings them back to their source.

A letter's headers say where the original is. Its own key, value and other headers are the original's, if it was copied;
without a copy the original is read where the headers say.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.errors import PayhookError
from core.routing import OWN_TOPICS
from dlq.record import DELIVERIES_HEADER, GROUP_HEADER, KIP_1191, OFFSET_HEADER, PARTITION_HEADER, TOPIC_HEADER
from journal.anchors import AnchorProducer
from journal.kafka_log import KafkaLog, Point
from journal.schema import TopicRecord

BROUGHT_BACK = "payhook.brought_back_from"
"""Header of a record that was brought back: which dead letter it is of, such as ``dlq.orders/0/17``."""

PUBLISH_S_MAX = 30.0


class LetterUnusable(PayhookError):
    def __init__(self, letter: str, problem: str) -> None:
        self.letter = letter
        self.problem = problem
        super().__init__(f"dead letter {letter} can't be brought back: {problem}")


@dataclass(frozen=True, slots=True)
class OthersLetter:
    """A dead letter of another program. ``origin``: None if its headers don't say it; ``problem`` says why.

    ``is_copy``: it holds the original, or some of it.
    """

    topic: str
    partition: int
    record: TopicRecord
    origin: Point | None
    group: str | None
    deliveries: str | None
    problem: str | None = None

    @property
    def name(self) -> str:
        return f"{self.partition}:{self.record.offset}"

    @property
    def place_name(self) -> str:
        return f"{self.topic}/{self.partition}/{self.record.offset}"

    @property
    def own_headers(self) -> list[tuple[str, bytes | None]]:
        return [header for header in self.record.headers if not header[0].startswith(KIP_1191)]

    @property
    def is_copy(self) -> bool:
        return self.record.key is not None or self.record.value is not None or bool(self.own_headers)

    @property
    def died_at(self) -> datetime | None:
        return self.record.at


def letter_of(topic: str, partition: int, record: TopicRecord) -> OthersLetter:
    """Reads a record's headers; the last one of a name counts."""
    texts = {name: raw.decode("utf-8", "replace") for name, raw in record.headers if raw is not None}
    origin, problem = _read_origin(texts)
    group, deliveries = texts.get(GROUP_HEADER), texts.get(DELIVERIES_HEADER)
    return OthersLetter(topic, partition, record, origin, group, deliveries, problem)


def _read_origin(texts: Mapping[str, str]) -> tuple[Point | None, str | None]:
    missing = [name for name in (TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER) if not texts.get(name)]
    if missing:
        return None, f"its header {' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing (KIP-1191)"
    numbers = {name: texts[name] for name in (PARTITION_HEADER, OFFSET_HEADER)}
    for name, text in numbers.items():
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            return None, f"its header {name} is {text[:40]!r}, expected a number"
    return (texts[TOPIC_HEADER], int(numbers[PARTITION_HEADER]), int(numbers[OFFSET_HEADER])), None


class OthersTopic:
    """Another program's dead-letter topic on a Kafka. It joins no group and commits nothing."""

    def __init__(
        self, topic: str, log_factory: Callable[[], KafkaLog], producer_factory: Callable[[], AnchorProducer]
    ) -> None:
        self._topic = topic
        self._log_factory = log_factory
        self._producer_factory = producer_factory

    def read_letters(self, limit: int) -> list[OthersLetter]:
        """Reads its oldest letters, at most ``limit``, in the order of their times.

        :raises TopicMissing, KafkaSilent: Kafka doesn't answer
        """
        with contextlib.closing(self._log_factory()) as log:
            letters = [letter for part in self._by_partition(log, limit) for letter in part]
        return sorted(letters, key=lambda letter: (letter.died_at is not None, letter.died_at, letter.partition))[
            :limit
        ]

    def _by_partition(self, log: KafkaLog, limit: int) -> Iterator[list[OthersLetter]]:
        for partition, (low, high) in log.read_held_offsets([self._topic])[self._topic].items():
            until = min(high, low + limit)
            yield [
                letter_of(self._topic, partition, record) for record in log.records(self._topic, partition, low, until)
            ]

    def find_letters(self, names: Sequence[str]) -> list[OthersLetter]:
        points = {name: self._parse_point(name) for name in names}
        with contextlib.closing(self._log_factory()) as log:
            log.read_held_offsets([self._topic])
            records = log.records_at(points.values())
        for name, point in points.items():
            if point not in records:
                raise LetterUnusable(f"{self._topic} {name}", "Kafka holds none there")
        return [letter_of(self._topic, point[1], records[point]) for point in points.values()]

    def _parse_point(self, name: str) -> Point:
        partition, _, offset = name.partition(":")
        if not (partition.isdecimal() and offset.isdecimal()):
            raise LetterUnusable(name, "expected PARTITION:OFFSET, as `payhook dlq list --topic` shows it")
        return self._topic, int(partition), int(offset)

    def check(self, letters: Sequence[OthersLetter]) -> None:
        for letter in letters:
            if letter.origin is None:
                raise LetterUnusable(letter.place_name, letter.problem or "its headers don't say where it came from")
            if letter.origin[0] in OWN_TOPICS:
                problem = f"it came from {letter.origin[0]}, payhook's own: use payhook dlq replay --stream"
                raise LetterUnusable(letter.place_name, problem)

    def bring_back(self, letters: Sequence[OthersLetter]) -> list[Point]:
        """Publishes the originals once more, each at the end of the partition that it came from; returns where.

        :raises LetterUnusable: one of them can't be; nothing is published then, unless Kafka refused it
        :raises TopicMissing, KafkaSilent: Kafka doesn't answer
        """
        self.check(letters)
        originals = self._read_originals(letters)
        producer = self._producer_factory()
        placed: list[Point] = []
        for letter, original in zip(letters, originals, strict=True):
            placed.append(self._publish(producer, letter, original))
        return placed

    def _read_originals(self, letters: Sequence[OthersLetter]) -> list[TopicRecord]:
        wanted = {letter.origin for letter in letters if letter.origin is not None and not letter.is_copy}
        with contextlib.closing(self._log_factory()) as log:
            log.read_held_offsets(sorted({letter.origin[0] for letter in letters if letter.origin is not None}))
            held = log.records_at(wanted)
        originals = []
        for letter in letters:
            assert letter.origin is not None, "it was checked"
            if letter.is_copy:
                originals.append(letter.record)
            elif letter.origin in held:
                originals.append(held[letter.origin])
            else:
                topic, partition, offset = letter.origin
                problem = f"it holds no copy, and Kafka no longer holds {topic}[{partition}]@{offset}"
                raise LetterUnusable(letter.place_name, problem)
        return originals

    def _publish(self, producer: AnchorProducer, letter: OthersLetter, original: TopicRecord) -> Point:
        assert letter.origin is not None, "it was checked"
        topic, partition, _ = letter.origin
        own_headers = [
            header for header in original.headers if not header[0].startswith(KIP_1191) and header[0] != BROUGHT_BACK
        ]
        headers = [*own_headers, (BROUGHT_BACK, letter.place_name.encode())]
        answers: list[tuple[object, int]] = []

        def on_delivery(error: object, message: object) -> None:
            answers.append((error, message.offset() if error is None else -1))  # type: ignore[attr-defined]

        given = {"key": original.key, "partition": partition, "headers": headers, "on_delivery": on_delivery}
        producer.produce(topic, original.value, **given)
        producer.flush(PUBLISH_S_MAX)
        error, offset = answers[0] if answers else (f"no answer within {PUBLISH_S_MAX:g} s", -1)
        if error is not None:
            raise LetterUnusable(letter.place_name, f"Kafka didn't take it for {topic}[{partition}]: {error}")
        return topic, partition, offset
