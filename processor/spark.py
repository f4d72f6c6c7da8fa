"""The Spark session of the processor, and the garbage collector of its Python processes."""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from core.spark import COMPILED_ONCE, open_spark

_LOCAL = re.compile(r"local\[(\d+)\]")

JVM_OPTIONS = f"{COMPILED_ONCE} -XX:G1HeapRegionSize=8m"
"""Of the driver. Compiled once: on two cores a start takes 10 s less, the first minute is twice as quick, and a
backlog drains no slower. A batch's largest buffers are collected like any other object (docs/decisions/0019)."""

_CONF = {
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # Each stream's jobs are in a pool of its own: none waits behind another stream's.
    "spark.scheduler.mode": "FAIR",
    # Delta's planner rules would be asked in every batch of every stream; its streaming source does without them.
    "spark.databricks.delta.requiredSparkConfsCheck.enabled": "false",
    # Each job's tasks are broadcast, some 50 KB: as shipped that takes a buffer of 4 MB, which G1 counts as humongous,
    # and looks through the whole heap for.
    "spark.broadcast.blockSize": "256k",
    # Executors elsewhere, as the driver: their tasks are short.
    "spark.executor.defaultJavaOptions": COMPILED_ONCE,
    "spark.python.worker.reuse": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "40ms",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false",
    # A local master tries each task once whatever stands here. A task that is lost with its executor is tried again.
    "spark.task.maxFailures": "2",
}

YOUNG_MAX, MIDDLE_MAX, OLD_MAX = 100_000, 20, 50
"""Objects before the young are looked at, and how often a generation is looked at before the next one is."""


def open_session(
    name: str,
    master: str,
    driver_memory: str,
    jars: Sequence[Path],
    work_dir: Path,
    archive: Path | None = None,
) -> SparkSession:
    """``work_dir`` takes Spark's scratch files. ``archive``: the code, for executors that aren't on this machine."""
    return open_spark(name, master, driver_memory, jars, work_dir / "spark", _CONF, JVM_OPTIONS, archive)


def spark_runs(session: SparkSession) -> bool:
    try:
        context: Any = session.sparkContext._jsc  # noqa: SLF001 - there is no other way to it
        return context is not None and not context.sc().isStopped()
    except (Py4JError, OSError):
        return False


def add_slots(master: str, more: int) -> str:
    """Adds ``more`` slots for tasks to a local master; returns any other master as it is.

    Slots of a local master are threads: a stream that mostly waits for others gets one, and takes none from the rest.
    """
    local = _LOCAL.fullmatch(master)
    return master if local is None else f"local[{int(local[1]) + more}]"


def calm_collector() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, MIDDLE_MAX, OLD_MAX)


@contextlib.contextmanager
def pause_collection() -> Iterator[None]:
    """Stops the garbage collector within the block.

    A batch makes millions of objects that live until it ends and have no cycles. Looking for cycles among them took a
    sixth of its time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
