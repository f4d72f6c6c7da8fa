"""Where a work stream's records come from: a streaming frame from the journal's marks on, and the records in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from journal.kafka_log import Held, KafkaLog, Log
from journal.state import JournalState, Marks
from processor.history import check as positions

COLUMNS = ("topic", "partition", "offset", "value", "headers")
_COLUMN_TYPES = (
    "string",
    "int",
    "bigint",
    "binary",
    "array<struct<key:string,value:binary>>",
)
_NOTHING = tuple(f"CAST(NULL AS {kind}) AS {name}" for name, kind in zip(COLUMNS, _COLUMN_TYPES, strict=True))


class Source(Protocol):
    """What a work stream reads."""

    @property
    def every_s(self) -> float:
        """Seconds from one look for records to the next at least; 0: one right after the other."""

    @property
    def topics(self) -> Sequence[str]:
        """What it is read from, by name."""

    def log(self) -> Log:
        """What the topics hold, for the length of a check; the caller closes it."""

    def starts(self, state: JournalState | None, held: Held) -> Marks:
        """Where partitions begin that the journal doesn't know; without a ``state`` there is no journal yet."""

    def backlog(self, marks: Marks) -> Iterator[pa.Table]:
        """Tables of records that are taken before the first of `frame`, in order; none where `frame` gives all."""

    def frame(self, marks: Marks, records_max: int) -> DataFrame:
        """A streaming frame whose first records are those at ``marks``, about ``records_max`` of them in a batch.

        A row of NULLs comes now and then, so that batches happen although nothing arrives.
        """

    def records(self, table: pa.Table) -> pa.Table:
        """What a batch of `frame` holds, as records of `COLUMNS`."""


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """Topics of Kafka, with a tick every ``tick_s`` seconds."""

    session: SparkSession
    bootstrap: str
    topics: Sequence[str]
    tick_s: int
    every_s: float = 0.0

    def log(self) -> KafkaLog:
        return KafkaLog(self.bootstrap)

    def starts(self, state: JournalState | None, held: Held) -> Marks:
        return positions.starts(state, held)

    def backlog(self, marks: Marks) -> Iterator[pa.Table]:  # noqa: ARG002 - the frame gives all
        return iter(())

    def frame(self, marks: Marks, records_max: int) -> DataFrame:
        return self.topic_frame(marks, records_max).unionByName(tick(self.session, self.tick_s))

    def topic_frame(self, marks: Marks, records_max: int) -> DataFrame:
        """The topics' records alone, without the tick."""
        return self._topics_from(starting_offsets({topic: marks[topic] for topic in self.topics}), records_max)

    def idle_frame(self) -> DataFrame:
        """What comes from now on, and rows of NULLs without end."""
        ticks = self.session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        return self._topics_from("latest", 1).unionByName(ticks.selectExpr(*_NOTHING))

    def _topics_from(self, starts: str, records_max: int) -> DataFrame:
        return (
            self.session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", ",".join(sorted(self.topics)))
            .option("startingOffsets", starts)
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", records_max)
            .option("kafka.fetch.max.wait.ms", "20")
            .option("kafka.isolation.level", "read_committed")
            .load()
            .select(*COLUMNS)
        )

    def records(self, table: pa.Table) -> pa.Table:
        return table


def tick(session: SparkSession, tick_s: int) -> DataFrame:
    """A streaming frame of a row of NULLs every ``tick_s`` seconds."""
    rate = session.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return rate.where(f"value % {tick_s} = 0").selectExpr(*_NOTHING)


def starting_offsets(marks: Marks) -> str:
    """The marks as the Kafka source takes them: ``{"topic": {"0": 17}}``."""
    return json.dumps(
        {topic: {str(number): until for number, until in partitions.items()} for topic, partitions in marks.items()}
    )
