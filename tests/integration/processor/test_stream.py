"""A stream on real Spark: it stops after the batch under way, ends when that fails, and can be run again."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from core.clock import SystemClock
from journal.errors import StorageDown
from journal.kafka_log import Held, TopicLog
from journal.state import JournalState, Marks
from load.client import wait_for
from processor.reporting.progress import BatchProgress
from processor.source.records import KafkaRecord
from processor.source.sources import make_tick_frame
from processor.source.stream import Stream
from processor.spark import open_session
from stack.jars import spark_jars

CHECKOUT = Path(__file__).parents[3]
BATCH_S_MAX = 60.0


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(CHECKOUT))
        opened = open_session("stream-test", "local[2]", "512m", spark_jars(), tmp_path_factory.mktemp("spark"))
        yield opened
        opened.stop()


class TickSource:
    """A source of nothing but ticks."""

    every_s = 0.0
    topics = ()

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def log(self) -> TopicLog:
        raise AssertionError("a stream's run checks no positions")

    def find_start_marks(self, state: JournalState | None, held: Held) -> Marks:
        return {}

    def read_backlog(self, marks: Marks) -> Iterator[pa.Table]:
        return iter(())

    def open_frame(self, marks: Marks, records_max: int) -> DataFrame:
        return make_tick_frame(self._session)

    def collect(self, frame: DataFrame, expected: int) -> pa.Table:
        return frame.toArrow()

    def open_orders(self) -> NoOrders:
        return NoOrders()


class FakeBatches:
    """A batch does what the test says, and it is noted when it has ended."""

    probe_s = 0.05
    history_refusal = None

    def __init__(self, act: Callable[[], None]) -> None:
        self.committed_marks: Marks = {}
        self._act = act
        self.progress = BatchProgress()
        self.begun = threading.Event()
        self.done = 0
        self.probes = 0
        self.ended = ""

    @property
    def is_blocked(self) -> bool:
        return self.progress.blocked_reason is not None

    def run(self, _table: pa.Table) -> None:
        self.begun.set()
        self._act()
        self.done += 1

    def close(self) -> None:
        self.ended = "closed"

    def release(self) -> None:
        self.ended = "released"

    def filter_undecided(self, records: Sequence[KafkaRecord]) -> Sequence[KafkaRecord]:
        return records

    def run_commands(self, records: Sequence[KafkaRecord]) -> bool:
        return False

    def has_better_probe(self, records: Sequence[KafkaRecord]) -> bool:
        return False

    def probe(self, records: Sequence[KafkaRecord]) -> float:
        self.probes += 1
        if self.probes == 3:
            self.progress.blocked_reason = None
        return self.probe_s


class NoCatchUp:
    limit = 100
    meets_limit = False

    def begin(self) -> None:
        """Nothing to begin."""

    def after_batch(self, progress: BatchProgress, marks: Marks) -> None:
        """Nothing to adapt."""


class FarBehind(NoCatchUp):
    meets_limit = True


class NoOrders:
    """A control topic on which nothing comes."""

    def read(self, marks: Marks) -> list[KafkaRecord]:
        return []

    def close(self) -> None:
        """Nothing is open."""


class CountedTicks(TickSource):
    """Knows how many batches were read."""

    def __init__(self, session: SparkSession) -> None:
        super().__init__(session)
        self.read = 0

    def collect(self, frame: DataFrame, expected: int) -> pa.Table:
        self.read += 1
        return super().collect(frame, expected)


def stream_on(session: SparkSession, batches: FakeBatches, checkpoint: Path) -> Stream:
    return Stream(batches, TickSource(session), NoCatchUp(), SystemClock(), checkpoint, lambda: None)  # type: ignore[arg-type]


def test_a_stop_lets_the_batch_under_way_finish_and_begins_no_other(session: SparkSession, tmp_path: Path) -> None:
    may_end = threading.Event()
    batches = FakeBatches(lambda: may_end.wait(BATCH_S_MAX))  # type: ignore[arg-type]
    stream = stream_on(session, batches, tmp_path / "checkpoint")
    thread = threading.Thread(target=stream.run)
    thread.start()
    assert batches.begun.wait(BATCH_S_MAX)
    stream.stop()
    may_end.set()
    thread.join(BATCH_S_MAX)
    assert not thread.is_alive()
    assert batches.done == 1
    assert not session.streams.active


def test_a_batch_that_fails_ends_the_stream_and_the_next_one_runs_on_the_same_session(
    session: SparkSession, tmp_path: Path
) -> None:
    failed = StorageDown("the bodies", "/lake/bodies", "No space left on device")

    def fail() -> None:
        raise failed

    failing = FakeBatches(fail)
    with pytest.raises(StorageDown) as raised:
        stream_on(session, failing, tmp_path / "checkpoint").run()
    assert raised.value is failed
    assert failing.ended == "released"
    assert not session.streams.active
    batches = FakeBatches(lambda: again.stop())
    again = stream_on(session, batches, tmp_path / "checkpoint")
    again.run()
    assert (batches.done, batches.ended) == (1, "closed")


def test_a_checkpoint_that_cannot_be_written_is_storage_that_is_down(session: SparkSession, tmp_path: Path) -> None:
    """Anybody's disk may be full; here the folder's place is taken, which root can't write to either."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageDown, match="checkpoint"):
        stream_on(session, FakeBatches(lambda: None), tmp_path / "pipe" / "checkpoint").run()


def test_a_blocked_stream_probes_before_it_takes_anything(session: SparkSession, tmp_path: Path) -> None:
    batches = FakeBatches(lambda: stream.stop())
    batches.progress.blocked_reason = "Down: as the process before this one left it"
    stream = stream_on(session, batches, tmp_path / "checkpoint")
    stream.run()
    assert (batches.probes, batches.done) == (3, 1)


@pytest.mark.parametrize(("behind", "read"), [(FarBehind, 2), (NoCatchUp, 1)])
def test_only_a_stream_that_is_behind_reads_its_next_batch_while_one_is_decided(
    session: SparkSession, tmp_path: Path, behind: type[NoCatchUp], read: int
) -> None:
    """What was read ahead of a stop isn't decided: it is read again."""
    source, may_end = CountedTicks(session), threading.Event()
    batches = FakeBatches(lambda: may_end.wait(BATCH_S_MAX))  # type: ignore[arg-type]
    stream = Stream(batches, source, behind(), SystemClock(), tmp_path / "c", lambda: None)  # type: ignore[arg-type]
    thread = threading.Thread(target=stream.run)
    thread.start()
    assert batches.begun.wait(BATCH_S_MAX)
    wait_for(lambda: source.read > 1, 2.0 if read == 1 else BATCH_S_MAX)
    assert source.read == read
    stream.stop()
    may_end.set()
    thread.join(BATCH_S_MAX)
    assert not thread.is_alive()
    assert batches.done == 1
