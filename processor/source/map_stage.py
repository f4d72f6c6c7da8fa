"""The map stage: where records are read, their events are named and, if the handler is pure, handled right away.

One Spark job instead of two: what a batch takes from Kafka isn't sent back to the executors to be handled. A handler is
pure if it says so (``pure = True``): it makes no calls, remembers nothing, and what it answers depends on its event
alone. So it does no harm that it also runs for events that turn out to be duplicates, or that must wait: such answers
are thrown away. Answers other than `Applied` and `Ignored` are thrown away too: failures belong to the batch's own job,
with its retries, deadlines and budgets. So are those that depend on another fact.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from types import FrameType

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from core.event import Dedupe, Mode, poison_event, to_headers
from core.record_keys import Header, Keys, sign_record
from core.where import EVERYTHING, HeaderFilter
from core.work import Applied, Handler, Ignored, WorkItem, postings_to_json
from processor.source.foreign import ForeignTopic
from processor.source.records import (
    PACKED,
    RECORD_SCHEMA,
    EarlyAnswer,
    KafkaRecord,
    ParsedRecord,
    make_work_item,
    pack_record,
    parse_record,
    read_batch,
    read_table,
)
from processor.spark import pause_collection
from processor.workers.execute import is_worker_gone, on_workers_of
from processor.workers.outcomes import check_outcome, read_version
from processor.workers.worker import Task, begin_task, get_handler

log = logging.getLogger(__name__)

PASS_SCHEMA = f"{PACKED} binary"
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)

CALL_S_MAX = 0.001
"""Seconds that a pure call may take on average; what isn't handled when a chunk's time is over is left to the batch's
own job, where a call that hangs costs its own event alone."""


RECORDS_PER_TASK = 500
"""Fewer are read by fewer tasks: on two cores a second task cost batches of 40 records more time than it saved."""

WARM_ROUNDS = 4
WARM_RECORDS = 1_000


class _HandlerTimeOver(BaseException):
    pass


@dataclass(frozen=True, slots=True)
class MapJob:
    task: Task
    mode: Mode
    control_topic: str
    keys: Keys | None = None
    where: HeaderFilter = EVERYTHING
    foreign: ForeignTopic | None = None


class MapStage:
    """The driver's side of the map stage, on the Python workers of that name, in at most so many ``tasks``.

    Where a worker dies, the batch is read again without the map stage. Another program's records are passed in ever
    smaller parts.
    """

    def __init__(
        self, stage: MapJob, workers: str, tasks: Callable[[], int], keys: Callable[[], Keys | None] = lambda: None
    ) -> None:
        self._stage = stage
        self._workers = workers
        self._tasks = tasks
        self._keys = keys

    def warm_workers(self, session: SparkSession) -> None:
        """Passes made-up records through the workers, so that the first real ones find everything loaded."""
        body = json.dumps({"id": "made up to warm the workers"}).encode()
        event = poison_event("warm", body, self._stage.mode, "")
        headers: list[Header] = [*to_headers(event, _NO_TIME, Dedupe.CLAIMED)]
        keys = self._keys()
        signed = headers if keys is None else sign_record(keys, "warm", 0, None, body, headers)
        pairs = [{"key": name, "value": value} for name, value in signed]
        record = {"topic": "warm", "partition": 0, "value": body, "headers": pairs}
        rows = [{**record, "offset": offset} for offset in range(WARM_RECORDS)]
        frame = session.createDataFrame(pa.Table.from_pylist(rows, RECORD_SCHEMA))
        for _ in range(WARM_ROUNDS):
            self.collect(frame, self._tasks() * RECORDS_PER_TASK)

    def collect(self, frame: DataFrame, expected: int) -> pa.Table:
        tasks = max(1, min(self._tasks(), -(-expected // RECORDS_PER_TASK)))
        try:
            with on_workers_of(frame.sparkSession, self._workers):
                passing = frame.coalesce(tasks).mapInArrow(self._make_function(), PASS_SCHEMA)
            return passing.toArrow()
        except Exception as error:
            if not is_worker_gone(error):
                raise
            goes_on = "goes without" if self._stage.foreign is None else "is divided until the record is found"
            log.warning(
                "%s: a Python worker was lost in the map stage: this batch %s", self._stage.task.stream, goes_on
            )
            table = frame.toArrow()
        if self._stage.foreign is None:
            return table
        return pa.concat_tables(self._pass_divided(self._stage.foreign, frame.sparkSession, table))

    def _pass_divided(self, foreign: ForeignTopic, session: SparkSession, table: pa.Table) -> list[pa.Table]:
        """Identifies another program's records on the workers, never on the driver; refuses one that ends its worker
        alone.

        :raises Exception: no Python worker is there even for nothing, so the record isn't the cause
        """
        if table.num_rows > 1:
            middle = table.num_rows // 2
            # Copies: Spark doesn't take a list's slice.
            halves = table.take([*range(middle)]), table.take([*range(middle, table.num_rows)])
            passed_halves = [self._pass_table(session, half) for half in halves]
            return [
                part
                for half, passed in zip(halves, passed_halves, strict=True)
                for part in ([passed] if passed is not None else self._pass_divided(foreign, session, half))
            ]
        again = self._pass_table(session, table)
        if again is None:
            session.createDataFrame(RECORD_SCHEMA.empty_table()).mapInArrow(
                self._make_function(), PASS_SCHEMA
            ).toArrow()
            ended = "it ends the Python worker: look for a crash in native code, or memory"
            again = pack_records([foreign.refuse_record(record, ended) for record in read_table(table)])
        return [again]

    def _pass_table(self, session: SparkSession, table: pa.Table) -> pa.Table | None:
        try:
            with on_workers_of(session, self._workers):
                frame = session.createDataFrame(table).coalesce(1).mapInArrow(self._make_function(), PASS_SCHEMA)
            return frame.toArrow()
        except Exception as error:
            if not is_worker_gone(error):
                raise
            return None

    def _make_function(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        return partial(run_map_stage, replace(self._stage, keys=self._keys()))


def pack_records(records: Sequence[KafkaRecord]) -> pa.Table:
    rows = [pack_record(record, record.named, None) for record in records]
    return pa.table({PACKED: pa.array([pickle.dumps(rows, protocol=5)], pa.binary())})


def run_map_stage(stage: MapJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    begin_task(stage.task)
    handler = get_handler(stage.task)
    for batch in batches:
        with pause_collection():
            packed_rows = _pass_batch(stage, handler, batch)
        yield pa.RecordBatch.from_arrays([pa.array([packed_rows], pa.binary())], names=[PACKED])


def _pass_batch(stage: MapJob, handler: Handler, batch: pa.RecordBatch) -> bytes:
    records = read_batch(batch)
    if stage.foreign is not None:
        records = stage.foreign.identify_records(records, stage.task.deadlines.frozen_s)
    records, names = _parse_records(stage, records)
    answers = _collect_answers(stage, handler, names) if getattr(handler, "pure", False) else [None] * len(names)
    rows = [pack_record(record, parsed, early) for record, parsed, early in zip(records, names, answers, strict=True)]
    return pickle.dumps(rows, protocol=5)


def _parse_records(
    stage: MapJob, records: Sequence[KafkaRecord]
) -> tuple[list[KafkaRecord], list[ParsedRecord | None]]:
    """Parses what each record says of itself.

    Commands and what isn't an event go to the driver unchanged. Of other streams' records it gets the offset alone.
    """
    kept, names = list[KafkaRecord](), list[ParsedRecord | None]()
    for record in records:
        parsed, elsewhere = None, False
        with contextlib.suppress(Exception):  # not an event: the driver decides what becomes of it
            if stage.foreign is not None and record.topic == stage.foreign.topic:
                parsed, elsewhere = _choose_foreign(stage, record)
            elif record.topic != stage.control_topic:
                parsed = parse_record(record, stage.mode, stage.keys, stage.where)
                elsewhere = parsed is None
        kept.append(record._replace(elsewhere=True) if elsewhere else record)
        names.append(parsed)
    return kept, names


def _choose_foreign(stage: MapJob, record: KafkaRecord) -> tuple[ParsedRecord | None, bool]:
    parsed = record.named
    if parsed is None or stage.where.is_match(parsed.mode, parsed.tenant, parsed.zone, parsed.provider):
        return parsed, False
    return None, True


def _collect_answers(stage: MapJob, handler: Handler, names: Sequence[ParsedRecord | None]) -> list[EarlyAnswer | None]:
    answers: list[EarlyAnswer | None] = []
    with contextlib.suppress(_HandlerTimeOver), _limit_time(_limit_seconds(stage.task, len(names)), stage.task):
        for parsed in names:
            if parsed is None or parsed.poison is not None:
                answers.append(None)
            else:
                answers.append(_ask_handler(handler, make_work_item(parsed, parsed.body)))
    return answers + [None] * (len(names) - len(answers))


def _limit_seconds(task: Task, calls: int) -> float:
    return min(task.deadlines.call_s, task.deadlines.batch_s) + CALL_S_MAX * calls


def _ask_handler(handler: Handler, item: WorkItem) -> EarlyAnswer | None:
    try:
        outcome, version = check_outcome(handler(item)), read_version(handler)
    except _HandlerTimeOver:
        raise
    except BaseException:
        return None
    if isinstance(outcome, Applied):
        return EarlyAnswer(version, postings_to_json(outcome.postings), None, outcome.pair, outcome.undoes)
    return EarlyAnswer(version, None, outcome.reason) if isinstance(outcome, Ignored) else None


@contextlib.contextmanager
def _limit_time(seconds: float, task: Task) -> Iterator[None]:
    """Ends the block with `_HandlerTimeOver` after so long; where native code hears no signal, the Python worker ends.

    Only the main thread hears signals: elsewhere (in tests) nothing limits the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _time_is_over)
    faulthandler.dump_traceback_later(seconds + task.deadlines.frozen_s, exit=True)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def _time_is_over(_number: int, _frame: FrameType | None) -> None:
    raise _HandlerTimeOver
