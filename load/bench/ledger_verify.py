"""How many rows a second `payhook verify` proves, in a session of its own, over a ledger that is whole."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import psutil
from pyspark.sql import DataFrame, SparkSession

from core.clock import ManualClock
from journal.anchors import AnchorKeys, new_key
from journal.kafka_log import Point
from journal.reader import JournalReader
from journal.schema import Record
from ledger.settings import LedgerSettings
from ledger.spark import open_read_session
from ledger.verify import Lake, verify
from ledger.verify.evidence import Limits
from ledger.verify.kafka import Ends
from load.bench.figures import Run
from load.bench.history import FIRST_AT, WHOLE_TOPIC, make_whole_history
from stack.jars import spark_jars

ROWS, ROWS_SHORT = 10_000_000, 300_000


@dataclass(frozen=True, slots=True)
class QuietKafka:
    """Everything that it ever held is decided and had its time; no dead letters, no anchors."""

    rows: int

    def ends(self, topics: Sequence[str]) -> Ends:
        return {WHOLE_TOPIC: {0: (self.rows, self.rows)}} if WHOLE_TOPIC in topics else {}

    def timestamp(self, _topic: str, _partition: int, _offset: int) -> datetime | None:
        return None

    def frame(self, _session: SparkSession, topic: str) -> DataFrame:
        raise LookupError(f"{topic} holds nothing")

    def topic_ids(self, _topics: Sequence[str]) -> dict[str, str]:
        return {}

    def records_at(self, _points: Collection[Point]) -> dict[Point, Record]:
        return {}


def measure_verify(run: Run) -> dict[str, float]:
    """All invariants by row hashes; what starting Spark takes is left out, as it doesn't grow.

    :raises RuntimeError: one doesn't hold, so that the figure would be of something else
    """
    rows = run.count(ROWS, ROWS_SHORT)
    lake = _made(run, rows)
    settings, limits = LedgerSettings(), Limits(anchor_age_s_max=1e9, in_flight_age_s_max=1e9)
    session = open_read_session("verify", settings.master, settings.driver_memory, spark_jars(), run.folder, rows)
    clock, keys = ManualClock(FIRST_AT + timedelta(minutes=1)), AnchorKeys([new_key()])
    try:
        began_s, began_cpu_s = time.perf_counter(), _cpu_s()
        report = verify(session, lake, QuietKafka(rows), keys, limits, clock)
        wall_s, cpu_s = time.perf_counter() - began_s, _cpu_s() - began_cpu_s
    finally:
        session.stop()
    if not report.ok:
        raise RuntimeError(report.as_json())
    run.console.print(f"{rows:,} rows in {wall_s:.1f} s; {cpu_s / rows * 1e6:.1f} µs of CPU a row")
    return {"ledger.verify_rows_per_s": rows / wall_s}


def _made(run: Run, rows: int) -> Lake:
    """A whole ledger of so many rows, made unless it is there."""
    folder = run.folder / f"whole-{rows}"
    lake = Lake.under(folder)
    if lake.index.exists() and JournalReader(str(lake.journal)).last_seq == rows:
        return lake
    shutil.rmtree(folder, ignore_errors=True)
    with run.progress(f"{rows:,} rows", rows) as done:
        make_whole_history(lake, rows, done)
    return lake


def _cpu_s() -> float:
    """CPU seconds so far of this process, of those that it started (the JVM and its Python workers), and of those that
    ended."""
    this = psutil.Process()
    used = 0.0
    for one in [this, *this.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            spent = one.cpu_times()
            used += spent.user + spent.system + spent.children_user + spent.children_system
    return used
