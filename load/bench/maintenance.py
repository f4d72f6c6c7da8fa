"""What a day of small commits costs readers, what maintenance makes of it, and what the writer notices of it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from deltalake import DeltaTable
from rich.console import Console

from core.layout import Layout
from journal.append import Appender, AppTransaction
from journal.chain import GENESIS
from journal.entries import LOG
from journal.marks import marks_to_json
from journal.reader import JournalReader
from journal.table import CHECKS, create_table
from ledger.queries import event_story
from load.bench.figures import is_short
from load.bench.history import HistoryEvent, rows_table
from stack.paths import CHECKOUT

MAINTENANCE_SECONDS = 1_200
MAINTENANCE_SECONDS_SHORT = 180
COMMITS, COMMITS_SHORT = 100_000, 5_000
ROWS_PER_COMMIT = 20
"""A batch of a quiet day; its rows are whole ones."""

EVERY_S = 0.25
"""From one batch to the next: what a busy stream does."""

BESIDE_S = 30.0
"""How long batches are timed before, and again after."""

TENTH = 10
"""The first tenth of a day's commits is held against the last one."""

STREAM = "ledger"


@dataclass
class Batches:
    """Commits batch after batch and times each, by what else happens meanwhile."""

    journal: Path
    seq: int = 0
    while_: str = "before"
    times_s: dict[str, list[float]] = field(default_factory=dict)

    def fill(self, commits: int, told: Callable[[int], None]) -> list[float]:
        """A day of batches, one right after the other; how many seconds each took."""
        appender, times_s = self._appender(), []
        for number in range(commits):
            times_s.append(self._commit(appender))
            if number % 10_000 == 9_999:
                told(number + 1)
        appender.checkpoints.wait(60)
        return times_s

    def go_on(self, stop: threading.Event) -> None:
        appender = self._appender()
        while not stop.wait(EVERY_S):
            seconds = self._commit(appender)
            self.times_s.setdefault(self.while_, []).append(seconds)

    def _appender(self) -> Appender:
        return Appender.open(str(self.journal), checks=CHECKS)

    def _commit(self, appender: Appender) -> float:
        """Seconds that one took."""
        since, until = self.seq + 1, self.seq + 1 + ROWS_PER_COMMIT
        rows, told = rows_table(since, until), _told(until - 1)
        began_s = time.perf_counter()
        appender.append(rows, AppTransaction(f"payhook-{STREAM}", until - 1), told)
        self.seq = until - 1
        return time.perf_counter() - began_s


def _told(seq: int) -> Mapping[str, str]:
    nothing = marks_to_json({})
    about = {"stream": STREAM, "epoch": "1", "seq": str(seq), "marks": nothing, "start": nothing, "chain": GENESIS}
    return {f"payhook.{name}": text for name, text in {**about, "published_upto": str(seq)}.items()}


def measure_maintenance(folder: Path, console: Console) -> dict[str, float]:
    """A journal of many small commits is read, maintained beside a writer that goes on, and read again."""
    journal = Layout(folder).ledger().journal
    create_table(str(journal), STREAM)
    batches = Batches(Path(journal))
    day_s = batches.fill(COMMITS_SHORT if is_short() else COMMITS, lambda done: console.print(f"{done:,} commits"))
    figures = _growth(day_s, console) | {
        f"maintenance.{name}_before": value for name, value in _readers(batches, console).items()
    }
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(batches.go_on, stop)
        try:
            time.sleep(BESIDE_S)
            batches.while_ = "during"
            figures |= _maintained(folder, console)
            batches.while_ = "after"
            time.sleep(BESIDE_S)
        finally:
            stop.set()
        writing.result()
    figures |= {f"maintenance.{name}_after": value for name, value in _readers(batches, console).items()}
    return figures | _batch_times(batches, console)


def _growth(day_s: Sequence[float], console: Console) -> dict[str, float]:
    """What a batch costs at the end of a day that nobody maintains, by what it cost at its beginning."""
    tenth = len(day_s) // TENTH
    first, last = statistics.median(day_s[:tenth]), statistics.median(day_s[-tenth:])
    console.print(f"a batch's commit: {1_000 * first:.1f} ms in the first tenth, {1_000 * last:.1f} ms in the last one")
    return {"maintenance.commit_growth": last / first}


def _readers(batches: Batches, console: Console) -> dict[str, float]:
    """Seconds that readers take."""
    path, key = str(batches.journal), HistoryEvent(batches.seq // 2).event_key
    found = {
        "open_s": _timed(lambda: DeltaTable(path)),
        "window_s": _timed(lambda: next(JournalReader(path).rows_after(batches.seq // 2))),
        "story_s": _timed(lambda: event_story(path, "", key)),
    }
    files, log = len(DeltaTable(path).file_uris()), len(list((batches.journal / LOG).glob("0*.json")))
    told = ", ".join(f"{name.removesuffix('_s')} {value:.2f} s" for name, value in found.items())
    console.print(f"{files:,} files of {batches.seq:,} rows, {log:,} entries in the log: {told}")
    return {**found, "files": float(files), "log_entries": float(log)}


def _timed(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def _maintained(folder: Path, console: Console) -> dict[str, float]:
    """One round as the schedule runs it, in a process of its own, and the most memory that it and its JVM had."""
    began_s, peak = time.perf_counter(), 0
    command = [sys.executable, "-m", "stack.maintenance_round"]
    with subprocess.Popen(command, cwd=CHECKOUT, env=_environment(folder)) as running:
        while running.poll() is None:
            peak = max(peak, _memory(running.pid))
            time.sleep(0.5)
        if running.returncode:
            raise RuntimeError(f"maintenance ended with {running.returncode}")
    seconds = time.perf_counter() - began_s
    console.print(f"maintained in {seconds:.0f} s, {peak >> 20} MB at most")
    return {"maintenance.seconds": seconds, "maintenance.memory_mb": float(peak >> 20)}


def _memory(pid: int) -> int:
    try:
        process = psutil.Process(pid)
        return sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))
    except psutil.NoSuchProcess:
        return 0


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PAYHOOK_DATA_DIR": str(folder), "PYTHONPATH": str(CHECKOUT)}


def _batch_times(batches: Batches, console: Console) -> dict[str, float]:
    figures: dict[str, float] = {}
    for when in ("before", "during", "after"):
        times_ms = sorted(1_000 * one for one in batches.times_s[when])
        p50, p99 = statistics.median(times_ms), times_ms[min(len(times_ms) - 1, int(len(times_ms) * 0.99))]
        console.print(
            f"a batch's commit {when} maintenance: P50 {p50:.1f} ms, P99 {p99:.1f} ms, {len(times_ms)} batches"
        )
        figures |= {f"maintenance.commit_p50_ms_{when}": p50, f"maintenance.commit_p99_ms_{when}": p99}
    before = figures["maintenance.commit_p50_ms_before"]
    ratios = {when: figures[f"maintenance.commit_p50_ms_{when}"] / before for when in ("during", "after")}
    return figures | {f"maintenance.commit_ratio_{when}": ratio for when, ratio in ratios.items()}
