"""Makes records of the rows that changed another stream's books, one for each row and receiver, as if Kafka had held
it.

These are the rows that applied an event, and those that reversed what one had booked.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from core.clock import to_rfc3339
from core.decision import Decision
from core.event import POISON_TYPE, REVERSED_TYPE, Dedupe, Event, Mode, to_headers
from core.keys import join_key
from core.location import Location
from core.routing import is_sparse, journal_topic, receiver_of, source_of
from core.tracing import is_traced, sampled_in, span_id_of, with_span
from journal.kafka_log import Held, KafkaLog, Point
from journal.lake import has_table
from journal.reader import JournalReader
from journal.schema import JournalRow, TopicRecord, from_arrow
from processor.errors.classify import Failure, catch_event_error
from processor.source.records import RECORD_SCHEMA

log = logging.getLogger(__name__)

PROVIDER = "payhook"
CONTENT_VERSION = 1

NAMED_COLUMNS = (
    *("seq", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at"),
    *("event_key", "entity_key", "account", "event_type", "mode", "tenant", "zone", "occurred_at"),
)
"""What naming a record takes; a feed adds what its bodies take."""

CHANGED_BOOKS = (pc.field("decision") == Decision.APPLIED.value) | (
    (pc.field("decision") == Decision.REVERSED.value) & ~pc.field("first")
)
"""Which rows become records. A first row that says `reversed` is the command's own."""
CHANGED_BOOKS_SQL = f"decision = '{Decision.APPLIED.value}' OR (decision = '{Decision.REVERSED.value}' AND NOT first)"

REVERSAL_PART = "reversed"
"""Ends a reversal's key: the event itself is sent under the key without it."""


def make_event_key(stream: str, receiver: str, row: JournalRow) -> str:
    return join_key(stream, receiver, *_list_key_parts(row))


def _list_key_parts(row: JournalRow) -> list[str]:
    assert row.event_key is not None, f"row {row.seq} books without its key"
    return [row.event_key, REVERSAL_PART] if row.decision is Decision.REVERSED else [row.event_key]


class Feed(Protocol):
    """Decides who gets which record of a journal; a stream's ``feed`` builds it. It runs on the driver."""

    @property
    def columns(self) -> Sequence[str]: ...

    def receivers(self, mode: Mode) -> Sequence[str]:
        """Returns names; each gets a record of every row, in order, from where the journal stood when it was first
        named.

        Without any the stream isn't run. It is asked whenever the stream starts, and now and then while there are none.
        """

    def body(self, row: JournalRow) -> bytes:
        """Makes the record of a row: the same for every receiver, and the same whenever it is asked.

        The row's decision is `applied`, or `reversed` where it takes back what the event had booked. Where this raises,
        each receiver's record dies with the error, and the stream goes on.
        """


class OwnFeed:
    """The feed of a stream that names none: the stream is the only receiver, and gets the row's columns as JSON."""

    columns = ("fact_key", "provider", "postings", "body_sha256")

    def __init__(self, stream: str) -> None:
        self._stream = stream

    def receivers(self, mode: Mode) -> tuple[str, ...]:  # noqa: ARG002 - the same in every mode
        return (self._stream,)

    def body(self, row: JournalRow) -> bytes:
        document = {
            "seq": row.seq,
            "decision": row.decision.value,
            "event_key": row.event_key,
            "event_type": row.event_type,
            "entity_key": row.entity_key,
            "fact_key": row.fact_key,
            "provider": row.provider,
            "account": row.account,
            "mode": row.mode,
            "tenant": row.tenant,
            "occurred_at": to_rfc3339(row.occurred_at) if row.occurred_at is not None else None,
            "decided_at": to_rfc3339(row.decided_at),
            "body_sha256": row.body_sha256,
            "postings": json.loads(row.postings) if row.postings is not None else [],
        }
        return json.dumps(document, separators=(",", ":"), ensure_ascii=True).encode()


class FeedRecords:
    """Makes a reading stream's records from rows of its source streams' `CHANGED_BOOKS`.

    A record's topic is the receiver's (`core.routing.journal_topic`), its offset the row's seq. Its keys begin with the
    names of the reading stream and the receiver. So order is kept for each receiver: a reversal follows what it
    reverses. A record counts as received when its row was decided.
    """

    def __init__(self, stream: str, sources: Iterable[str], feed: Feed, receivers: Sequence[str]) -> None:
        self.stream = stream
        self._feed = feed
        self._traced = is_traced()
        self._topics = {
            source: {receiver: journal_topic(source, receiver) for receiver in receivers} for source in sources
        }

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(topic for source in self._topics for topic in self.topics_of(source))

    def topics_of(self, source: str) -> tuple[str, ...]:
        return tuple(self._topics[source].values())

    @property
    def columns(self) -> list[str]:
        traced = ("attempt", "headers") if self._traced else ()
        return list(dict.fromkeys([*NAMED_COLUMNS, *self._feed.columns, *traced]))

    def make_table(self, source: str, rows: Sequence[JournalRow]) -> pa.Table:
        topics = self._topics[source]
        records = [record for row in rows for record in self._make_records(row, source, topics)]
        return pa.Table.from_pylist(records, schema=RECORD_SCHEMA)

    def _make_records(self, row: JournalRow, source: str, topics: Mapping[str, str]) -> Iterator[dict[str, object]]:
        body, poison = self._make_body(row, source)
        taken = sampled_in(row.headers) if self._traced else None
        # Its span is of the try that applied the event.
        traceparent = None if taken is None else with_span(taken, span_id_of(row.event_key or "", row.attempt))
        for receiver, topic in topics.items():
            event = self._make_event(row, receiver, body, poison)
            headers = to_headers(event, row.decided_at, Dedupe.CLAIMED, traceparent)
            yield {
                "topic": topic,
                "partition": 0,
                "offset": row.seq,
                "value": body,
                "headers": [{"key": name, "value": text} for name, text in headers],
            }

    def _make_body(self, row: JournalRow, source: str) -> tuple[bytes, str | None]:
        answer = catch_event_error(self._feed.body, row)
        if isinstance(answer, bytes):
            return answer, None
        name = f"row {row.seq} of {source}"
        why = f"TypeError: a body is bytes, not {type(answer).__name__}"
        if isinstance(answer, Failure):
            why = f"{answer.error_class}: {answer.message}"
            log.error("%s: the feed makes no body of %s: %s", self.stream, name, answer.stack)
        return name.encode(), f"the feed makes no body of {name}: {why}"

    def _make_event(self, row: JournalRow, receiver: str, body: bytes, poison: str | None) -> Event:
        assert row.entity_key is not None, f"row {row.seq} books without its entity"
        assert row.mode in ("live", "test"), f"row {row.seq} books without its mode"
        event_type = REVERSED_TYPE if row.decision is Decision.REVERSED else row.event_type or ""
        event = Event(
            provider=PROVIDER,
            event_id=":".join(_list_key_parts(row)),
            event_type=event_type if poison is None else POISON_TYPE,
            event_key=make_event_key(self.stream, receiver, row),
            entity_key=join_key(self.stream, receiver, row.entity_key),
            content_sha256="",
            content_version=CONTENT_VERSION,
            body=body,
            mode="live" if row.mode == "live" else "test",
            account=row.account or "",
            occurred_at=row.occurred_at,
            tenant=row.tenant,
            zone=row.zone,
            poison=poison,
        )
        return replace(event, content_sha256=event.body_sha256)


class JournalLog:
    """The log that a check of positions reads for a stream that reads another one's journal.

    It is `journal.kafka_log.TopicLog` of Kafka's topics, the control topic among them, and of
    ``journal.<source>/<receiver>``, whose offsets are seqs.

    Of a journal's record key and time are known. Its body is a feed's, which a newer version may word otherwise.
    Belongs to one thread.
    """

    def __init__(self, kafka: KafkaLog, stream: str, journals: Mapping[str, Location]) -> None:
        self._kafka = kafka
        self._stream = stream
        self._journals = {source: str(journal) for source, journal in journals.items()}

    def close(self) -> None:
        self._kafka.close()

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        return self._kafka.topic_ids([topic for topic in topics if not is_sparse(topic)])

    def read_held_offsets(self, topics: Sequence[str]) -> Held:
        """Returns the seqs of a receiver's part of the journal, from 1 to before the next one; none where that part is
        gone.
        """
        held = self._kafka.read_held_offsets([topic for topic in topics if not is_sparse(topic)])
        ends = {source: read_next_seq(path) for source, path in self._journals.items()}
        return {**held, **{topic: {0: (1, ends[source_of(topic)])} for topic in topics if is_sparse(topic)}}

    def records_at(self, points: Iterable[Point]) -> Mapping[Point, TopicRecord]:
        all_points = list(points)
        records = dict(self._kafka.records_at([point for point in all_points if not is_sparse(point[0])]))
        for source, path in self._journals.items():
            journal_points = [point for point in all_points if is_sparse(point[0]) and source_of(point[0]) == source]
            rows = _changed_rows(path, {seq for _, _, seq in journal_points})
            records |= {point: self._record(point[0], rows[point[2]]) for point in journal_points if point[2] in rows}
        return records

    def next_offsets(self, points: Iterable[Point]) -> Mapping[Point, int]:
        return self._kafka.next_offsets([point for point in points if not is_sparse(point[0])])

    def _record(self, topic: str, row: JournalRow) -> TopicRecord:
        key = make_event_key(self._stream, receiver_of(topic), row)
        headers = (("event_key", key.encode()), ("received_at", to_rfc3339(row.decided_at).encode()))
        return TopicRecord(row.seq, None, headers, body_known=False)


def read_next_seq(journal: str) -> int:
    return JournalReader(journal).last_seq + 1 if has_table(journal) else 1


def _changed_rows(journal: str, seqs: set[int]) -> dict[int, JournalRow]:
    if not seqs or not has_table(journal):
        return {}
    reader = JournalReader(journal)
    existing = sorted(seq for seq in seqs if 0 < seq <= reader.last_seq)
    return {row.seq: row for row in from_arrow(reader.tables_of(existing, NAMED_COLUMNS).filter(CHANGED_BOOKS))}
