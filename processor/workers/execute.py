"""Sends groups of events to the executors, on the driver, and takes their results."""

from __future__ import annotations

import contextlib
import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from core.decision import ErrorKind
from core.errors import PayhookError
from core.log import event_fields
from core.work import Held, Outcome, WorkItem
from processor.calls.budget import Budgets, CallReport, merge_reports
from processor.calls.downstreams import Downstreams
from processor.errors.classify import Failure
from processor.workers.deadlines import OutSince, Patience
from processor.workers.outcomes import add_previous_dead, holds_back, is_passed_dead
from processor.workers.worker import RESULT_SCHEMA, Chunk, ChunkAnswer, StillOut, Task, make_timeout, run_chunks

log = logging.getLogger(__name__)

WORKER_GONE_TEXTS = (
    *("Python worker exited unexpectedly", "Python worker failed to connect back", "EOFException"),
    "ExecutorLostFailure",
)
"""How Spark words that a Python worker died, or the executor that it belonged to; whatever else a job fails with is the
engine's bug."""

WARM_ROUNDS = 8
"""A second's worth: the first round takes 2 s, the eighth a tenth of one, and later ones are no faster for long."""

GROUPS_PER_CHUNK_MIN = 64
"""Below this a second task costs more than it saves."""


WORKERS_OF = "PAYHOOK_WORKERS_OF"
"""Spark shares Python workers between functions of the same environment. With the stream's name in it each stream has
its own: calls that hang in one stream's slow down no other, and where it has one task a call that was abandoned is
found again."""

_environment = threading.Lock()
"""Held while a frame is made: Spark copies the environment there."""


class WorkerLost(PayhookError):
    """This event ended the Python worker that handled it, alone and repeatedly."""

    kind = ErrorKind.NRE

    def __init__(self, event_key: str | None) -> None:
        self.event_key = event_key
        super().__init__(f"handling {event_key} ends the Python worker; look for a crash in native code or memory")


@dataclass(slots=True)
class Results:
    """The executors' answers by item_seq; an item without one was not run.

    ``reports``: the calls to each downstream. ``left``: what the batch may still do. ``waited_s``: how long it waited
    for nothing but calls that were out. ``still_out``: events that wait for such a call. ``hung``: how many such calls
    there are, by Python worker.
    """

    handler_version: str = ""
    by_item: dict[int, Outcome | Failure] = field(default_factory=dict)
    reports: dict[str, CallReport] = field(default_factory=dict)
    left: Budgets = field(default_factory=Budgets)
    waited_s: float = 0.0
    still_out: dict[int, StillOut] = field(default_factory=dict)
    hung: dict[str, int] = field(default_factory=dict)

    def add_reports(self, reports: dict[str, CallReport]) -> None:
        self.left = self.left.subtract_reports(reports)
        for name, report in reports.items():
            self.reports.setdefault(name, CallReport()).follow(report)


class Executor:
    """Runs entity groups on Spark and survives the events that kill their worker.

    ``suspect`` (after a crash of the driver on the same offsets) skips the first try as a whole. Each run asks
    ``downstreams`` what its handlers may call, and reports to it what became of the calls.
    """

    def __init__(
        self, spark: SparkSession, task: Task, tasks: Callable[[], int], downstreams: Downstreams | None = None
    ) -> None:
        self._spark = spark
        self._task = task
        self._tasks = tasks
        self._downstreams = downstreams or Downstreams()
        self._patience = Patience(task.deadlines.batch_s)
        self._out = OutSince(task.deadlines.call_s)

    def warm_workers(self) -> None:
        for _ in range(WARM_ROUNDS):
            self._run_chunks([Chunk([]) for _ in range(self._tasks())])

    def run(self, groups: Sequence[list[WorkItem]], *, suspect: bool = False) -> Results:
        results = Results(left=self._downstreams.make_budgets())
        if not groups:
            return results
        if suspect or not (self._run_job(groups, results) or self._run_job(groups, results)):
            self._bisect_groups(list(groups), results)
        waiting = self._time_out(groups, results)
        self._downstreams.judge(results.by_item, results.reports)
        results.by_item.update(waiting)
        self._task.files.keep_notes(results.by_item)
        self._patience.note_waited(results.waited_s)
        return results

    def _time_out(self, groups: Sequence[list[WorkItem]], results: Results) -> dict[int, Held]:
        """Makes timeouts of calls whose time is over. Events whose calls are still out wait, and spend no attempt."""
        now = time.monotonic()
        self._forget_answered(groups, results, now)
        if not results.still_out:
            return {}
        waiting: dict[int, Held] = {}
        for item in (item for group in groups for item in group if item.item_seq in results.still_out):
            known = results.still_out[item.item_seq]
            seconds = self._out.measure_call(item.event_key, known.seconds, now)
            if seconds >= self._task.deadlines.call_s:
                late = make_timeout(self._task, item, replace(known, seconds=seconds))
                results.by_item[item.item_seq] = late
            else:
                waiting[item.item_seq] = Held("its call", self._out.look_again_s(seconds), "hasn't come back yet")
        self._forget_answered(groups, results, now)
        return waiting

    def _forget_answered(self, groups: Sequence[list[WorkItem]], results: Results, now: float) -> None:
        answered = {item.event_key for group in groups for item in group if item.item_seq in results.by_item}
        self._out.forget_calls(answered, now)

    def _bisect_groups(self, groups: list[list[WorkItem]], results: Results) -> None:
        if len(groups) == 1:
            self._one_by_one(groups[0], results)
            return
        middle = len(groups) // 2
        for half in (groups[:middle], groups[middle:]):
            if not self._run_job(half, results):
                self._bisect_groups(half, results)

    def _one_by_one(self, group: list[WorkItem], results: Results) -> None:
        dead = None
        for waiting in group:
            item = add_previous_dead(waiting, dead)
            if not self._run_job([[item]], results) and not self._run_job([[item]], results):
                # Raises what Spark says if a Python worker isn't there even for nothing: then it wasn't the event.
                self._run_chunks([Chunk([])])
                log.error(
                    "event %s ends its Python worker",
                    item.event_key,
                    extra=event_fields(item.event_key, item.traceparent),
                )
                results.by_item[item.item_seq] = self._task.classifier.make_failure(WorkerLost(item.event_key))
            result = results.by_item.get(item.item_seq)
            if result is None or holds_back(item, result, stop_on_dead=self._task.stop_on_dead):
                return
            dead = item if is_passed_dead(item, result) else dead

    def _run_job(self, groups: Sequence[list[WorkItem]], results: Results) -> bool:
        chunks = split_into_chunks(groups, self._tasks())
        # Divided between the tasks, so that what they do adds up to no more than the batch's budgets.
        shares = results.left.make_shares(len(chunks), self._downstreams.take_turn())
        try:
            table = self._run_chunks([Chunk(*chunk) for chunk in zip(chunks, shares, strict=True)])
        except Exception as error:
            if not is_worker_gone(error):
                raise
            log.warning("a Python worker was lost while it handled %d events", sum(map(len, groups)))
            results.left = results.left.subtract_loss()
            return False
        reports = []
        for packed in table.column("results").to_pylist():
            answer: ChunkAnswer = pickle.loads(packed)  # noqa: S301 - from this job's own executors
            results.handler_version = answer.handler_version
            results.by_item.update(answer.results)
            results.waited_s = max(results.waited_s, answer.waited_s)
            results.still_out.update(answer.still_out)
            results.hung[answer.worker] = answer.hung
            reports.append(answer.reports)
        results.add_reports(merge_reports(reports))
        return True

    def _run_chunks(self, chunks: Sequence[Chunk]) -> pa.Table:
        packed = pa.table({"chunk": pa.array([pickle.dumps(chunk, protocol=5) for chunk in chunks], pa.binary())})
        task = replace(self._task, deadlines=replace(self._task.deadlines, hasty=self._patience.hasty))
        with on_workers_of(self._spark, self._task.stream):
            frame = self._spark.createDataFrame(packed).mapInArrow(partial(run_chunks, task), RESULT_SCHEMA)
        return frame.toArrow()


@contextlib.contextmanager
def on_workers_of(spark: SparkSession, stream: str) -> Iterator[None]:
    with _environment:
        spark.sparkContext.environment[WORKERS_OF] = stream
        yield


def split_into_chunks(groups: Sequence[list[WorkItem]], chunks_max: int) -> list[list[list[WorkItem]]]:
    count = max(1, min(chunks_max, len(groups) // GROUPS_PER_CHUNK_MIN + 1))
    chunks: list[list[list[WorkItem]]] = [[] for _ in range(count)]
    sizes = [0] * count
    for group in groups:
        lightest = sizes.index(min(sizes))
        chunks[lightest].append(group)
        sizes[lightest] += len(group)
    return [chunk for chunk in chunks if chunk]


def is_worker_gone(error: BaseException) -> bool:
    if not isinstance(error, PySparkException) and type(error).__module__.split(".")[0] != "py4j":
        return False
    return any(text in str(error) for text in WORKER_GONE_TEXTS)
