"""The Spark session of a maintenance: opened when something is to be rewritten, not for a look."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from pyspark.sql import SparkSession

CONF = {
    # What delta-rs and this code write; Spark's own default is an older kind.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Thousands of files are named one by one: to ask for each here takes microseconds, a task each would take seconds.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    # Most files hold fewer rows: buffers for 4,096 in each of 45 columns, file after file, cost a fifth more.
    "spark.sql.parquet.columnarReaderBatchSize": "256",
}


class Session:
    """A session for as long as a ``with`` lasts; `get` opens it."""

    def __init__(self, open_session: Callable[[], SparkSession]) -> None:
        self._open = open_session
        self._session: SparkSession | None = None

    def get(self) -> SparkSession:
        if self._session is None:
            self._session = self._open()
            for name, value in CONF.items():
                self._session.conf.set(name, value)
        return self._session

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None
