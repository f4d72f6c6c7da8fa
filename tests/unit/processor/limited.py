"""The engine of `harness` with breakers: the driver's own executor, without Spark between it and the handler."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.work import DriverSide, Handler
from journal.schema import JournalRow
from processor.calls.downstreams import Downstreams
from processor.errors.classify import Classifier
from processor.settings import DeadHead, DownstreamSettings
from processor.workers.deadlines import AbandonedCalls, Deadlines
from processor.workers.execute import Executor
from processor.workers.worker import Chunk, HandlerFiles, Task, run_chunk
from tests.unit.processor.harness import Engine

DEADLINES = Deadlines(60.0, 30.0)
"""Long enough for a machine that stalls; a test whose calls hang passes shorter ones."""


class ThreadedExecutor(Executor):
    """Tasks one after another in this process, packed and unpacked as on their way to Spark."""

    def __init__(
        self,
        handler: Handler,
        parallelism: int,
        downstreams: Downstreams,
        stop_on_dead: bool,
        concurrency: int,
        deadlines: Deadlines,
        side: DriverSide | None,
    ) -> None:
        files = HandlerFiles(side)
        task = Task("ledger", lambda: handler, Classifier(), deadlines, concurrency, stop_on_dead, files)
        super().__init__(None, task, lambda: parallelism, downstreams)  # type: ignore[arg-type]
        self._handler = handler
        self._abandoned = AbandonedCalls()

    def _run_chunks(self, chunks: Sequence[Chunk]) -> pa.Table:
        answers = [
            run_chunk(self._task, self._handler, pickle.loads(pickle.dumps(chunk)), self._abandoned) for chunk in chunks
        ]
        return pa.table({"results": pa.array([pickle.dumps(answer) for answer in answers], pa.binary())})


class LimitedEngine(Engine):
    """`Engine` whose handler's calls are limited; what breakers know goes through the journal's notes."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, DownstreamSettings] | None = None,
        *,
        parallelism: int = 2,
        concurrency: int = 4,
        dead_head: DeadHead = DeadHead.WAIT,
        deadlines: Deadlines = DEADLINES,
        side: DriverSide | None = None,
    ) -> None:
        self.settings = settings or {}
        self.deadlines = deadlines
        self.side = side
        self.parallelism = parallelism
        self.concurrency = concurrency
        super().__init__(folder, dead_head=dead_head)

    def start(self, **options: Any) -> None:
        super().start(**options)
        self.downstreams = Downstreams(self.settings, self.clock, notes=self.journal.notes)
        stop_on_dead = self.rules.config.dead_head is DeadHead.WAIT
        self.handlers._executor = ThreadedExecutor(
            self.handler,
            self.parallelism,
            self.downstreams,
            stop_on_dead,
            self.concurrency,
            self.deadlines,
            self.side,
        )
        self.noted = self.downstreams.make_notes

    def last(self, event_key: str) -> JournalRow:
        return [row for row in self.journal.rows if row.event_key == event_key][-1]
