"""A work stream's batches, fed by Spark from the journal's marks on until told to stop; it ends on any doubt."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from core.clock import Clock
from core.errors import PayhookError
from journal.errors import Refused, StorageDown
from processor.backlog.catch_up import CatchUp
from processor.decide.batch import Batches
from processor.decide.records import without_answers
from processor.source.ahead import Ahead
from processor.source.map_stage import MapStage
from processor.source.read_limit import ReadLimit
from processor.source.sources import Source
from processor.source.while_blocked import Orders, WhileBlocked
from processor.tell.progress import Fetch

log = logging.getLogger(__name__)

IDLE_CHECK_S = 0.05
STOP_WAIT_S_MAX = 30.0
PROBLEM_CHARS_MAX = 500

ASYNC_PROGRESS = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "60000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}
"""Nothing rests on Spark's own checkpoint, which is made anew at every start: no batch waits until it is on disk."""

_NO_ROOM = re.compile(
    r"No space left on device|Read-only file system|Disk quota exceeded|Input/output error|Permission denied"
    r"|FileNotFoundException.*checkpoints|ParentNotDirectoryException"
)
"""How the JVM words that Spark's checkpoint or scratch files can't be written."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a batch took, and how."""

    table: pa.Table
    fetch: Fetch


class Stream:
    """Feeds a `Batches` engine from Spark.

    The checkpoint is made anew at every start: the marks in the journal say where to begin.
    """

    def __init__(
        self,
        batches: Batches,
        clock: Clock,
        checkpoint: Path,
        on_batch: Callable[[], None],
        source: Source,
        catch_up: CatchUp,
        open_orders: Callable[[], Orders],
        map_stage: MapStage | None = None,
    ) -> None:
        self._map_stage = map_stage
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
        self._ahead: Ahead[Read] = Ahead(self._decide)
        self._while_blocked = WhileBlocked(batches, clock, open_orders, self._stop, on_batch)

    def stop(self) -> None:
        """Asks for a stop after the batch under way."""
        self._stop.set()

    def run(self) -> None:
        """Runs until `stop`; when it returns or raises, no batch runs any more.

        :raises StorageDown: Spark's own files can't be written
        :raises BaseException: whatever else ended the stream
        """
        try:
            self._take_backlog()
            if self._stop.is_set():
                return
            query = self._start()
            self._ahead.start(InheritableThread)
            while query.isActive and not self._stop.is_set() and self._failure is None and self._ahead.failure is None:
                if self._batches.refusal is not None:
                    self._failure = self._batches.refusal
                self._stop.wait(IDLE_CHECK_S)
            self._end(query)
        finally:
            self._while_blocked.close()

    def _take_backlog(self) -> None:
        """What the source gives before its stream begins, a batch a table."""
        for table in self._source.backlog(self._batches.marks):
            if self._stop.is_set():
                return
            if self._while_blocked.passes(table):
                self._run(table)

    def _run(self, table: pa.Table) -> None:
        self._batches.run(table)
        self._catch_up.after_batch(self._batches.progress, self._batches.marks)
        self._on_batch()

    def _start(self) -> StreamingQuery:
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        self._catch_up.begin()
        limit = self._catch_up.limit
        stream = self._source.frame(self._batches.marks, limit)
        writer = stream.writeStream.foreachBatch(self._batch).option("checkpointLocation", str(self._checkpoint))
        writer = writer.options(**ASYNC_PROGRESS)
        if self._source.every_s > 0:
            writer = writer.trigger(processingTime=f"{round(self._source.every_s * 1_000)} milliseconds")
        try:
            query = writer.start()
        except (PySparkException, Py4JError) as failed:
            raise self._told(failed) from failed
        self._read_limit = ReadLimit(stream.sparkSession, query, limit)
        return query

    def _end(self, query: StreamingQuery) -> None:
        """Lets the batch under way finish; later ones see the stop, do nothing, and the query ends between batches."""
        self._stop.set()
        if not self._ahead.close(STOP_WAIT_S_MAX):
            log.error("the batch under way isn't decided after %.0f s; it is left to itself", STOP_WAIT_S_MAX)
        failed = self._ahead.failure
        if failed is not None and self._failure is None:
            self._failure = self._told(failed) if isinstance(failed, Exception) else failed
        if self._in_batch.acquire(timeout=STOP_WAIT_S_MAX):
            self._in_batch.release()
        if self._failure is not None:
            if not isinstance(self._failure, Refused):
                self._await_end(query)
            elif query.isActive:
                query.stop()
            raise self._failure
        if query.isActive:
            query.stop()
            return
        own = query.exception()
        if own is not None:
            raise self._told(own) from own

    def _await_end(self, query: StreamingQuery) -> None:
        """A query whose batch failed ends by itself; stopping it meanwhile only fills the JVM's log.

        It isn't active some time before Spark has let go of it: what is waited for is its end.
        """
        with contextlib.suppress(PySparkException, Py4JError):  # what the batch raised, once more
            if not query.awaitTermination(int(STOP_WAIT_S_MAX)):
                query.stop()

    def _told(self, failed: Exception) -> Exception:
        """The failure as what it is: a full disk is no bug of the engine's."""
        problem = str(failed)
        if isinstance(failed, PayhookError) or _NO_ROOM.search(problem) is None:
            return failed
        return StorageDown("Spark's checkpoint", str(self._checkpoint), problem[:PROBLEM_CHARS_MAX])

    def _batch(self, frame: DataFrame, _batch_id: int) -> None:
        """Reads what a batch took. A stream that is behind reads its next batch while this one is decided."""
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
                self._failure = self._told(failed)
                raise
            except BaseException as failed:
                self._failure = failed
                raise

    def _read(self, frame: DataFrame) -> Read:
        limit = self._catch_up.limit if self._read_limit is None else self._read_limit.records
        started = self._clock.monotonic()
        table = self._source.records(self._collected(frame))
        return Read(table, Fetch(self._clock.monotonic() - started, table.nbytes, limit, self._reads_ahead))

    def _decide(self, read: Read) -> None:
        """On the thread that decides. What was read ahead of a stop isn't decided: it is read again."""
        if self._stop.is_set():
            return
        was_blocked = self._batches.blocked
        if not self._while_blocked.passes(read.table):
            return
        self._batches.progress.fetch = read.fetch
        # What blocked the stream may have been mended by other settings than a pure handler answered by.
        self._run(without_answers(read.table) if was_blocked else read.table)

    def _collected(self, frame: DataFrame) -> pa.Table:
        return (
            frame.toArrow() if self._map_stage is None else self._map_stage.collect(frame, self._batches.progress.taken)
        )
