"""An archive of the classes that Spark's JVM loads, which makes each start some seconds shorter.

``python -m stack.class_archive`` makes it beside the jars; it is the last step of `make setup`. All works without it.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from core.spark import ARCHIVE
from processor.spark import open_session
from stack import paths
from stack.jars import spark_jars

BATCHES = 5
BATCHES_S_MAX = 60.0
EXIT_S_MAX = 120.0
NOBODY = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.default.api.timeout.ms": "1000",
    "kafka.request.timeout.ms": "900",
    "fetchOffset.numRetries": "1",
    "subscribe": "nothing",
}


def make(folder: Path) -> None:
    """Runs a little of everything in a JVM that, when it ends, writes down what it loaded: 160 MB."""
    fresh = folder / f"{ARCHIVE}.new"
    for old in (fresh, folder / ARCHIVE):
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="archive-", dir=paths.STATE) as work:
        session = open_session(
            "class-archive", "local[2]", "512m", spark_jars(), Path(work), f'"-XX:ArchiveClassesAtExit={fresh}"'
        )
        with contextlib.suppress(PySparkException, Py4JError):
            session.read.format("kafka").options(**NOBODY).load().limit(1).collect()
        _stream(session, Path(work))
        _end(session)
    fresh.rename(folder / ARCHIVE)


def _stream(session: SparkSession, work: Path) -> None:
    """Some batches through Python and back, as the processor's are."""
    batches: list[int] = []

    def batch(frame: DataFrame, number: int) -> None:
        frame.coalesce(1).mapInArrow(_same, "value long").toArrow()
        batches.append(number)

    rate = session.readStream.format("rate").option("rowsPerSecond", 100).load().select("value")
    query = rate.writeStream.foreachBatch(batch).option("checkpointLocation", str(work / "checkpoint")).start()
    until = time.monotonic() + BATCHES_S_MAX
    while len(batches) < BATCHES and time.monotonic() < until:
        time.sleep(0.1)
    query.stop()


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _end(session: SparkSession) -> None:
    """The JVM ends when nothing can come from Python any more; only then it writes."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - there is no other way to the JVM's process
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=EXIT_S_MAX)


if __name__ == "__main__":
    make(paths.JARS / "spark")
