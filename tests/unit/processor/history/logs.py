"""A Kafka in memory, and journals whose rows were decided from it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.clock import to_rfc3339
from journal.kafka_log import Held, Point
from journal.schema import JournalRow, TopicRecord
from journal.state import JournalState
from journal.writer import JournalWriter
from tests.unit.journal.rows import NOW, TOPIC, row


def record(offset: int, text: str) -> TopicRecord:
    """A receiver's record: ``text`` is its body and names its event."""
    headers = (("event_key", f"stripe:{text}:charge".encode()), ("received_at", to_rfc3339(NOW).encode()))
    return TopicRecord(offset, text.encode(), headers)


def records(*texts: str, low: int = 0) -> list[TopicRecord]:
    return [record(offset, text) for offset, text in enumerate(texts, low)]


def decided(seq: int, from_: TopicRecord, **changes: object) -> JournalRow:
    """The first row that a record got."""
    text = (from_.value or b"").decode()
    same = {"event_key": f"stripe:{text}:charge", "body_sha256": hashlib.sha256(from_.value or b"").hexdigest()}
    return row(seq, from_.offset, **{**same, **changes})


@dataclass
class MemoryLog:
    """One topic of one partition; as `journal.kafka_log.KafkaLog` tells it."""

    held_records: list[TopicRecord]
    topic_id: str = "id-1"
    low: int = 0
    topic: str = TOPIC
    closed: bool = field(default=False)

    @property
    def high(self) -> int:
        return self.held_records[-1].offset + 1 if self.held_records else self.low

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        return dict.fromkeys(topics, self.topic_id)

    def read_held_offsets(self, topics: Sequence[str]) -> Held:
        return {topic: {0: (self.low, self.high)} for topic in topics}

    def records_at(self, points: Iterable[Point]) -> Mapping[Point, TopicRecord]:
        there = {(self.topic, 0, one.offset): one for one in self.held_records if one.offset >= self.low}
        return {point: there[point] for point in points if point in there}

    def next_offsets(self, points: Iterable[Point]) -> Mapping[Point, int]:
        offsets = [one.offset for one in self.held_records]
        asked = [point for point in points if point[2] >= self.low]
        later = {point: [offset for offset in offsets if offset >= point[2]] for point in asked}
        return {point: found[0] for point, found in later.items() if found}

    def records(self, topic: str, partition: int, since: int, until: int) -> Iterator[TopicRecord]:
        return (one for one in self.held_records if self.low <= one.offset and since <= one.offset < until)

    def close(self) -> None:
        self.closed = True


def journal_of(path: Path, log: MemoryLog, *batches: Sequence[TopicRecord]) -> JournalState:
    """A journal that decided these batches of the log's records; returns where it stands."""
    writer = JournalWriter.create_or_open(str(path), "ledger")
    state = writer.begin_epoch({TOPIC: {0: log.low}}, topic_ids={TOPIC: log.topic_id})
    seq, until = state.next_seq, state.marks[TOPIC][0]
    for batch in batches:
        rows = [decided(seq + at, one, history=state.history(TOPIC).of_row()) for at, one in enumerate(batch)]
        seq, until = seq + len(rows), batch[-1].offset + 1
        writer.commit(rows, {TOPIC: {0: until}}, 0)
    return JournalWriter.create_or_open(str(path), "ledger").begin_epoch({})
