"""Opens the source of a work stream's records: a streaming frame from the journal's marks on, and the records in it."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from core.kafka import spark_options
from core.routing import PARTITIONER, WHOLE, Shard
from core.settings import RECORD_BYTES_MAX, KafkaSettings
from journal.anchors import AnchorProducer
from journal.kafka_log import Held, KafkaLog, TopicLog
from journal.state import JournalState, Marks, marks_to_json
from processor.decide.rereads import Outgoing
from processor.history import check as positions
from processor.source.records import RECORD_SCHEMA
from processor.source.source_settings import EARLIEST, FROM_EARLIEST, Starting
from processor.source.while_blocked import ControlTopic, OrderReader

if TYPE_CHECKING:
    from processor.source.map_stage import MapStage

log = logging.getLogger(__name__)

TICK_S = 1
"""A batch is made at least this often, so that due retries are tried."""

ASYNC_PROGRESS = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "60000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}
"""Nothing rests on Spark's own checkpoint, which is made again at every start: no batch waits until it is on disk."""

WARM_BATCHES = 12
WARM_S_MAX = 5.0

PUBLISH_S_MAX = 5.0
"""A batch waits so long for Kafka's acknowledgement. librdkafka gives a record up before."""

COLUMNS = [*RECORD_SCHEMA.names[:-1], "unix_millis(timestamp) AS at_ms"]
_COLUMN_TYPES = (
    "string",
    "int",
    "bigint",
    "binary",
    "array<struct<key:string,value:binary>>",
    "binary",
    "bigint",
)
_NOTHING = tuple(
    f"CAST(NULL AS {kind}) AS {name}" for name, kind in zip(RECORD_SCHEMA.names, _COLUMN_TYPES, strict=True)
)


class StreamSource(Protocol):
    @property
    def every_s(self) -> float:
        """Returns the least seconds between two looks for records; 0: one right after the other."""

    @property
    def topics(self) -> Sequence[str]: ...

    def log(self) -> TopicLog: ...

    def find_start_marks(self, state: JournalState | None, held: Held) -> Marks: ...

    def describe_start(self, state: JournalState | None, held: Held, marks: Marks) -> str | None: ...

    def read_backlog(self, marks: Marks) -> Iterator[pa.Table]:
        """Yields tables of records that are taken before the first of `open_frame`, in order; none where that gives
        all.
        """

    def open_frame(self, marks: Marks, records_max: int) -> DataFrame:
        """Opens a streaming frame whose first records are those at ``marks``, about ``records_max`` of them in a
        batch.

        A row of NULLs comes now and then, so that batches happen although nothing arrives.
        """

    def collect(self, frame: DataFrame, expected: int) -> pa.Table: ...

    def open_orders(self) -> OrderReader: ...


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """Reads the topic of a stream's ``events``, if it reads one, and the one of its commands, with a tick every
    `TICK_S`.

    Of the events it reads the partitions of its ``shard``.
    """

    session: SparkSession
    kafka: KafkaSettings
    events: str
    control: str
    map_stage: MapStage | None = None
    every_s: float = 0.0
    shard: Shard = WHOLE
    starting: Starting = FROM_EARLIEST

    @property
    def topics(self) -> Sequence[str]:
        return [topic for topic in (self.events, self.control) if topic]

    def log(self) -> KafkaLog:
        return KafkaLog(self.kafka, self.is_own_partition)

    def is_own_partition(self, topic: str, partition: int) -> bool:
        return topic != self.events or self.shard.has_partition(partition)

    def find_start_marks(self, state: JournalState | None, held: Held) -> Marks:
        marks = positions.find_start_marks(state, held)
        if self._is_new(state) and self.starting.text != EARLIEST:
            marks[self.events] = self._first_offsets(held[self.events])
        return marks

    def describe_start(self, state: JournalState | None, held: Held, marks: Marks) -> str | None:
        if not self._is_new(state):
            return None
        return self.starting.to_sentence(self.events, held[self.events], marks[self.events])

    def _is_new(self, state: JournalState | None) -> bool:
        return bool(self.events) and (state is None or self.events not in state.marks)

    def _first_offsets(self, ends: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        if self.starting.moment is None:
            return {number: high for number, (_, high) in ends.items()}
        with contextlib.closing(self.log()) as source_log:
            return source_log.offsets_at(self.events, ends, self.starting.moment)

    def read_backlog(self, marks: Marks) -> Iterator[pa.Table]:  # noqa: ARG002 - the frame gives all
        return iter(())

    def open_frame(self, marks: Marks, records_max: int) -> DataFrame:
        return self.topic_frame(marks, records_max).unionByName(make_tick_frame(self.session))

    def topic_frame(self, marks: Marks, records_max: int) -> DataFrame:
        starts = {topic: marks[topic] for topic in self.topics}
        frame = self._topics_from(marks_to_json(starts), records_max)
        if self.shard.count == 1:
            return self._read(frame.option("subscribe", ",".join(sorted(starts))))
        partitions = {topic: sorted(numbers) for topic, numbers in starts.items()}
        return self._read(frame.option("assign", json.dumps(partitions)))

    def idle_frame(self) -> DataFrame:
        ticks = self.session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        coming = self._topics_from("latest", 1).option("subscribe", ",".join(sorted(self.topics)))
        return self._read(coming).unionByName(ticks.selectExpr(*_NOTHING))

    def _topics_from(self, starts: str, records_max: int) -> DataStreamReader:
        return (
            self.session.readStream.format("kafka")
            .options(**spark_options(self.kafka))
            .option("startingOffsets", starts)
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", records_max)
            .option("kafka.fetch.max.wait.ms", "20")
            .option("kafka.isolation.level", "read_committed")
        )

    def _read(self, reader: DataStreamReader) -> DataFrame:
        return reader.load().selectExpr(*COLUMNS)

    def collect(self, frame: DataFrame, expected: int) -> pa.Table:
        return frame.toArrow() if self.map_stage is None else self.map_stage.collect(frame, expected)

    def open_orders(self) -> OrderReader:
        return ControlTopic(self.kafka, self.control)


def make_tick_frame(session: SparkSession) -> DataFrame:
    rate = session.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return rate.where(f"value % {TICK_S} = 0").selectExpr(*_NOTHING)


class Idle(Protocol):
    def idle_frame(self) -> DataFrame: ...
    def collect(self, frame: DataFrame, expected: int) -> object: ...


def warm_up(source: Idle, checkpoint: Path) -> None:
    """Runs some empty batches before the first real one: a fresh JVM plans its first batches three times as slowly.

    The query is like the stream's own, on records that come from now on, and drops what it reads. Its failure is
    ignored: the stream itself will report it better.
    """
    enough, at_work = threading.Event(), threading.Lock()

    def batch(frame: DataFrame, number: int) -> None:
        with at_work:
            if not enough.is_set():
                source.collect(frame, 0)
        if number + 1 >= WARM_BATCHES:
            enough.set()

    try:
        writer = source.idle_frame().writeStream.foreachBatch(batch).options(**ASYNC_PROGRESS)
        query = writer.option("checkpointLocation", f"file://{checkpoint}").start()
        enough.wait(WARM_S_MAX)
        enough.set()
        with at_work:  # what is being collected is let finish: an interrupt in its middle fills the JVM's log
            pass
        query.stop()  # not under the lock: it waits for the batch under way, which takes the lock too
    except (PySparkException, Py4JError, OSError) as failed:
        log.info("the warm-up batch failed: %s", str(failed).partition("\n")[0][:300])
    shutil.rmtree(checkpoint, ignore_errors=True)


REPUBLISH = MappingProxyType(
    {
        "acks": "all",
        "enable.idempotence": True,
        "message.timeout.ms": int(PUBLISH_S_MAX * 800),
        "message.max.bytes": RECORD_BYTES_MAX,
        "partitioner": PARTITIONER,
    }
)
"""As the receiver's producer: every replica acknowledges."""


class Republisher:
    def __init__(self, producer_factory: Callable[[], AnchorProducer], topic: str) -> None:
        self._producer_factory = producer_factory
        self._producer: AnchorProducer | None = None
        self._topic = topic

    def __call__(self, events: Sequence[Outgoing]) -> str | None:
        errors: list[str] = []
        acknowledged = 0

        def on_delivery(error: object, _message: object) -> None:
            nonlocal acknowledged
            acknowledged += error is None
            if error is not None:
                errors.append(str(error))

        try:
            if self._producer is None:
                self._producer = self._producer_factory()
            for event, headers in events:
                key = event.entity_key.encode()
                self._producer.produce(self._topic, event.body, key=key, headers=headers, on_delivery=on_delivery)
            self._producer.flush(PUBLISH_S_MAX)
        except Exception as failed:  # a full queue, a fatal error: the next try begins with a new producer
            self._producer = None
            return str(failed) or type(failed).__name__
        if acknowledged == len(events):
            return None
        return errors[0] if errors else f"no answer within {PUBLISH_S_MAX:g} s"
