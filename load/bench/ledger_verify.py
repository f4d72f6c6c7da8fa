"""How many rows a second `payhook verify` proves, and how long a small ledger takes, process start included."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import psutil

from core.clock import ManualClock
from journal.anchors import AnchorKeys, new_key
from journal.kafka_log import Point
from journal.reader import JournalReader
from journal.schema import TopicRecord
from ledger.settings import LedgerSettings
from ledger.verify import Lake, verify
from ledger.verify.evidence import VerifyLimits
from ledger.verify.job import VerifyProgress, open_engine
from ledger.verify.kafka import Ends
from load.bench.figures import Run, median_s
from load.bench.history import FIRST_AT, WHOLE_TOPIC, make_whole_history

ROWS, ROWS_SHORT, ROWS_SMALL = 10_000_000, 300_000, 20_000


@dataclass(frozen=True, slots=True)
class QuietKafka:
    """Everything that it ever held is decided and had its time; no dead letters, no anchors."""

    rows: int

    def find_ends(self, topics: Sequence[str]) -> Ends:
        return {WHOLE_TOPIC: {0: (self.rows, self.rows)}} if WHOLE_TOPIC in topics else {}

    def timestamp(self, _topic: str, _partition: int, _offset: int) -> datetime | None:
        return None

    def records(self, topic: str) -> Iterator[tuple[int, TopicRecord]]:
        raise LookupError(f"{topic} holds nothing")

    def topic_ids(self, _topics: Sequence[str]) -> dict[str, str]:
        return {}

    def records_at(self, _points: Collection[Point]) -> dict[Point, TopicRecord]:
        return {}


def measure_verify(run: Run) -> dict[str, float]:
    """All invariants by row hashes, the start of the engine included.

    :raises RuntimeError: one doesn't hold, so that the figure would be of something else
    """
    rows = run.count(ROWS, ROWS_SHORT)
    lake = _made(run, rows)
    began_cpu_s = _cpu_s()
    wall_s = _verified_s(lake, rows)
    cpu_s = _cpu_s() - began_cpu_s
    run.console.print(f"{rows:,} rows in {wall_s:.1f} s; {cpu_s / rows * 1e6:.1f} µs of CPU a row")
    small = [sys.executable, "-m", __name__, str(_made(run, ROWS_SMALL).places.root)]
    return {
        "ledger.verify_rows_per_s": rows / wall_s,
        "ledger.verify_small_s": median_s(lambda: subprocess.run(small, check=True)),
    }


def _verified_s(lake: Lake, rows: int) -> float:
    """Returns how long it takes to prove all invariants of a whole ledger."""
    settings, limits = LedgerSettings(), VerifyLimits(anchor_age_s_max=1e9, in_flight_age_s_max=1e9)
    clock, keys = ManualClock(FIRST_AT + timedelta(minutes=1)), AnchorKeys([new_key()])
    began_s = time.perf_counter()
    with open_engine(settings, lake.places.root, tuple, rows, VerifyProgress()) as engine:
        report = verify(engine, lake, QuietKafka(rows), keys, limits, clock)
    if not report.ok:
        raise RuntimeError(report.as_json())
    return time.perf_counter() - began_s


def _made(run: Run, rows: int) -> Lake:
    """A whole ledger of so many rows, made unless it is there."""
    folder = run.folder / f"whole-{rows}"
    lake = Lake.from_data_dir(folder)
    if lake.index.exists() and JournalReader(str(lake.journal)).last_seq == rows:
        return lake
    shutil.rmtree(folder, ignore_errors=True)
    with run.progress(f"{rows:,} rows", rows) as done:
        make_whole_history(lake, rows, done)
    return lake


def _cpu_s() -> float:
    """CPU seconds so far of this process, of those that it started (the engine), and of those that
    ended."""
    this = psutil.Process()
    used = 0.0
    for one in [this, *this.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            spent = one.cpu_times()
            used += spent.user + spent.system + spent.children_user + spent.children_system
    return used


if __name__ == "__main__":
    _verified_s(Lake.from_data_dir(Path(sys.argv[1])), ROWS_SMALL)
