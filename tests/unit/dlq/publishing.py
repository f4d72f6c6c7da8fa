"""A publisher on a producer and a journal that the test plays."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from core.clock import ManualClock
from core.decision import Decision
from dlq.publisher import DlqPublisher, Tally, Watcher
from dlq.record import DeadLetterTopic
from journal.schema import JournalRow
from tests.unit.journal.rows import bare_row

BODY = b'{"id": "evt_1"}'
TOPIC = DeadLetterTopic("dlq.ledger", "payhook-ledger")
SMALL = 4


def dead_row(seq: int, decision: Decision = Decision.DEAD, partition: int = 0) -> JournalRow:
    return bare_row(seq, decision, partition=partition, body_sha256=hashlib.sha256(BODY).hexdigest())


class Acknowledged:
    """A record as Kafka holds it."""

    def __init__(self, offset: int = 0, partition: int = 0) -> None:
        self._partition, self._offset = partition, offset

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset


class FakeProducer:
    """Queues records; the test says what becomes of each. ``queue_max`` models librdkafka's full queue."""

    def __init__(self, queue_max: int = 100) -> None:
        self.queue: list[tuple[dict[str, Any], Any]] = []
        self.landed: list[int] = []
        self.values: list[bytes | None] = []
        self.partitions: list[int] = []
        self._queue_max = queue_max
        self.refuse_locally: Callable[[dict[str, Any]], KafkaError | None] = lambda record: None
        self.on_poll: Callable[[], None] = lambda: None
        self.purged = False

    def produce(self, topic: str, **record: Any) -> None:
        assert topic == "dlq.ledger"
        refused = self.refuse_locally(record)
        if refused is not None:
            raise KafkaException(refused)
        if len(self.queue) >= self._queue_max:
            raise BufferError("queue full")
        self.queue.append((record, record["on_delivery"]))

    def poll(self, timeout: float) -> int:
        assert timeout == 0
        self.on_poll()
        return 0

    def flush(self, timeout: float) -> int:
        self.deliver(len(self.queue))
        return 0

    def purge(self) -> None:
        self.purged = True
        self.fail(len(self.queue), KafkaError(KafkaError._PURGE_QUEUE))

    def deliver(self, count: int = 1, at: int = 0) -> None:
        for _ in range(min(count, len(self.queue))):
            record, callback = self.queue.pop(min(at, len(self.queue) - 1))
            self.landed.append(int(dict(record["headers"])["payhook.seq"]))
            self.values.append(record["value"])
            self.partitions.append(record["partition"])
            callback(None, Acknowledged(len(self.landed) - 1, record["partition"]))

    def fail(self, count: int, error: KafkaError) -> None:
        for _ in range(min(count, len(self.queue))):
            _, callback = self.queue.pop(0)
            callback(error, None)


class FakeJournal:
    """Rows by seq, and their bodies, as the reader and the store of bodies give them."""

    def __init__(self, rows: Sequence[JournalRow] = ()) -> None:
        self.rows = list(rows)

    def rows_after(self, seq: int, columns: Sequence[str] | None = None) -> Iterator[list[JournalRow]]:
        found = [row for row in self.rows if row.seq > seq]
        for at in range(0, len(found), 3):
            yield found[at : at + 3]

    def fetch(self, hashes: Sequence[str]) -> Mapping[str, bytes]:
        return dict.fromkeys(hashes, BODY)


def publisher(
    producer: FakeProducer,
    clock: ManualClock | None = None,
    published_upto: int = 0,
    watcher: Watcher | None = None,
    tally: Tally | None = None,
) -> DlqPublisher:
    clock = clock or ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
    return DlqPublisher(lambda: producer, TOPIC, published_upto, clock, watcher, tally)


def live_row(seq: int) -> JournalRow:
    return dead_row(seq, decision=Decision.APPLIED)


def batch(*seqs: int) -> list[tuple[JournalRow, bytes]]:
    return [(dead_row(seq), BODY) for seq in seqs]


def wait_for(condition: Callable[[], bool], step: Callable[[], None]) -> None:
    until = time.monotonic() + 30
    while not condition() and time.monotonic() < until:
        step()
    assert condition()
