"""Spark for the ledger's batch jobs: a session that reads Delta and Kafka."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from core.errors import PayhookError
from core.location import Location
from core.spark import COMPILED_ONCE, is_local, open_spark
from journal.errors import PROBLEM_CHARS_MAX

SMALL_ROWS_MAX = 200_000
"""Up to here compiling queries costs more than it saves: half of a short verification's CPU time."""

ROWS_PER_SHUFFLE_PARTITION = 1_000_000

MAINTENANCE_MASTER = "local[1]"
"""One core is left to the processor."""


class SparkFailed(PayhookError):
    def __init__(self, said: str) -> None:
        self.said = said
        in_java = said.partition("\n\tat ")[0].rpartition("\n: ")[2]
        super().__init__(f"Spark failed: {' '.join(in_java.split())[:PROBLEM_CHARS_MAX]}")


def maintenance_master(master: str) -> str:
    return MAINTENANCE_MASTER if is_local(master) else master


def open_read_session(
    name: str, master: str, driver_memory: str, jars: Sequence[Path], work_dir: Path, rows: int = 0
) -> SparkSession:
    """Opens a session with Delta and Kafka as sources, laid out for a journal of about so many ``rows``.

    ``work_dir`` takes Spark's scratch files.
    """
    small = rows <= SMALL_ROWS_MAX
    jvm_options = f"{COMPILED_ONCE} -XX:+UseSerialGC" if small else ""
    scratch = work_dir / "spark-read"
    return open_spark(name, master, driver_memory, jars, scratch, _build_conf(rows, small=small), jvm_options)


@contextlib.contextmanager
def read_session(
    name: str, master: str, driver_memory: str, jars: Sequence[Path], work_dir: Path, rows: int
) -> Iterator[SparkSession]:
    """Opens a session as `open_read_session` does, for one command of a person: Spark's log would hide its result.

    :raises SparkFailed: Spark can't do what the block asks
    """
    with open_read_session(name, master, driver_memory, jars, work_dir, rows) as session:
        session.sparkContext.setLogLevel("FATAL")
        try:
            yield session
        except (PySparkException, Py4JError) as failed:
            raise SparkFailed(str(failed)) from failed


def _build_conf(rows: int, *, small: bool) -> dict[str, str]:
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Every query reads nearly all files: picking them by their statistics would cost a job each.
        "spark.databricks.delta.stats.skipping": "false",
        "spark.databricks.delta.snapshotPartitions": "1" if small else "8",
        # Kept for a UI that is off: plans of queries over all columns would fill the heap.
        "spark.sql.ui.retainedExecutions": "5",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.codegen.wholeStage": str(not small).lower(),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if small else "FALLBACK",
        "spark.sql.shuffle.partitions": str(max(1, rows // ROWS_PER_SHUFFLE_PARTITION)),
        # A journal has one small file a batch: reading them must not cost a task each.
        "spark.sql.files.openCostInBytes": str(256 << 10),
    }


def read_table(session: SparkSession, path: Location | str, version: int) -> DataFrame:
    return session.read.format("delta").option("versionAsOf", version).load(str(path))
