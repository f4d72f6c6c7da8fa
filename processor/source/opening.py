"""Opens what a stream reads, and what it sends back there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

from core.errors import PayhookError
from core.kafka import open_producer
from journal.anchors import AnchorProducer
from journal.kafka_log import KafkaLog, KafkaSilent, Point
from journal.schema import JournalRow, TopicRecord, same_record
from processor.source.feed import FeedRecords
from processor.source.journal_source import JournalSource
from processor.source.map_stage import MapJob, MapStage
from processor.source.source_settings import parse_starting
from processor.source.sources import REPUBLISH, KafkaSource, Republisher, StreamSource
from processor.topics import SharedResources
from processor.wiring import Wired

PUBLISH_S_MAX = 5.0


class RecordGone(PayhookError):
    def __init__(self, topic: str, partition: int, offset: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        super().__init__(
            f"Kafka no longer holds {topic}[{partition}]@{offset}: have its sender publish it again, then resolve this"
        )


class PutBack:
    """Publishes another program's record once more, at the end of its topic (`processor.decide.ports.PutBackRecord`).

    That is how a record without an identity is replayed. The copy has the same key, value, headers and partition, and
    is decided like any other. Every reader of the topic sees it again.
    """

    def __init__(self, producer_factory: Callable[[], AnchorProducer], log_factory: Callable[[], KafkaLog]) -> None:
        self._producer_factory = producer_factory
        self._log_factory = log_factory
        self._producer: AnchorProducer | None = None

    def __call__(self, row: JournalRow, mark: tuple[str, bytes]) -> str | None:
        """
        :param row: the record's first row, or a later one
        :param mark: a header that says which item the copy is of
        :returns: why Kafka didn't take it; then the copy may be there all the same
        :raises RecordGone: there is nothing to be put back
        """
        try:
            record = self._read(row)
        except KafkaSilent as silent:
            return str(silent)
        return self._publish(row, [*(header for header in record.headers if header[0] != mark[0]), mark], record)

    def _read(self, row: JournalRow) -> TopicRecord:
        point: Point = (row.topic, row.partition, row.offset)
        with contextlib.closing(self._log_factory()) as log:
            record = log.records_at([point]).get(point)
        if record is None or not same_record(row, record):
            raise RecordGone(*point)
        return record

    def _publish(self, row: JournalRow, headers: list[tuple[str, bytes | None]], record: TopicRecord) -> str | None:
        errors: list[str | None] = []

        def on_delivery(error: object, _message: object) -> None:
            errors.append(None if error is None else str(error))

        try:
            if self._producer is None:
                self._producer = self._producer_factory()
            place = {"key": record.key, "partition": row.partition, "headers": headers}
            self._producer.produce(row.topic, record.value, **place, on_delivery=on_delivery)
            self._producer.flush(PUBLISH_S_MAX)
        except Exception as failed:  # a full queue, a fatal error: the next try begins with a new producer
            self._producer = None
            return str(failed) or type(failed).__name__
        return errors[0] if errors else f"no answer within {PUBLISH_S_MAX:g} s"


def open_source(wired: Wired, shared: SharedResources) -> StreamSource:
    events, control = wired.events_topic, wired.control_topic
    if wired.reads is None:
        starting = parse_starting(wired.config.starting_offsets)
        stage = _make_map_stage(wired, shared)
        return KafkaSource(shared.session, shared.kafka, events, control, stage, shard=wired.shard, starting=starting)
    receivers = wired.reads.feed.receivers(wired.mode)
    wired.reads.receivers.add(receivers)
    records = FeedRecords(wired.config.name, wired.reads.journals, wired.reads.feed, receivers)
    kafka = KafkaSource(shared.session, shared.kafka, events, control)
    return JournalSource(wired.reads.journals, records, kafka, wired.reads.since)


def _make_map_stage(wired: Wired, shared: SharedResources) -> MapStage:
    # With one task, a call that was abandoned is found again: its Python worker must take no other task in between.
    workers = f"{wired.name} reads" if wired.config.tasks_max == 1 else wired.name
    stage = MapJob(wired.task, wired.mode, wired.control_topic, where=wired.where, foreign=wired.foreign)
    return MapStage(stage, workers, shared.task_counter(wired.config.tasks_max), lambda: wired.event_keys)


def make_republisher(wired: Wired, shared: SharedResources) -> Republisher | None:
    topic = wired.events_topic
    return Republisher(partial(open_producer, shared.kafka, REPUBLISH, shared.record_keys), topic) if topic else None


def make_put_back(wired: Wired, shared: SharedResources) -> PutBack | None:
    if wired.foreign is None:
        return None
    return PutBack(partial(open_producer, shared.kafka, REPUBLISH), partial(KafkaLog, shared.kafka))
