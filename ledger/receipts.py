"""What the receiver answered, duplicates and refusals too: from its topic into a table that outlasts it."""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaException, TopicPartition
from deltalake.exceptions import DeltaError

from core.clock import from_rfc3339
from core.errors import PayhookError
from journal.append import Appender
from journal.lake import create_table, has_table, open_table
from journal.log import AppTransaction
from journal.reader import dataset_of
from journal.schema import TIMESTAMP

log = logging.getLogger(__name__)

RECEIPTS_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("line", pa.int32(), nullable=False),
        pa.field("at", TIMESTAMP),
        pa.field("provider", pa.string()),
        pa.field("event_key", pa.string()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("status", pa.int32()),
        pa.field("content_sha256", pa.string()),
    ]
)
UNREADABLE = "unreadable"
"""The outcome of a line that isn't a receipt: it is counted, and never lost in silence."""

ROWS_PER_COMMIT = 100_000
"""About 60 MB as Python objects."""

ANSWER_S_MAX = 10.0
POLL_RECORDS_MAX = 500
_CONFIGURATION = {
    "delta.appendOnly": "true",
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 hours",
}


class ReceiptsUnread(PayhookError):
    """Kafka doesn't hand its receipts over; they stay there, and are taken by the next collection."""

    def __init__(self, topic: str, problem: str) -> None:
        self.topic = topic
        self.problem = problem
        super().__init__(f"receipts on {topic} can't be read now ({problem}); they stay there for the next collection")


@dataclass(slots=True)
class Collected:
    """``rows`` were written; ``lost`` records were gone before anybody collected them; of ``again`` offsets the topic
    holds other records now than those that were collected: it went back, and they were collected again.
    """

    rows: int = 0
    lost: int = 0
    again: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the topic: up to a few hundred receipts, one a line."""

    partition: int
    offset: int
    value: bytes


class Topic(Protocol):
    """What collecting asks of Kafka."""

    def ends(self) -> dict[int, tuple[int, int]]:
        """First offset held and next offset written, by partition; none of a topic that isn't there."""

    def records(self, partition: int, since: int, until: int) -> Iterator[Record]:
        """Every record from ``since`` to before ``until``, in order."""


@dataclass(slots=True)
class ReceiptsTable:
    """Receipts in Delta, each once: rows and the offset up to which they go are one commit.

    A second collector is refused, because both move the same application id.
    """

    path: str
    _appenders: dict[int, Appender] = field(default_factory=dict)

    def next_offset(self, partition: int) -> int | None:
        """The first offset that isn't here; None if none of the partition is."""
        if not has_table(self.path):
            return None
        return open_table(self.path).transaction_version(_app_id(partition))

    def lines_of(self, partition: int, offset: int) -> list[dict[str, Any]]:
        """What was collected of one record, by line; none where it isn't here."""
        of_record = (pc.field("partition") == partition) & (pc.field("offset") == offset)
        rows: list[dict[str, Any]] = dataset_of(open_table(self.path)).to_table(filter=of_record).to_pylist()
        return rows

    def append(self, partition: int, rows: pa.Table, next_offset: int) -> None:
        """Adds rows of one partition.

        :raises Overtaken: another collector is at it
        """
        if not self._appenders and not has_table(self.path):
            _create(self.path)
        # One a partition: each looks at what was committed since its own last commit.
        appender = self._appenders.get(partition) or Appender.open(self.path)
        self._appenders[partition] = appender
        appender.append(rows, AppTransaction(_app_id(partition), next_offset))


def collect(topic: Topic, table: ReceiptsTable, rows_per_commit: int = ROWS_PER_COMMIT) -> Collected:
    """Takes what came since the last collection, up to where the topic ends now.

    :raises ReceiptsUnread: Kafka doesn't answer; what was committed stays
    """
    collected = Collected()
    for partition, (low, high) in sorted(topic.ends().items()):
        since = table.next_offset(partition)
        begin = low if since is None else _begin(topic, table, partition, (low, high), since)
        if since is not None and begin < since:
            collected.again += since - begin
            log.error("receipts of partition %d went back from offset %d to %d", partition, since, begin)
            table.append(partition, RECEIPTS_SCHEMA.empty_table(), begin)
        if since is not None and begin > since:
            collected.lost += begin - since
            log.error("%d records of receipts were gone before they were collected", begin - since)
        for rows, until in _portions(topic.records(partition, begin, high), rows_per_commit):
            table.append(partition, rows, until)
            collected.rows += rows.num_rows
    return collected


def _begin(topic: Topic, table: ReceiptsTable, partition: int, held: tuple[int, int], since: int) -> int:
    """Where to go on: after what was collected, or where the topic's records part from it: it went back then."""
    low, high = held
    both = range(low, min(since, high))

    def differs(offset: int) -> bool:
        collected = table.lines_of(partition, offset)
        return any(
            line not in collected for record in topic.records(partition, offset, offset + 1) for line in _lines(record)
        )

    if not both or not differs(both[-1]):
        return max(low, min(since, high))
    # A log only grows at its end: once its records differ, all later ones do.
    return both[bisect.bisect_left(both, True, key=differs)]


def _portions(records: Iterator[Record], rows_per_commit: int) -> Iterator[tuple[pa.Table, int]]:
    """Rows of whole records, and the offset after them."""
    lines: list[dict[str, Any]] = []
    until = 0
    for record in records:
        lines += _lines(record)
        until = record.offset + 1
        if len(lines) >= rows_per_commit:
            yield pa.Table.from_pylist(lines, schema=RECEIPTS_SCHEMA), until
            lines = []
    if lines:
        yield pa.Table.from_pylist(lines, schema=RECEIPTS_SCHEMA), until


def _lines(record: Record) -> list[dict[str, Any]]:
    texts = record.value.split(b"\n")
    place = {"partition": record.partition, "offset": record.offset}
    return [{**place, "line": number, **_told(text)} for number, text in enumerate(texts)]


def _told(text: bytes) -> dict[str, Any]:
    try:
        told = orjson.loads(text)
        return {
            "at": _time(told["at"]),
            "provider": _text(told.get("provider")),
            "event_key": _text(told.get("event_key")),
            "outcome": _text(told["outcome"]) or UNREADABLE,
            "status": int(told["status"]),
            "content_sha256": _text(told.get("content_sha256")),
        }
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return {"outcome": UNREADABLE}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _time(value: str) -> datetime:
    return from_rfc3339(value)


def _app_id(partition: int) -> str:
    return f"payhook-receipts-{partition}"


def _create(path: str) -> None:
    try:
        create_table(path, RECEIPTS_SCHEMA, "receipts", _CONFIGURATION)
    except DeltaError:
        if not has_table(path):
            raise


class KafkaReceipts:
    """A receipts topic on a broker. Close it when done."""

    def __init__(self, bootstrap: str, topic: str, open_consumer: Callable[[dict[str, Any]], Any] = Consumer) -> None:
        self._topic = topic
        self._consumer = open_consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "payhook-receipts",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "topic.metadata.refresh.interval.ms": -1,
                "log_level": 0,
            }
        )

    def ends(self) -> dict[int, tuple[int, int]]:
        try:
            known = self._consumer.list_topics(self._topic, timeout=ANSWER_S_MAX).topics[self._topic]
            if known.error is not None:
                return {}
            return {
                number: self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), timeout=ANSWER_S_MAX)
                for number in known.partitions
            }
        except KafkaException as failed:
            raise ReceiptsUnread(self._topic, str(failed.args[0])) from failed

    def records(self, partition: int, since: int, until: int) -> Iterator[Record]:
        if since >= until:
            return
        self._consumer.assign([TopicPartition(self._topic, partition, since)])
        following = since
        while following < until:
            for message in self._poll(until - following):
                if message.offset() >= until:
                    return
                following = message.offset() + 1
                yield Record(partition, message.offset(), message.value() or b"")

    def close(self) -> None:
        self._consumer.close()

    def _poll(self, records_max: int) -> Sequence[Any]:
        """The next records, at most so many: the client waits for all of them."""
        try:
            messages = self._consumer.consume(min(records_max, POLL_RECORDS_MAX), ANSWER_S_MAX)
        except KafkaException as failed:
            raise ReceiptsUnread(self._topic, str(failed.args[0])) from failed
        if not messages:
            raise ReceiptsUnread(self._topic, f"nothing came within {ANSWER_S_MAX:g} s")
        for message in messages:
            if message.error() is not None:
                raise ReceiptsUnread(self._topic, str(message.error()))
        return list(messages)
