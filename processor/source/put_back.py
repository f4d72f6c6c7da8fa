"""Publishes another program's record once more, at the end of its topic. That is how one that wasn't named is replayed.

The copy has the same key, value, headers and partition, and is decided like any other record: where the first attempt
to name it failed, the next one may not. Every reader of the topic sees it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from core.errors import PayhookError
from journal.anchors import AnchorProducer
from journal.kafka_log import KafkaLog, KafkaSilent, Point
from journal.schema import JournalRow, TopicRecord, same_record

PUBLISH_S_MAX = 5.0


class RecordGone(PayhookError):
    """Kafka no longer holds the record that was decided."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        super().__init__(
            f"Kafka no longer holds {topic}[{partition}]@{offset}: have its sender publish it again, then resolve this"
        )


class PutBack:
    """Puts records of one topic back (`processor.decide.rereads.PutBackRecord`). Clients are made when first needed."""

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
