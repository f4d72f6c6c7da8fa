"""The Spark session of the processor."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from core.jvm import jars_conf

_LOCAL = re.compile(r"local\[(\d+)\]")


def open_session(
    name: str, master: str, driver_memory: str, jars: Sequence[Path], work_dir: Path, jvm_options: str = ""
) -> SparkSession:
    """A session whose Python workers run this interpreter. ``work_dir`` takes Spark's scratch files."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    scratch = work_dir / "spark"
    scratch.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**jars_conf(jars, master), **_conf(driver_memory, scratch, jvm_options)}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def with_slots(master: str, more: int) -> str:
    """A local master with ``more`` slots for tasks; any other master as it is.

    Slots of a local master are threads: a stream that mostly waits for others gets one, and takes none from the rest.
    """
    local = _LOCAL.fullmatch(master)
    return master if local is None else f"local[{int(local[1]) + more}]"


def _conf(driver_memory: str, scratch: Path, jvm_options: str) -> dict[str, str]:
    return {
        "spark.driver.memory": driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch} -Djava.io.tmpdir={scratch} {jvm_options}",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        # Each stream's jobs are in a pool of its own: none waits behind another stream's.
        "spark.scheduler.mode": "FAIR",
        # Delta's planner rules would be asked in every batch of every stream; its streaming source does without them.
        "spark.databricks.delta.requiredSparkConfsCheck.enabled": "false",
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
