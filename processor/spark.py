"""The Spark session of the processor, and its streaming source: Kafka's topics plus a tick."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

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


def open_session(name: str, master: str, driver_memory: str, jars: Sequence[Path], work_dir: Path) -> SparkSession:
    """A session whose Python workers run this interpreter. ``work_dir`` takes Spark's scratch files."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    scratch = work_dir / "spark"
    scratch.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in _conf(driver_memory, jars, scratch).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _conf(driver_memory: str, jars: Sequence[Path], scratch: Path) -> dict[str, str]:
    return {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.memory": driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch} -Djava.io.tmpdir={scratch}",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",
        "spark.python.worker.reuse": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false",
        "spark.task.maxFailures": "1",
    }


def source(session: SparkSession, bootstrap: str, marks: Marks, offsets_per_batch_max: int, tick_s: int) -> DataFrame:
    """A stream of `COLUMNS` from ``marks`` on, with a row of NULLs every ``tick_s`` seconds."""
    kafka = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", ",".join(sorted(marks)))
        .option("startingOffsets", starting_offsets(marks))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", offsets_per_batch_max)
        .option("kafka.fetch.max.wait.ms", "20")
        .option("kafka.isolation.level", "read_committed")
        .load()
        .select(*COLUMNS)
    )
    tick = (
        session.readStream.format("rate")
        .option("rowsPerSecond", 1)
        .option("numPartitions", 1)
        .load()
        .where(f"value % {tick_s} = 0")
        .selectExpr(*(f"CAST(NULL AS {kind}) AS {name}" for name, kind in zip(COLUMNS, _COLUMN_TYPES, strict=True)))
    )
    return kafka.unionByName(tick)


def starting_offsets(marks: Marks) -> str:
    """The marks as the Kafka source takes them: ``{"topic": {"0": 17}}``."""
    return json.dumps(
        {topic: {str(number): until for number, until in partitions.items()} for topic, partitions in marks.items()}
    )
