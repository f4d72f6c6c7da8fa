"""The Spark session that reads the ledger: batch jobs over Delta and Kafka, nothing streaming."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from core.spark import open_spark

SMALL_ROWS_MAX = 200_000
"""Up to here compiling queries costs more than it saves: half of a short verification's CPU time."""

ROWS_PER_SHUFFLE_PARTITION = 1_000_000


def open_read_session(
    name: str, master: str, driver_memory: str, jars: Sequence[Path], work_dir: Path, rows: int = 0
) -> SparkSession:
    """A session with Delta and Kafka as sources, laid out for a journal of about so many ``rows``.

    ``work_dir`` takes Spark's scratch files.
    """
    small = rows <= SMALL_ROWS_MAX
    jvm_options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" if small else ""
    scratch = work_dir / "spark-read"
    return open_spark(name, master, driver_memory, jars, scratch, _conf(rows, small=small), jvm_options)


def _conf(rows: int, *, small: bool) -> dict[str, str]:
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Every query reads nearly all files: picking them by their statistics would cost a job each.
        "spark.databricks.delta.stats.skipping": "false",
        "spark.databricks.delta.snapshotPartitions": "1" if small else "8",
        # Kept for a UI that nobody sees: plans of queries over all columns would fill the heap.
        "spark.sql.ui.retainedExecutions": "5",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.codegen.wholeStage": str(not small).lower(),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if small else "FALLBACK",
        "spark.sql.shuffle.partitions": str(max(2, rows // ROWS_PER_SHUFFLE_PARTITION)),
        # A journal has one small file a batch: reading them must not cost a task each.
        "spark.sql.files.openCostInBytes": str(256 << 10),
    }
