"""A work stream's life: start from the journal, run batches until told to stop, end on any doubt."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from core.clock import Clock
from processor.batch import Batches
from processor.sources import Source

log = logging.getLogger(__name__)

IDLE_CHECK_S = 0.05
STOP_WAIT_S_MAX = 30.0


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
    ) -> None:
        self._source = source
        self._batches = batches
        self._clock = clock
        self._checkpoint = checkpoint
        self._on_batch = on_batch
        self._stop = threading.Event()
        self._in_batch = threading.Lock()
        self._failure: BaseException | None = None

    def stop(self) -> None:
        """Asks for a stop after the batch under way."""
        self._stop.set()

    def run(self) -> None:
        """Runs until `stop`; raises what ended the stream, if something did."""
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        stream = self._source.frame(self._batches.marks)
        query = stream.writeStream.foreachBatch(self._batch).option("checkpointLocation", str(self._checkpoint)).start()
        while query.isActive and not self._stop.is_set() and self._failure is None:
            self._stop.wait(IDLE_CHECK_S)
        self._end(query)

    def _end(self, query: StreamingQuery) -> None:
        """Lets the batch under way finish; later ones see the stop, do nothing, and the query ends between batches."""
        if self._in_batch.acquire(timeout=STOP_WAIT_S_MAX):
            self._in_batch.release()
        failure, own = self._failure, query.exception() if not query.isActive else None
        if query.isActive and failure is None:
            query.stop()
        if failure is not None:
            raise failure
        if own is not None:
            raise own

    def _batch(self, frame: DataFrame, _batch_id: int) -> None:
        with self._in_batch:
            if self._stop.is_set() or self._failure is not None:
                return
            try:
                started = self._clock.monotonic()
                table = frame.toArrow()
                self._batches.progress.fetch_s = self._clock.monotonic() - started
                self._batches.run(table)
                self._on_batch()
                while self._batches.blocked and not self._stop.is_set():
                    self._probe()
            except BaseException as failure:
                self._failure = failure
                raise

    def _probe(self) -> None:
        """The whole stream is blocked: nothing more is fetched until a probe gets through."""
        until = time.monotonic() + self._batches.probe_s
        while time.monotonic() < until and not self._stop.wait(IDLE_CHECK_S):
            self._on_batch()
        if not self._stop.is_set():
            self._batches.probe()
            self._on_batch()
