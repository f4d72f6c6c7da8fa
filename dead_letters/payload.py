"""Reads an event's bytes for people: from their store, or by reference from Kafka."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from confluent_kafka import Consumer, KafkaException, TopicPartition

from core.errors import PayhookError
from core.kafka import open_consumer
from core.location import Location
from core.settings import KafkaSettings
from journal.bodies import BodyStore, FoundBodies
from journal.histories import FIRST, life_of
from journal.lake import has_table
from journal.schema import JournalRow, record_sha256

READ_S_MAX = 10.0


class OriginUnreadable(PayhookError):
    def __init__(self, place: str, problem: str) -> None:
        self.place = place
        self.problem = problem
        super().__init__(f"Kafka's {place} can't be read now: {problem}; try again when it answers")


def kafka_origin(kafka: KafkaSettings, read_s_max: float = READ_S_MAX) -> Callable[[str, int, int], bytes | None]:
    """Reads a record's value from this Kafka (`dead_letters.payload.Origin`). It joins no group and commits nothing.

    What it returns raises `OriginUnreadable` where Kafka doesn't answer in time.
    """

    def read(topic: str, partition: int, offset: int) -> bytes | None:
        place = f"{topic}[{partition}]@{offset}"
        # No group is joined, but the client wants a name.
        consumer = open_consumer(
            kafka,
            {
                "group.id": f"payhook-look-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 0,
            },
        )
        try:
            return _read_record(consumer, TopicPartition(topic, partition, offset), read_s_max)
        except KafkaException as failed:
            raise OriginUnreadable(place, str(failed.args[0])) from failed
        finally:
            consumer.close()

    return read


def _read_record(consumer: Consumer, wanted: TopicPartition, read_s_max: float) -> bytes | None:
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


PRETTY_BYTES_MAX = 1 << 20
PRETTY_CHARS_MAX = 4 << 20
"""Deep nesting makes much of little."""

INDENT = 2
Source: TypeAlias = Literal["bodies", "kafka"]


class BodyState(Protocol):
    @property
    def status(self) -> str: ...
    def __str__(self) -> str: ...


BodyStatuses: TypeAlias = Callable[[Sequence[JournalRow]], Sequence[BodyState]]
Origin: TypeAlias = Callable[[str, int, int], bytes | None]
"""Reads a record's value by topic, partition and offset; None: Kafka no longer has it."""


@dataclass(frozen=True, slots=True)
class Payload:
    """The bytes of an event. ``raw``: the exact ones, card numbers masked as they are kept; None: they can't be had,
    ``note`` says why.

    ``pretty``: the same, indented, where they are JSON; numbers and order as they came. ``source``: who held them.
    """

    raw: bytes | None
    pretty: str | None
    source: Source | None
    note: str


class Payloads:
    """Finds bodies: in the table of bodies, or by reference in Kafka.

    ``statuses`` says which were removed by order (`ledger.redactions.read_body_statuses`). Those are never read from
    Kafka, whatever it still has.
    """

    def __init__(self, bodies: Location, statuses: BodyStatuses | None = None, origin: Origin | None = None) -> None:
        self._bodies = str(bodies)
        self._statuses = statuses
        self._origin = origin

    def find_payload(self, first: JournalRow) -> Payload:
        """Finds the bytes of an item; ``first`` is its first row.

        :raises JournalBroken: the store of bodies can't be read
        """
        sha256 = first.body_sha256
        if sha256 is None:
            return self._from_kafka(first, "it couldn't be read, so no body of it is kept")
        looked = self._search_bodies([sha256])
        kept = looked.bodies.get(sha256)
        if kept is not None:
            return Payload(kept, indent_json(kept), "bodies", f"{len(kept)} bytes")
        status = next(iter(self._statuses([first])), None) if self._statuses is not None else None
        if status is not None and status.status == "redacted":
            return Payload(None, None, None, str(status))
        lost = looked.lost_names()
        why = f"missing, and a file of bodies that may hold it can't be read: {lost}" if lost else "no longer kept"
        return self._from_kafka(first, str(status) if status is not None else f"body {sha256}: {why}")

    def fetch_kept(self, hashes: Iterable[str]) -> Mapping[str, bytes]:
        return self._search_bodies(hashes).bodies

    def _search_bodies(self, hashes: Iterable[str]) -> FoundBodies:
        return (
            BodyStore(self._bodies, may_create=False).find_bodies(hashes) if has_table(self._bodies) else FoundBodies()
        )

    def _from_kafka(self, first: JournalRow, why: str) -> Payload:
        where = f"{life_of(first.topic, first.history or FIRST)}[{first.partition}]@{first.offset}"
        if self._origin is None:
            return Payload(None, None, None, f"{why}; Kafka may still hold it as {where}")
        raw = self._origin(first.topic, first.partition, first.offset)
        if raw is None:
            return Payload(None, None, None, f"{why}; Kafka no longer holds {where}")
        if hashlib.sha256(raw).hexdigest() != record_sha256(first):
            return Payload(None, None, None, f"{why}; what Kafka holds as {where} is another record")
        return Payload(raw, indent_json(raw), "kafka", f"{len(raw)} bytes, from Kafka's {where}; {why}")


def indent_json(raw: bytes) -> str | None:
    """Indents JSON; None if it isn't JSON, or is too long. No number is read and written again: 1.10 stays 1.10."""
    if len(raw) > PRETTY_BYTES_MAX:
        return None
    try:
        text = raw.decode("utf-8")
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _indent_text(text)


_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|(?P<empty>[{\[]\s*[}\]])|[{}\[\],:]|[^\s{}\[\],:"]+')


def _indent_text(text: str) -> str | None:
    parts: list[str] = []
    depth = size = 0
    for match in _TOKEN.finditer(text):
        part = match[0]
        if match["empty"]:
            part = part[0] + part[-1]
        elif part in "{[":
            depth += 1
            part += _new_line(depth)
        elif part in "}]":
            depth -= 1
            part = _new_line(depth) + part
        elif part == ",":
            part += _new_line(depth)
        elif part == ":":
            part = ": "
        parts.append(part)
        size += len(part)
        if size > PRETTY_CHARS_MAX:
            return None
    return "".join(parts)


def _new_line(depth: int) -> str:
    return "\n" + " " * (INDENT * depth)
