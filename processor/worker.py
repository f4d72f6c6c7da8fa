"""What runs on an executor: entities side by side, each one's events in order, under a deadline."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from core.card_numbers import without_card_numbers
from core.decision import ErrorKind
from core.errors import PayhookError
from core.work import DownstreamHeld, Handler, Held, Outcome, WorkItem
from processor.classify import Classifier, Failure

LOG_BYTES_MAX = 4_096
IN_PLACE_WAIT_S = 0.02
RESULT_SCHEMA = "results binary"


class HandlerTimeout(PayhookError):
    """A handler call wasn't back by the batch's deadline."""

    kind = ErrorKind.SNBE

    def __init__(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        super().__init__(f"the handler wasn't back within {deadline_s:g} s; find what it waits for")


@dataclass(frozen=True, slots=True)
class Task:
    """How to run a chunk; travels to the executor with it.

    ``build_handler`` is called once per Python worker and must be picklable by reference.
    """

    stream: str
    build_handler: Callable[[], Handler]
    classifier: Classifier
    deadline_s: float
    concurrency: int
    in_place_tries: int
    stop_on_dead: bool


@dataclass(slots=True)
class GroupRun:
    """One entity's events and how far they got; what has no result was not run."""

    items: list[WorkItem]
    results: list[Outcome | Failure] = field(default_factory=list)
    started: bool = False


_handlers: dict[str, tuple[bytes, Handler]] = {}


def run_chunks(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function under ``mapInArrow``: rows of pickled entity groups in, rows of pickled results out.

    A result is ``(handler version, [(item_seq, Outcome | Failure), …])``; items after one that holds
    their entity back are left out.
    """
    handler = _handler(task)
    for batch in batches:
        for chunk in batch.column(0).to_pylist():
            results = run_groups(task, handler, pickle.loads(chunk))  # noqa: S301 - from this job's own driver
            packed = pickle.dumps((handler.version, results), protocol=5)
            yield pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], names=["results"])


def run_groups(task: Task, handler: Handler, groups: list[list[WorkItem]]) -> list[tuple[int, Outcome | Failure]]:
    """Runs the groups on ``task.concurrency`` threads until all are done or the deadline has passed."""
    runs = [GroupRun(items) for items in groups]
    waiting = iter(runs)
    lock = threading.Lock()
    stop_at = time.monotonic() + task.deadline_s
    blocked = threading.Event()

    def work() -> None:
        while time.monotonic() < stop_at and not blocked.is_set():
            with lock:
                run = next(waiting, None)
            if run is None:
                return
            if _run_group(task, handler, run, stop_at) is ErrorKind.SBE:
                blocked.set()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(task.concurrency, len(runs)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, stop_at - time.monotonic()))
    return [pair for run in runs for pair in _collect(task, run)]


def _run_group(task: Task, handler: Handler, run: GroupRun, stop_at: float) -> ErrorKind | None:
    """Runs the events in order; returns the kind of the failure that holds the rest back, if one does."""
    for item in run.items:
        if time.monotonic() >= stop_at:
            break
        run.started = True
        result = _try_in_place(task, handler, item, stop_at)
        run.results.append(result)
        run.started = False
        if isinstance(result, Failure) and (result.kind is not ErrorKind.NRE or task.stop_on_dead):
            return result.kind
        if isinstance(result, Held):
            break
    return None


def _try_in_place(task: Task, handler: Handler, item: WorkItem, stop_at: float) -> Outcome | Failure:
    for tries_left in range(task.in_place_tries - 1, -1, -1):
        result = _try(task, handler, item)
        short_lived = isinstance(result, Failure) and result.kind is ErrorKind.SLE
        if not short_lived or tries_left == 0 or time.monotonic() + IN_PLACE_WAIT_S >= stop_at:
            return result
        time.sleep(IN_PLACE_WAIT_S)
    raise AssertionError("at least one try is made")


def _try(task: Task, handler: Handler, item: WorkItem) -> Outcome | Failure:
    with _LogTail() as tail:
        try:
            return handler(item)
        except DownstreamHeld as held:
            return Held(held.downstream, held.retry_after_s)
        except Exception as error:
            return task.classifier.failure(error, tail.text())


def _collect(task: Task, run: GroupRun) -> list[tuple[int, Outcome | Failure]]:
    results = list(run.results)
    done = [(item.item_seq, result) for item, result in zip(run.items, results, strict=False)]
    if run.started and len(results) < len(run.items):
        late = task.classifier.failure(HandlerTimeout(task.deadline_s))
        done.append((run.items[len(results)].item_seq, late))
    return done


def _handler(task: Task) -> Handler:
    key = pickle.dumps(task.build_handler)
    known = _handlers.get(task.stream)
    if known is None or known[0] != key:
        known = (key, task.build_handler())
        _handlers[task.stream] = known
    return known[1]


class _LogTail(logging.Handler):
    """The last lines that this thread logged, for the journal row of a failure."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._thread = threading.get_ident()
        self._lines: list[str] = []

    def __enter__(self) -> _LogTail:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self._lines.append(without_card_numbers(f"{record.levelname} {record.name}: {record.getMessage()}"))

    def text(self) -> str | None:
        if not self._lines:
            return None
        return "\n".join(self._lines).encode("utf-8", "replace")[-LOG_BYTES_MAX:].decode("utf-8", "ignore")
