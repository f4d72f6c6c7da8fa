"""Step 4, the driver's side: groups of events go to the executors and their results come back."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from core.decision import ErrorKind
from core.errors import PayhookError
from core.work import Held, Outcome, WorkItem
from processor.classify import Failure
from processor.worker import RESULT_SCHEMA, Task, run_chunks

log = logging.getLogger(__name__)

WORKER_GONE_TEXTS = ("Python worker exited unexpectedly", "Python worker failed to connect back", "EOFException")
"""How Spark words that a Python worker died; whatever else a job fails with is the engine's bug."""

WARM_ROUNDS = 8
"""A second's worth: the first round takes 2 s, the eighth a tenth of one, and later ones are no faster for long."""

GROUPS_PER_CHUNK_MIN = 64
"""Below this a second task costs more than it saves."""


class WorkerLost(PayhookError):
    """This event ended the Python worker that handled it, alone and repeatedly."""

    kind = ErrorKind.NRE

    def __init__(self, event_key: str | None) -> None:
        self.event_key = event_key
        super().__init__(f"handling {event_key} ends the Python worker; look for a crash in native code or memory")


@dataclass(slots=True)
class Results:
    """What the executors answered, by item_seq; an item without one was not run."""

    handler_version: str = ""
    by_item: dict[int, Outcome | Failure] = field(default_factory=dict)


class Executor:
    """Runs entity groups on Spark and survives the events that kill their worker.

    ``suspect`` (after a crash of the driver on the same offsets) skips the first try as a whole.
    """

    def __init__(self, spark: SparkSession, task: Task, parallelism: int) -> None:
        self._spark = spark
        self._task = task
        self._parallelism = parallelism

    def warm(self) -> None:
        """Starts the Python workers and builds the handler in each, so that the first event finds them ready."""
        for _ in range(WARM_ROUNDS):
            self._run_chunks([[] for _ in range(self._parallelism)])

    def run(self, groups: Sequence[list[WorkItem]], *, suspect: bool = False) -> Results:
        """Runs every group; an event that kills its worker comes back as a `WorkerLost` failure."""
        results = Results()
        if not groups:
            return results
        if not suspect:
            for _ in range(2):
                if self._job(groups, results):
                    return results
        self._bisect(list(groups), results)
        return results

    def _bisect(self, groups: list[list[WorkItem]], results: Results) -> None:
        if len(groups) == 1:
            self._one_by_one(groups[0], results)
            return
        middle = len(groups) // 2
        for half in (groups[:middle], groups[middle:]):
            if not self._job(half, results):
                self._bisect(half, results)

    def _one_by_one(self, group: list[WorkItem], results: Results) -> None:
        for item in group:
            if not self._job([[item]], results) and not self._job([[item]], results):
                log.error("event %s ends its Python worker", item.event_key)
                results.by_item[item.item_seq] = self._task.classifier.failure(WorkerLost(item.event_key))
            result = results.by_item.get(item.item_seq)
            if result is None or isinstance(result, (Failure, Held)):
                if isinstance(result, Failure) and result.kind is ErrorKind.NRE and not self._task.stop_on_dead:
                    continue
                return

    def _job(self, groups: Sequence[list[WorkItem]], results: Results) -> bool:
        """One Spark job over the groups; False when a worker died of it."""
        try:
            table = self._run_chunks(split(groups, self._parallelism))
        except Exception as error:
            if not worker_gone(error):
                raise
            log.warning("a Python worker was lost while it handled %d events", sum(map(len, groups)))
            return False
        for answer in table.column("results").to_pylist():
            results.handler_version, pairs = pickle.loads(answer)  # noqa: S301 - from this job's own executors
            results.by_item.update(pairs)
        return True

    def _run_chunks(self, chunks: Sequence[list[list[WorkItem]]]) -> pa.Table:
        packed = pa.table({"chunk": pa.array([pickle.dumps(chunk, protocol=5) for chunk in chunks], pa.binary())})
        return self._spark.createDataFrame(packed).mapInArrow(_on_executor(self._task), RESULT_SCHEMA).toArrow()


def split(groups: Sequence[list[WorkItem]], chunks_max: int) -> list[list[list[WorkItem]]]:
    """Groups in at most ``chunks_max`` chunks of about the same number of events."""
    count = max(1, min(chunks_max, len(groups) // GROUPS_PER_CHUNK_MIN + 1))
    chunks: list[list[list[WorkItem]]] = [[] for _ in range(count)]
    sizes = [0] * count
    for group in groups:
        lightest = sizes.index(min(sizes))
        chunks[lightest].append(group)
        sizes[lightest] += len(group)
    return [chunk for chunk in chunks if chunk]


def worker_gone(error: BaseException) -> bool:
    """Whether a failed Spark job says that its Python worker died."""
    if not isinstance(error, PySparkException) and type(error).__module__.split(".")[0] != "py4j":
        return False
    return any(text in str(error) for text in WORKER_GONE_TEXTS)


def _on_executor(task: Task) -> Callable[[Iterator[Any]], Iterator[Any]]:
    return partial(run_chunks, task)
