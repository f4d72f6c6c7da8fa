"""Feeds a work stream's batches by Spark from the journal's marks on until it is asked to stop; it ends on any
doubt."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from core.clock import Clock
from core.errors import PayhookError
from core.log import in_this_context
from journal.errors import StorageDown, StreamRefused
from processor.backlog.catch_up import StreamCatchUp
from processor.decide.batch import Batches
from processor.reporting.progress import BatchFetch
from processor.source.records import drop_answers
from processor.source.sources import ASYNC_PROGRESS, StreamSource
from processor.source.while_blocked import WhileBlocked

log = logging.getLogger(__name__)

IDLE_CHECK_S = 0.05
STOP_WAIT_S_MAX = 30.0
PROBLEM_CHARS_MAX = 500

KAFKA_SOURCE = "KafkaMicroBatchStream"
"""The simple name of the class in which Spark reads Kafka."""

_NO_ROOM = re.compile(
    r"No space left on device|Read-only file system|Disk quota exceeded|Input/output error|Permission denied"
    r"|FileNotFoundException.*checkpoints|ParentNotDirectoryException"
)
"""How the JVM words that Spark's checkpoint or scratch files can't be written."""


T = TypeVar("T")

MakeThread = Callable[[Callable[[], None]], threading.Thread]


@dataclass(frozen=True, slots=True)
class BatchRead:
    table: pa.Table
    fetch: BatchFetch


class Stream:
    """Runs a stream once: feeds a `Batches` engine from one Spark query, and closes the engine at the end.

    Each start makes a new checkpoint: the marks in the journal say where to begin.
    """

    def __init__(
        self,
        batches: Batches,
        source: StreamSource,
        catch_up: StreamCatchUp,
        clock: Clock,
        checkpoint: Path,
        on_batch: Callable[[], None],
    ) -> None:
        self._catch_up = catch_up
        self._read_limit: ReadLimit | None = None
        self._source = source
        self._batches = batches
        self._clock = clock
        self._checkpoint = checkpoint
        self._on_batch = on_batch
        self._stop = threading.Event()
        self._in_batch = threading.Lock()
        self._failure: BaseException | None = None
        self._reads_ahead = False
        self._ahead: DecisionThread[BatchRead] = DecisionThread(self._decide)
        self._while_blocked = WhileBlocked(batches, clock, source.open_orders, self._stop, on_batch)

    @property
    def has_decided(self) -> bool:
        return self._batches.progress.batches > 0

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> None:
        """Runs until `stop`; when it returns or raises, no batch runs any more and the engine is closed.

        :raises StorageDown: Spark's own files can't be written
        :raises BaseException: whatever else ended the stream
        """
        try:
            self._run_query()
        except BaseException:
            self._batches.release()
            raise
        self._batches.close()

    def _run_query(self) -> None:
        try:
            self._take_backlog()
            if self._stop.is_set():
                return
            query = self._start()
            self._ahead.start(lambda run: InheritableThread(in_this_context(run)))
            while query.isActive and not self._stop.is_set() and self._failure is None and self._ahead.failure is None:
                if self._batches.history_refusal is not None:
                    self._failure = self._batches.history_refusal
                self._stop.wait(IDLE_CHECK_S)
            self._end(query)
        finally:
            self._while_blocked.close()

    def _take_backlog(self) -> None:
        for table in self._source.read_backlog(self._batches.committed_marks):
            if self._stop.is_set():
                return
            if self._while_blocked.wait_while_blocked(table):
                self._run(table)

    def _run(self, table: pa.Table) -> None:
        self._batches.run(table)
        self._catch_up.after_batch(self._batches.progress, self._batches.committed_marks)
        self._on_batch()

    def _start(self) -> StreamingQuery:
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        self._catch_up.begin()
        limit = self._catch_up.limit
        stream = self._source.open_frame(self._batches.committed_marks, limit)
        writer = stream.writeStream.foreachBatch(in_this_context(self._batch)).option(
            "checkpointLocation", f"file://{self._checkpoint}"
        )
        writer = writer.options(**ASYNC_PROGRESS)
        if self._source.every_s > 0:
            writer = writer.trigger(processingTime=f"{round(self._source.every_s * 1_000)} milliseconds")
        try:
            query = writer.start()
        except (PySparkException, Py4JError) as failed:
            raise self._as_storage_down(failed) from failed
        self._read_limit = ReadLimit(stream.sparkSession, query, limit)
        return query

    def _end(self, query: StreamingQuery) -> None:
        self._stop.set()
        if not self._ahead.close(STOP_WAIT_S_MAX):
            log.error("the batch under way isn't decided after %.0f s; it is abandoned", STOP_WAIT_S_MAX)
        failed = self._ahead.failure
        if failed is not None and self._failure is None:
            self._failure = self._as_storage_down(failed) if isinstance(failed, Exception) else failed
        if self._in_batch.acquire(timeout=STOP_WAIT_S_MAX):
            self._in_batch.release()
        if self._failure is not None:
            if not isinstance(self._failure, StreamRefused):
                self._await_end(query)
            elif query.isActive:
                query.stop()
            raise self._failure
        if query.isActive:
            query.stop()
            return
        ended_by = query.exception()
        if ended_by is not None:
            raise self._as_storage_down(ended_by) from ended_by

    def _await_end(self, query: StreamingQuery) -> None:
        """Waits for a query whose batch failed to end by itself; stopping it meanwhile only fills the JVM's log."""
        with contextlib.suppress(PySparkException, Py4JError):  # what the batch raised, once more
            if not query.awaitTermination(int(STOP_WAIT_S_MAX)):
                query.stop()

    def _as_storage_down(self, failed: Exception) -> Exception:
        problem = str(failed)
        if isinstance(failed, PayhookError) or _NO_ROOM.search(problem) is None:
            return failed
        return StorageDown("Spark's checkpoint", str(self._checkpoint), problem[:PROBLEM_CHARS_MAX])

    def _batch(self, frame: DataFrame, _batch_id: int) -> None:
        with self._in_batch:
            if self._ahead.failure is not None:
                raise self._ahead.failure
            try:
                if self._stop.is_set() or self._failure is not None:
                    return
                read = self._read(frame)
                self._reads_ahead = self._ahead.hand_over(read) and self._catch_up.meets_limit
                if not self._reads_ahead:
                    self._ahead.wait()
                if self._read_limit is not None:
                    self._read_limit.set(self._catch_up.limit)
            except Exception as failed:
                self._failure = self._as_storage_down(failed)
                raise
            except BaseException as failed:
                self._failure = failed
                raise

    def _read(self, frame: DataFrame) -> BatchRead:
        limit = self._catch_up.limit if self._read_limit is None else self._read_limit.records
        started = self._clock.monotonic_s()
        table = self._source.collect(frame, self._batches.progress.taken)
        return BatchRead(table, BatchFetch(self._clock.monotonic_s() - started, table.nbytes, limit, self._reads_ahead))

    def _decide(self, read: BatchRead) -> None:
        """Skips what was read ahead of a stop: it is read again."""
        if self._stop.is_set():
            return
        was_blocked = self._batches.is_blocked
        if not self._while_blocked.wait_while_blocked(read.table):
            return
        self._batches.progress.fetch = read.fetch
        # What blocked the stream may have been ended by other settings than a pure handler answered by.
        self._run(drop_answers(read.table) if was_blocked else read.table)


class DecisionThread(Generic[T]):
    """Decides one thing at a time, in order, on a thread of its own.

    ``decide`` is never called again after it raised; what it raised is in ``failure``. At most one thing waits: the one
    that `hand_over` is called with.
    """

    def __init__(self, decide: Callable[[T], None]) -> None:
        self._decide = decide
        self._changed = threading.Condition()
        self._given: list[T] = []
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None

    def start(self, make_thread: MakeThread) -> None:
        self._thread = make_thread(self._run)
        self._thread.start()

    def hand_over(self, task: T) -> bool:
        """Waits until what was handed over before is decided, then gives ``task`` to the thread.

        Returns False when it decides nothing any more.
        """
        with self._changed:
            self._changed.wait_for(self._idle_or_ended)
            if self._has_ended():
                return False
            self._given.append(task)
            self._busy = True
            self._changed.notify_all()
            return True

    def wait(self) -> None:
        with self._changed:
            self._changed.wait_for(self._idle_or_ended)

    def close(self, timeout_s: float) -> bool:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _idle_or_ended(self) -> bool:
        return not self._busy or self._has_ended()

    def _has_ended(self) -> bool:
        return self._closed or self.failure is not None

    def _run(self) -> None:
        while (task := self._take_next()) is not None:
            try:
                self._decide(task[0])
            except BaseException as failure:
                self.failure = failure
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _take_next(self) -> tuple[T] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._given or self._has_ended())
            return None if self._has_ended() else (self._given.pop(),)


class ReadLimit:
    """Sets how many records the next batch of a running query takes from Kafka; ``records`` is what the query began
    with.

    Spark takes ``maxOffsetsPerTrigger`` once, when a query begins. Starting the query again costs 1 to 2 s in which
    nothing is decided; setting the limit where Spark keeps it costs milliseconds (docs/decisions/0015). That place is
    internal to Spark: a test on real Spark holds it, and where it can't be set the limit stays as it is.
    """

    def __init__(self, session: SparkSession, query: StreamingQuery, records: int) -> None:
        self._jvm: Any = session._jvm  # noqa: SLF001 - there is no other way to what Spark keeps
        self._query = query
        self.records = records
        self._works = True

    def set(self, records: int) -> None:
        """Sets the limit from the next batch on. Call it between two batches, on the thread that runs them."""
        if records == self.records or not self._works:
            return
        try:
            self._set(records)
            self.records = records
        except (Py4JError, TypeError, AttributeError) as failed:
            self._works = False
            log.warning("batches stay at %d records at most: Spark's limit can't be set (%s)", self.records, failed)

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
