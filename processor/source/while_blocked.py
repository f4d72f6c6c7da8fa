"""Obeys orders while a stream is blocked, and tries one event at a time until one gets through."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from core.clock import Clock
from core.kafka import open_consumer
from core.settings import KafkaSettings
from journal.state import Marks
from processor.decide.batch import Batches
from processor.source.records import KafkaRecord, drop_answers, read_table

log = logging.getLogger(__name__)

LOOK_S = 0.05

ORDERS_MAX = 10
"""Of one read: an order may name thousands of items."""

READ_S_MAX = 0.05
OFFSETS_LOST = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)  # noqa: SLF001  the library's public name


class OrderReader(Protocol):
    def read(self, marks: Marks) -> list[KafkaRecord]:
        """Returns what has come from the marks on, without a wait; the same again until the marks have moved
        past it.
        """

    def close(self) -> None: ...


class WhileBlocked:
    """Holds a stream's next batch back until it may be decided.

    Nothing is read after that batch: Kafka keeps the backlog. A probe may take an event of it where every waiting event
    has failed before. Commands come from a consumer of their own, which is open only while it is needed.
    """

    def __init__(
        self,
        batches: Batches,
        clock: Clock,
        open_orders: Callable[[], OrderReader],
        stop: threading.Event,
        on_batch: Callable[[], None],
    ) -> None:
        self._batches = batches
        self._clock = clock
        self._open_orders = open_orders
        self._stop = stop
        self._on_batch = on_batch
        self._orders: OrderReader | None = None

    @property
    def _probe_at(self) -> float | None:
        return self._batches.progress.probe_at

    @_probe_at.setter
    def _probe_at(self, at: float | None) -> None:
        self._batches.progress.probe_at = at

    def wait_while_blocked(self, table: pa.Table) -> bool:
        """Waits while the stream is blocked; returns whether the batch is to be decided as usual.

        It returns False where the stream stops, or where it is still blocked but all of the batch is decided. The next
        batch may then bring an event to try.
        """
        if not self._batches.is_blocked:
            return True
        records: Sequence[KafkaRecord] = read_table(drop_answers(table))
        self._run_commands(records)
        records = self._batches.filter_undecided(records)
        if self._probe_at is None:
            self._probe_at = self._clock.monotonic_s() + self._batches.probe_s
        if records and self._batches.has_better_probe(records):
            self._probe_at = self._clock.monotonic_s()
        while self._batches.is_blocked and not self._stop.is_set():
            self._run_commands((self._orders or self._open()).read(self._batches.committed_marks))
            if self._clock.monotonic_s() >= self._probe_at:
                self._probe(records)
                records = self._batches.filter_undecided(records)
            elif not records:
                return False
            else:
                self._stop.wait(LOOK_S)
            self._on_batch()
        if not self._batches.is_blocked:
            self.close()
        return not self._stop.is_set()

    def close(self) -> None:
        self._probe_at = None
        if self._orders is not None:
            self._orders.close()
            self._orders = None

    def _open(self) -> OrderReader:
        self._orders = self._open_orders()
        return self._orders

    def _run_commands(self, records: Sequence[KafkaRecord]) -> None:
        if self._batches.run_commands(records):
            self._probe_at = self._clock.monotonic_s()
            self._on_batch()

    def _probe(self, records: Sequence[KafkaRecord]) -> None:
        wait_s = self._batches.probe(records)
        self._probe_at = self._clock.monotonic_s() + wait_s


class ControlTopic:
    """Reads one topic from a journal's marks on, while a stream is blocked and takes no batches.

    It commits no offsets: the marks say what is decided.
    """

    def __init__(self, kafka: KafkaSettings, topic: str) -> None:
        self._topic = topic
        self._consumer = open_consumer(
            kafka,
            {
                "group.id": "payhook-control",
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "enable.auto.commit": False,
            },
        )
        self._assigned: dict[int, int] | None = None

    def read(self, marks: Marks) -> list[KafkaRecord]:
        """Returns records from the marks on, in each partition's order; none where Kafka gives no answer.

        :raises KafkaException: the offsets at the marks aren't there
        """
        starts = marks.get(self._topic, {})
        if self._assigned != starts:
            self._consumer.assign([TopicPartition(self._topic, number, at) for number, at in starts.items()])
            self._assigned = dict(starts)
        records = [
            _make_record(message) for message in self._consumer.consume(ORDERS_MAX, READ_S_MAX) if _is_good(message)
        ]
        for record in records:
            self._assigned[record.partition] = record.offset + 1
        return records

    def close(self) -> None:
        self._consumer.close()


def _is_good(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.code() in OFFSETS_LOST:
        raise KafkaException(error)
    log.warning("the control topic can't be read now: %s", error.str())
    return False


def _make_record(message: Message) -> KafkaRecord:
    value: Any = message.value()
    key: Any = message.key()
    headers: Any = message.headers() or []
    place = message.topic() or "", message.partition() or 0, message.offset() or 0
    return KafkaRecord(*place, value, headers, key=key)
