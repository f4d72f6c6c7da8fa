"""Checkpoints of a Delta table's log, made beside its writer: readers begin with the last one.

Each is made by a process that ends with it, ``python -m journal.checkpoints PATH…``. It reads every file that the table
has, and had within a day: in a writer that lives for long the memory for that would stay, and grow through the day.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from core.location import is_url, location_of
from journal.lake import open_table

log = logging.getLogger(__name__)

COMMITS = 100
"""A checkpoint is due at each multiple, where they are quick; so it is too for a writer that never lives so long."""

SHARE_MAX = 0.05
"""The share of time for checkpoints: one reads all the table's files, so of a table with many it is made less often."""

SECONDS_MAX = 600.0
"""A process that takes longer hangs, as on a disk that is away: it is killed."""

NICE = 19
"""The processor, which decides payments, goes first, also before what a checkpoint imports."""

CODE = Path(__file__).parents[1]


class Checkpoints:
    def __init__(self, path: str, version: int) -> None:
        self.path = path
        self._last = version
        self._not_before_s = 0.0
        self._made = threading.Event()
        self._made.set()

    def on_commit(self, version: int) -> None:
        busy = not self._made.is_set()
        if busy or version // COMMITS == self._last // COMMITS or time.monotonic() < self._not_before_s:
            return
        self._last = version
        self._made.clear()
        _maker.ask(self)

    def wait(self, seconds: float) -> None:
        self._made.wait(seconds)

    def on_made(self, seconds: float) -> None:
        self._not_before_s = time.monotonic() + seconds / SHARE_MAX
        self._made.set()


class _Maker:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Checkpoints] = []
        self._works = False

    def ask(self, table: Checkpoints) -> None:
        with self._lock:
            self._waiting.append(table)
            if not self._works:
                self._works = True
                threading.Thread(target=self._make_waiting, name="checkpoints", daemon=True).start()

    def _make_waiting(self) -> None:
        while True:
            with self._lock:
                tables, self._waiting = self._waiting, []
                self._works = bool(tables)
            if not tables:
                return
            began_s = time.monotonic()
            _run_maker([table.path for table in tables])
            seconds = time.monotonic() - began_s
            for table in tables:
                table.on_made(seconds)


_maker = _Maker()


def _run_maker(paths: list[str]) -> None:
    absolute = (path if is_url(path) else str(Path(path).absolute()) for path in paths)
    command = [sys.executable, "-m", "journal.checkpoints", *absolute]
    try:
        with subprocess.Popen(
            command, cwd=CODE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            errors = _read_errors(process)
    except Exception as failed:
        errors = [str(failed)]
    for line in errors:
        log.warning("no checkpoint could be made; the next one will do: %s", line)


def _read_errors(process: subprocess.Popen[str]) -> list[str]:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
    try:
        _, stderr = process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return (stderr.splitlines() or [f"it ended with {process.returncode}"]) if process.returncode else []


def make_checkpoint(path: str) -> None:
    """Makes a checkpoint of a table's newest version, and removes the log's entries that are old enough.

    :raises DeltaError, OSError: the table can't be read, or the checkpoint not written
    """
    table = open_table(path)
    table.create_checkpoint()
    table.cleanup_metadata()


def main() -> int:
    code = 0
    for path in sys.argv[1:]:
        try:
            make_checkpoint(path)
        except Exception as failed:
            code = 1
            sys.stderr.write(f"{location_of(path)}: {' '.join(str(failed).split())}\n")
    return code


if __name__ == "__main__":
    ended = main()
    sys.stderr.flush()
    # delta-rs's threads can abort an interpreter that takes its time to end.
    os._exit(ended)
