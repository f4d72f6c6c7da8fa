"""Runs entities side by side on an executor, each one's events in order, under deadlines."""

from __future__ import annotations

import faulthandler
import logging
import os
import pickle
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from core.card_numbers import without_card_numbers
from core.decision import ErrorKind
from core.errors import PayhookError
from core.files import FilesToSend, SentFiles, use_sent
from core.log import quiet_talkative
from core.work import DownstreamHeld, DriverSide, Handler, Held, Ignored, Outcome, WorkItem, limited_by
from processor.calls.budget import Budgets, CallReport
from processor.calls.limiter import LateCalls, Limiter, Try
from processor.errors.classify import Classifier, Failure, catch_event_error
from processor.spark import calm_collector
from processor.workers.deadlines import AbandonedCalls, Deadlines, GivenUp
from processor.workers.outcomes import check_outcome, holds_back, is_disproof, read_version
from processor.workers.worker_pool import WorkerPool

IN_PLACE_TRIES = 3
"""Of a short-lived error within one batch, and the wait between them."""
IN_PLACE_WAIT_S = 0.02

HUNG_CALLS_MAX = 256
"""A Python worker in which so many handler calls were abandoned and are still out is replaced."""

RESULT_SCHEMA = "results binary"
END_AFTER_S = 0.05
"""A Python worker that is to be replaced ends so long after its results were taken; Spark starts another one."""

LOG_BYTES_MAX = 4_096
LINE_CHARS_MAX = 16_384
"""So much of a line is kept until card numbers are looked for: none is cut in the part that the journal gets."""
LINES_MAX = 100
"""Kept of one call; more than `LOG_BYTES_MAX` of lines that say anything."""


class HandlerTimeout(PayhookError):
    kind = ErrorKind.SNBE

    def __init__(self, event_key: str, seconds: float) -> None:
        self.event_key = event_key
        self.seconds = seconds
        super().__init__(
            f"handling {event_key} took longer than {seconds:.2f} s; the call's result is no longer used. "
            "Find out what it waits for, or give its stream a longer handler_deadline_s"
        )


class HandlerFiles:
    """A handler's files, which are kept where its stream decides (`core.work.DriverSide`).

    They go with each job: pickled, this is what they hold at that moment.
    """

    def __init__(self, side: DriverSide | None = None) -> None:
        self._side = side
        self._to_send = FilesToSend()
        self._sent: SentFiles | None = None

    def use_files(self) -> None:
        if self._sent is not None:
            use_sent(self._sent)

    def keep_notes(self, results: dict[int, Outcome | Failure]) -> None:
        """Keeps the notes on the driver, before the results are committed. An event whose note can't be kept dies of
        that.
        """
        if self._side is None:
            return
        for seq, result in results.items():
            if (
                isinstance(result, Ignored)
                and result.note
                and (failed := catch_event_error(self._side.keep, result.note)) is not None
            ):
                results[seq] = failed

    def __reduce__(self) -> tuple[Any, ...]:
        sent = self._sent if self._side is None else self._to_send.now(self._side.files())
        return _on_executor, (sent,)


def _on_executor(sent: SentFiles | None) -> HandlerFiles:
    files = HandlerFiles()
    files._sent = sent  # noqa: SLF001 - its own module
    return files


@dataclass(frozen=True, slots=True)
class Task:
    """``build_handler`` is called once per Python worker and must be picklable by reference."""

    stream: str
    build_handler: Callable[[], Handler]
    classifier: Classifier
    deadlines: Deadlines
    concurrency: int
    stop_on_dead: bool
    files: HandlerFiles = field(default_factory=HandlerFiles)


@dataclass(frozen=True, slots=True)
class Chunk:
    groups: list[list[WorkItem]]
    budgets: Budgets = field(default_factory=Budgets)


@dataclass(frozen=True, slots=True)
class StillOut:
    seconds: float
    downstream: str | None


@dataclass(frozen=True, slots=True)
class ChunkAnswer:
    """The answer of a chunk. ``results`` are by ``item_seq``; events after one that holds their entity back are left
    out.

    ``reports``: the calls to each downstream. ``waited_s``: how long it waited for nothing but calls that were out.
    ``still_out``: events that wait for a call that was abandoned. ``hung``: calls that were abandoned in
    ``worker``, by this chunk or earlier ones, and aren't back.
    """

    handler_version: str
    results: list[tuple[int, Outcome | Failure]]
    reports: dict[str, CallReport]
    still_out: dict[int, StillOut]
    waited_s: float
    hung: int
    worker: str


_handlers: dict[str, tuple[bytes, Handler]] = {}
_late: dict[str, LateCalls] = {}
_abandoned = AbandonedCalls()
_tasks_begun = 0


def run_chunks(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    begin_task(task)
    handler = get_handler(task)
    for batch in batches:
        for packed_chunk in batch.column(0).to_pylist():
            chunk: Chunk = pickle.loads(packed_chunk)  # noqa: S301 - from this job's own driver
            if _was_lost_before():
                chunk = replace(chunk, budgets=chunk.budgets.subtract_loss())
            answer = _run_or_end_frozen(task, handler, chunk)
            packed = pickle.dumps(answer, protocol=5)
            yield pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], names=["results"])
    if _abandoned.count() >= HUNG_CALLS_MAX:
        threading.Thread(target=_end_process, args=(_tasks_begun,), daemon=True).start()


def _was_lost_before() -> bool:
    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def _run_or_end_frozen(task: Task, handler: Handler, chunk: Chunk) -> ChunkAnswer:
    faulthandler.dump_traceback_later(task.deadlines.frozen_s, exit=True)
    try:
        return run_chunk(task, handler, chunk, _abandoned)
    finally:
        faulthandler.cancel_dump_traceback_later()


def run_chunk(task: Task, handler: Handler, chunk: Chunk, abandoned: AbandonedCalls) -> ChunkAnswer:
    abandoned.drop_useless()
    deadlines = task.deadlines
    late = _late.setdefault(task.stream, LateCalls())
    limiter = Limiter(chunk.budgets, deadlines.call_s, late)
    with LogTails() as tails:
        limited = bool(chunk.budgets.by_name or chunk.budgets.by_pattern)
        calls = EventRunner(task, handler, tails, limiter, limited)
        threads_max = HUNG_CALLS_MAX + task.concurrency
        pool = WorkerPool(calls, chunk.groups, deadlines, abandoned, task.concurrency, threads_max)
        results = pool.run()
    keys = {item.item_seq: item.event_key for group in chunk.groups for item in group}
    still_out = {seq: StillOut(seconds, limiter.waits_for(keys[seq])) for seq, seconds in pool.still_out.items()}
    worker = f"{socket.gethostname()}:{os.getpid()}"
    hung = abandoned.count()
    return ChunkAnswer(
        read_version(handler), results, limiter.collect_reports(), still_out, pool.waited_s, hung, worker
    )


@dataclass(frozen=True, slots=True)
class EventRunner:
    task: Task
    handler: Handler
    tails: LogTails
    limiter: Limiter
    limited: bool

    def run(self, item: WorkItem) -> Outcome | Failure:
        """Calls the handler, several times where the error may be gone in a moment; never raises an `Exception`."""
        result = self._call_once(item, again=False)
        if isinstance(result, Failure) and result.kind is ErrorKind.SLE:
            return self._retry_in_place(item, result)
        return result

    def _retry_in_place(self, item: WorkItem, result: Outcome | Failure) -> Outcome | Failure:
        until = time.monotonic() + self.task.deadlines.patience_s
        for _ in range(IN_PLACE_TRIES - 1):
            if time.monotonic() + IN_PLACE_WAIT_S >= until:
                break
            time.sleep(IN_PLACE_WAIT_S)
            result = self._call_once(item, again=True)
            if not isinstance(result, Failure) or result.kind is not ErrorKind.SLE:
                break
        return result

    def _call_once(self, item: WorkItem, *, again: bool) -> Outcome | Failure:
        self.tails.begin()
        event_try = self.limiter.begin_try(item, again=again) if self.limited else None
        try:
            return check_outcome(self._call_handler(item, event_try))
        except GivenUp:
            raise
        except BaseException as error:  # sys.exit() in a handler too: a thread that it ended would hold up the chunk
            failure = self.task.classifier.make_failure(error, self.tails.text(), item)
            if event_try is None:
                return failure
            return replace(failure, downstream=event_try.blamed_for(error), called=tuple(sorted(event_try.called)))

    def _call_handler(self, item: WorkItem, event_try: Try | None) -> Outcome:
        try:
            if event_try is None:
                return self.handler(item)
            with limited_by(event_try):
                return self.handler(item)
        except DownstreamHeld as held:
            return Held(held.downstream, held.retry_after_s, held.reason)

    def holds_back(self, item: WorkItem, result: Outcome | Failure) -> bool:
        return holds_back(item, result, stop_on_dead=self.task.stop_on_dead)

    def is_disproof(self, item: WorkItem, result: Outcome | Failure, blocking: Failure) -> bool:
        return is_disproof(result, self.limiter.list_answered(item.event_key), blocking.called)

    def is_queued(self, item: WorkItem) -> bool:
        return self.limiter.is_queued(item.event_key)

    def make_timeout(self, item: WorkItem, seconds: float) -> Failure:
        return make_timeout(self.task, item, StillOut(seconds, self.limiter.waits_for(item.event_key)))


def make_timeout(task: Task, item: WorkItem, call: StillOut) -> Failure:
    late = task.classifier.make_failure(HandlerTimeout(item.event_key, call.seconds), item=item)
    return replace(late, downstream=call.downstream)


def begin_task(task: Task) -> None:
    global _tasks_begun
    _tasks_begun += 1
    task.files.use_files()


def get_handler(task: Task) -> Handler:
    key = pickle.dumps(task.build_handler)
    known = _handlers.get(task.stream)
    if known is None or known[0] != key:
        known = (key, task.build_handler())
        _handlers[task.stream] = known
        if TaskContext.get() is not None:
            # After each task Spark's worker collects garbage: it needn't look through what was loaded to stay.
            calm_collector()
    return known[1]


def _end_process(task_number: int) -> None:
    time.sleep(END_AFTER_S)
    if _tasks_begun == task_number:
        os._exit(0)


class LogTails(logging.Handler):
    """Listens from INFO on while it is entered; what a thread logs is given to that thread only."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: dict[int, deque[str]] = {}
        self._root_level = logging.WARNING

    def __enter__(self) -> LogTails:
        root = logging.getLogger()
        self._root_level = root.level
        # A Python worker of Spark's configures no logging: its root stands at WARNING.
        root.setLevel(min(root.level, logging.INFO))
        quiet_talkative()
        root.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
        logging.getLogger().setLevel(self._root_level)

    def begin(self) -> None:
        lines = self._lines.get(threading.get_ident())
        if lines:
            lines.clear()

    def text(self) -> str | None:
        lines = self._lines.get(threading.get_ident())
        if not lines:
            return None
        text = "\n".join(without_card_numbers(line) for line in lines)
        return text.encode("utf-8", "replace")[-LOG_BYTES_MAX:].decode("utf-8", "ignore")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception as wrong:  # as logging's own handlers do: a bad line is no failure of its event
            message = f"(a line that can't be made: {type(wrong).__name__})"
        line = f"{record.levelname} {record.name}: {message[-LINE_CHARS_MAX:]}"
        self._lines.setdefault(record.thread or 0, deque(maxlen=LINES_MAX)).append(line)
