"""How many records the next batch of a running query takes from Kafka.

Spark takes ``maxOffsetsPerTrigger`` once, when a query begins, and keeps it beside each source. A query begun anew with
another limit costs 1 to 2 s in which nothing is decided, and its consumers fetch anew; setting the limit where Spark
keeps it costs some milliseconds (docs/decisions/0015). The place is Spark's own business, so a test on the real thing
holds it, and where it can't be set the limit stays as it is.
"""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

KAFKA_SOURCE = "KafkaMicroBatchStream"


class ReadLimit:
    """Of one query; ``records`` is what it began with."""

    def __init__(self, session: SparkSession, query: StreamingQuery, records: int) -> None:
        self._jvm: Any = session._jvm  # noqa: SLF001 - there is no other way to what Spark keeps
        self._query = query
        self._records = records
        self._works = True

    @property
    def records(self) -> int:
        """The limit as it was last set."""
        return self._records

    def set(self, records: int) -> None:
        """From the next batch on. To be called between two batches, by the thread that runs them."""
        if records == self._records or not self._works:
            return
        try:
            self._set(records)
            self._records = records
        except (Py4JError, TypeError, AttributeError) as failed:
            self._works = False
            log.warning("batches stay at %d records at most: Spark's limit can't be set (%s)", self._records, failed)

    def _set(self, records: int) -> None:
        wrapper: Any = self._query._jsq  # noqa: SLF001
        execution = wrapper.streamingQuery()
        limits = execution.uniqueSources()
        limit = self._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows(records)
        sources = limits.keysIterator()
        while sources.hasNext():
            source = sources.next()
            if source.getClass().getSimpleName() == KAFKA_SOURCE:
                limits = limits.updated(source, limit)
        getattr(execution, "uniqueSources_$eq")(limits)
