"""Where a work stream's records come from: a streaming frame of `COLUMNS` from the journal's marks on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from journal.marks import Marks

COLUMNS = ("topic", "partition", "offset", "value", "headers")
_COLUMN_TYPES = (
    "string",
    "int",
    "bigint",
    "binary",
    "array<struct<key:string,value:binary>>",
)


class Source(Protocol):
    """What a work stream reads."""

    def frame(self, marks: Marks) -> DataFrame:
        """A streaming frame of `COLUMNS` whose first records are those at ``marks``.

        A row of NULLs comes now and then, so that batches happen although nothing arrives.
        """


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """Topics of Kafka, with a tick every ``tick_s`` seconds."""

    session: SparkSession
    bootstrap: str
    offsets_per_batch_max: int
    tick_s: int

    def frame(self, marks: Marks) -> DataFrame:
        kafka = (
            self.session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", ",".join(sorted(marks)))
            .option("startingOffsets", starting_offsets(marks))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", self.offsets_per_batch_max)
            .option("kafka.fetch.max.wait.ms", "20")
            .option("kafka.isolation.level", "read_committed")
            .load()
            .select(*COLUMNS)
        )
        return kafka.unionByName(tick(self.session, self.tick_s))


def tick(session: SparkSession, tick_s: int) -> DataFrame:
    """A streaming frame of a row of NULLs every ``tick_s`` seconds."""
    nothing = (f"CAST(NULL AS {kind}) AS {name}" for name, kind in zip(COLUMNS, _COLUMN_TYPES, strict=True))
    rate = session.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return rate.where(f"value % {tick_s} = 0").selectExpr(*nothing)


def starting_offsets(marks: Marks) -> str:
    """The marks as the Kafka source takes them: ``{"topic": {"0": 17}}``."""
    return json.dumps(
        {topic: {str(number): until for number, until in partitions.items()} for topic, partitions in marks.items()}
    )
