"""How many rows a second `payhook verify` proves, in a session of its own, over a ledger that is whole.

``python -m load.bench.ledger_verify --data DIR --rows 1000000`` is the same with a shorter one.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.progress import Progress

from core.clock import ManualClock
from journal.anchors import AnchorKeys, new_key
from journal.kafka_log import Point
from journal.reader import JournalReader
from journal.schema import Record
from ledger.settings import VerifySettings
from ledger.spark import open_read_session
from ledger.verify import Lake, verify
from ledger.verify.evidence import Limits
from ledger.verify.job import INVARIANTS
from ledger.verify.kafka import Ends
from ledger.verify.report import Invariant
from load.bench.figures import is_short
from load.bench.history import FIRST_AT
from load.bench.whole_history import TOPIC, make_whole_history
from stack.jars import spark_jars

ROWS, ROWS_SHORT = 10_000_000, 300_000
VERIFY_SECONDS = 600.0
VERIFY_SECONDS_SHORT = 90.0


@dataclass(frozen=True, slots=True)
class Took:
    """Of the clock, and of all processors together."""

    wall_s: float
    cpu_s: float

    def said(self, rows: int) -> str:
        a_row = f"{self.cpu_s / rows * 1e6:.1f} µs of CPU a row"
        return f"{self.wall_s:.1f} s, {self.cpu_s:.1f} s of CPU: {rows / self.wall_s:,.0f} rows/s, {a_row}"


@dataclass(frozen=True, slots=True)
class QuietKafka:
    """Everything that it ever held is decided and had its time; no dead letters, no anchors."""

    rows: int

    def ends(self, topics: Sequence[str]) -> Ends:
        return {TOPIC: {0: (self.rows, self.rows)}} if TOPIC in topics else {}

    def timestamp(self, _topic: str, _partition: int, _offset: int) -> datetime | None:
        return None

    def frame(self, _session: SparkSession, topic: str) -> DataFrame:
        raise LookupError(f"{topic} holds nothing")

    def topic_ids(self, _topics: Sequence[str]) -> dict[str, str]:
        return {}

    def records_at(self, _points: Collection[Point]) -> dict[Point, Record]:
        return {}


def measure_verify(folder: Path, console: Console, rows: int | None = None) -> dict[str, float]:
    """All invariants by row hashes; what starting Spark takes is left out, as it doesn't grow."""
    count = rows or (ROWS_SHORT if is_short() else ROWS)
    lake = made(folder / f"whole-{count}", count, console)
    session = session_for(folder, count)
    try:
        took = time_verify(session, lake, count, INVARIANTS)
    finally:
        session.stop()
    console.print(f"{count:,} rows in {took.said(count)}")
    return {"ledger.verify_rows_per_s": count / took.wall_s}


def made(folder: Path, rows: int, console: Console) -> Lake:
    """A whole ledger of so many rows under ``folder``, made unless it is there."""
    lake = Lake.under(folder)
    if lake.index.exists() and JournalReader(str(lake.journal)).last_seq == rows:
        return lake
    shutil.rmtree(folder, ignore_errors=True)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(f"{rows:,} rows", total=rows)
        make_whole_history(lake, rows, lambda some: progress.advance(task, some))
    return lake


def session_for(folder: Path, rows: int) -> SparkSession:
    settings = VerifySettings()
    return open_read_session("verify", settings.master, settings.driver_memory, spark_jars(), folder, rows)


def time_verify(session: SparkSession, lake: Lake, rows: int, invariants: Sequence[Invariant]) -> Took:
    """What the invariants take.

    :raises RuntimeError: one doesn't hold, so that the figure would be of something else
    """
    clock = ManualClock(FIRST_AT + timedelta(minutes=1))
    limits = Limits(anchor_age_s_max=1e9, in_flight_age_s_max=1e9)
    began, used_s = time.perf_counter(), cpu_s()
    report = verify(session, lake, QuietKafka(rows), AnchorKeys([new_key()]), limits, clock, invariants)
    took = Took(time.perf_counter() - began, cpu_s() - used_s)
    if not report.ok:
        raise RuntimeError(report.as_json())
    return took


def cpu_s() -> float:
    """CPU seconds so far of this process, of those that it started (the JVM and its Python workers), and of those that
    ended."""
    this = psutil.Process()
    used = 0.0
    for one in [this, *this.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            spent = one.cpu_times()
            used += spent.user + spent.system + spent.children_user + spent.children_system
    return used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--data", type=Path, required=True, help="folder for everything that is made")
    parser.add_argument("--each", action="store_true", help="also time every invariant by itself")
    wanted = parser.parse_args()
    console = Console()
    if not wanted.each:
        console.print(measure_verify(wanted.data, console, wanted.rows))
        return
    lake = made(wanted.data / f"whole-{wanted.rows}", wanted.rows, console)
    session = session_for(wanted.data, wanted.rows)
    try:
        for invariant in INVARIANTS:
            console.print(f"{invariant.name}: {time_verify(session, lake, wanted.rows, [invariant]).said(wanted.rows)}")
    finally:
        session.stop()


if __name__ == "__main__":
    main()
