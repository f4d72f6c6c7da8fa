"""The receiver's answers, duplicates and refusals too: from its topic into a table that outlasts it.

The table also shows events that a provider was answered 2xx for and that the journal doesn't know.
"""

from __future__ import annotations

import bisect
import logging
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Protocol

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from core.clock import from_rfc3339
from core.location import Location
from core.routing import TEST_TRAFFIC_OFF
from journal.append import Appender
from journal.kafka_log import Held, TopicMissing
from journal.lake import ensure_table, has_table, open_table
from journal.log import AppTransaction
from journal.reader import read_rows
from journal.schema import TIMESTAMP, TopicRecord

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
"""The outcome of a line that isn't a receipt: it is kept and counted."""

ROWS_PER_COMMIT = 100_000
"""About 60 MB as Python objects."""

_CONFIGURATION = {
    "delta.appendOnly": "true",
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 hours",
}


@dataclass(slots=True)
class CollectionResult:
    """``rows`` were written; ``lost`` records were gone before they were collected.

    At ``again`` offsets the topic went back and holds other records now; these are collected again.
    """

    rows: int = 0
    lost: int = 0
    again: int = 0


class ReceiptsLog(Protocol):
    def read_held_offsets(self, topics: Sequence[str]) -> Held: ...
    def records(self, topic: str, partition: int, since: int, until: int) -> Iterator[TopicRecord]: ...


@dataclass(slots=True)
class ReceiptsTable:
    """Receipts in Delta, each once: rows and the offset up to which they go are one commit.

    A second collector is refused, because both move the same application id.
    """

    path: str
    _appenders: dict[int, Appender] = field(default_factory=dict)

    def next_offset(self, partition: int) -> int | None:
        """Returns the first offset that isn't here; None if none of the partition is."""
        if not has_table(self.path):
            return None
        return open_table(self.path).transaction_version(_app_id(partition))

    def lines_of(self, partition: int, offset: int) -> list[dict[str, Any]]:
        of_record = (pc.field("partition") == partition) & (pc.field("offset") == offset)
        rows: list[dict[str, Any]] = read_rows(open_table(self.path), of_record).to_pylist()
        return rows

    def append(self, partition: int, rows: pa.Table, next_offset: int) -> None:
        """
        :raises Overtaken: another collector is at it
        """
        if not self._appenders:
            ensure_table(self.path, RECEIPTS_SCHEMA, "receipts", _CONFIGURATION)
        # One a partition: each looks at what was committed since its own last commit.
        appender = self._appenders.get(partition) or Appender.open(self.path)
        self._appenders[partition] = appender
        appender.append(rows, AppTransaction(_app_id(partition), next_offset))


def collect_new_receipts(
    kafka: ReceiptsLog, topic: str, table: ReceiptsTable, rows_per_commit: int = ROWS_PER_COMMIT
) -> CollectionResult:
    """Takes what came since the last collection, up to where the topic ends now; nothing of a missing topic.

    :raises KafkaSilent: Kafka doesn't answer; what was committed stays, the next collection takes the rest
    """
    collected = CollectionResult()
    try:
        ends = kafka.read_held_offsets([topic])[topic]
    except TopicMissing:
        return collected
    for partition, (low, high) in sorted(ends.items()):
        since = table.next_offset(partition)
        begin = low if since is None else _find_begin(kafka, topic, table, partition, (low, high), since)
        if since is not None and begin < since:
            collected.again += since - begin
            log.error("receipts of partition %d went back from offset %d to %d", partition, since, begin)
            table.append(partition, RECEIPTS_SCHEMA.empty_table(), begin)
        if since is not None and begin > since:
            collected.lost += begin - since
            log.error("%d records of receipts were gone before they were collected", begin - since)
        for rows, until in _batch_rows(partition, kafka.records(topic, partition, begin, high), rows_per_commit):
            table.append(partition, rows, until)
            collected.rows += rows.num_rows
    return collected


def read_uncollected(kafka: ReceiptsLog, topic: str, table: ReceiptsTable) -> Iterator[dict[str, Any]]:
    """Yields rows of what the topic holds and the table doesn't have yet; it writes nothing.

    :raises KafkaSilent: Kafka doesn't answer
    """
    try:
        ends = kafka.read_held_offsets([topic])[topic]
    except TopicMissing:
        return
    for partition, (low, high) in sorted(ends.items()):
        since = table.next_offset(partition)
        begin = low if since is None else _find_begin(kafka, topic, table, partition, (low, high), since)
        for record in kafka.records(topic, partition, begin, high):
            yield from _parse_record(partition, record)


def _find_begin(
    kafka: ReceiptsLog, topic: str, table: ReceiptsTable, partition: int, ends: tuple[int, int], since: int
) -> int:
    low, high = ends
    both = range(low, min(since, high))

    def differs(offset: int) -> bool:
        collected = table.lines_of(partition, offset)
        return any(
            line not in collected
            for record in kafka.records(topic, partition, offset, offset + 1)
            for line in _parse_record(partition, record)
        )

    if not both or not differs(both[-1]):
        return max(low, min(since, high))
    # A log only grows at its end: once its records differ, all later ones do.
    return both[bisect.bisect_left(both, True, key=differs)]


def _batch_rows(partition: int, records: Iterator[TopicRecord], rows_per_commit: int) -> Iterator[tuple[pa.Table, int]]:
    lines: list[dict[str, Any]] = []
    until = 0
    for record in records:
        lines += _parse_record(partition, record)
        until = record.offset + 1
        if len(lines) >= rows_per_commit:
            yield pa.Table.from_pylist(lines, schema=RECEIPTS_SCHEMA), until
            lines = []
    if lines:
        yield pa.Table.from_pylist(lines, schema=RECEIPTS_SCHEMA), until


def _parse_record(partition: int, record: TopicRecord) -> list[dict[str, Any]]:
    place = {"partition": partition, "offset": record.offset}
    texts = (record.value or b"").split(b"\n")
    return [{**place, "line": number, **_parse_receipt(text)} for number, text in enumerate(texts)]


def _parse_receipt(text: bytes) -> dict[str, Any]:
    try:
        receipt = orjson.loads(text)
        return {
            "at": from_rfc3339(receipt["at"]),
            "provider": _text_or_none(receipt.get("provider")),
            "event_key": _text_or_none(receipt.get("event_key")),
            "outcome": _text_or_none(receipt["outcome"]) or UNREADABLE,
            "status": int(receipt["status"]),
            "content_sha256": _text_or_none(receipt.get("content_sha256")),
        }
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return {"outcome": UNREADABLE}


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _app_id(partition: int) -> str:
    return f"payhook-receipts-{partition}"


@dataclass(frozen=True, slots=True)
class AnsweredEvent:
    event_key: str
    provider: str | None
    at: datetime | None
    content_sha256: str | None


def read_answered_since(
    receipts: Location, since: datetime, newer: Iterable[Mapping[str, Any]] = ()
) -> list[AnsweredEvent]:
    """Reads the first receipt of each event that was answered 2xx since a moment, by time.

    :param newer: rows that the table doesn't have yet, as `read_uncollected` finds them
    :raises TableUnreadable: its log or a file can't be read
    """
    rows: list[Mapping[str, Any]] = []
    if has_table(str(receipts)):
        condition = (pc.field("status") >= 200) & (pc.field("status") < 300) & pc.field("event_key").is_valid()
        condition &= (pc.field("outcome") != TEST_TRAFFIC_OFF) & (pc.field("at") >= since)
        rows += read_rows(open_table(str(receipts)), condition, list(_ANSWERED)).to_pylist()
    rows += [{name: row[name] for name in _ANSWERED} for row in newer if _is_taken(row, since)]
    first: dict[str, AnsweredEvent] = {}
    for row in sorted(rows, key=operator.itemgetter("at")):
        first.setdefault(row["event_key"], AnsweredEvent(**row))
    return list(first.values())


_ANSWERED = tuple(column.name for column in fields(AnsweredEvent))


def _is_taken(row: Mapping[str, Any], since: datetime) -> bool:
    is_event = row["outcome"] not in (UNREADABLE, TEST_TRAFFIC_OFF) and row["event_key"] is not None
    return is_event and 200 <= row["status"] < 300 and row["at"] >= since


def find_undecided(
    answered: Sequence[AnsweredEvent], journals: Sequence[Location], waiting: Collection[str]
) -> list[AnsweredEvent]:
    """Finds events without a row in any journal: a lower bound of what is lost.

    :param waiting: keys that Kafka still holds
    :raises TableUnreadable: a journal's log or a file can't be read
    """
    keys = pa.array([event.event_key for event in answered], pa.string())
    settled = set(waiting)
    for journal in journals if answered else ():
        known = read_rows(open_table(str(journal)), pc.field("event_key").isin(keys), ["event_key"])
        settled.update(known["event_key"].to_pylist())
    return [event for event in answered if event.event_key not in settled]
