"""Maintains, scans and backs up the lake of a data folder by schedule: ``python -m stack.maintenance``.

It runs beside the processor. Each round is a process of its own (`stack.maintenance_round`, `stack.card_scan_round`,
`stack.backup_round`): what it took of memory is the system's again, and one that is ended, at whatever moment, leaves
every table whole.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from core.clock import SystemClock, from_rfc3339
from core.log import configure_logging
from stack.settings import Settings, load_settings

log = logging.getLogger("maintenance")

FIRST_S = 60.0
"""After its start a stack catches up; a round that is overdue waits for so long."""

BACKUP_AGAIN_S = 900.0
"""After a backup that couldn't be made: the disk may be back, or maintenance done."""

CARD_SCAN_S = 24 * 3_600.0
"""From one scan for card numbers to the next."""

END_S = 10.0


@dataclass(frozen=True, slots=True)
class Task:
    """What is run by schedule: a module, the report that its last round left, and seconds from one round to the next.

    ``first_s``: until the first round of all; ``again_s``: from the beginning of a round that failed to the next.
    """

    name: str
    module: str
    report: Path
    every_s: float
    first_s: float
    again_s: float


def tasks(settings: Settings) -> list[Task]:
    """What is scheduled by these settings."""
    found, maintain = [], settings.ledger.maintain
    if maintain.every_s:
        every_s, report = maintain.every_s, settings.layout.maintained
        found.append(Task("a round", "stack.maintenance_round", report, every_s, every_s, every_s))
        if settings.ingest.pan.enabled:
            report = settings.layout.card_scan
            found.append(Task("a card scan", "stack.card_scan_round", report, CARD_SCAN_S, FIRST_S, CARD_SCAN_S))
    if settings.backup.folder:
        every_s, report = settings.backup.every_h * 3_600, settings.layout.backed_up
        again_s = min(every_s, BACKUP_AGAIN_S)
        found.append(Task("a backup", "stack.backup_round", report, every_s, FIRST_S, again_s))
    return found


def wait_s(last_report: Path, every_s: float, now: datetime, first_s: float | None = None) -> float:
    """Seconds until the next round: so long after the last one, whatever was restarted since, or after now."""
    try:
        ended_at = from_rfc3339(json.loads(last_report.read_text("utf-8"))["ended_at"])
    except (OSError, ValueError, KeyError, TypeError):
        return every_s if first_s is None else min(first_s, every_s)
    return max(min(FIRST_S, every_s), every_s - (now - ended_at).total_seconds())


def stay(scheduled: Sequence[Task], stop: threading.Event) -> None:
    """Round after round, one at a time, until ``stop`` is set, which ends the one that is under way."""
    due = dict.fromkeys(scheduled, 0.0)
    for task in scheduled:
        due[task] = time.monotonic() + wait_s(task.report, task.every_s, SystemClock().now(), task.first_s)
    while not stop.wait(max(0.0, min(due.values()) - time.monotonic())):
        task = min(due, key=lambda one: due[one])
        began_s = time.monotonic()
        code = _round(task, stop)
        if code is not None:
            log.log(logging.INFO if code == 0 else logging.WARNING, "%s ended with %d", task.name, code)
        if code == 0:
            due[task] = time.monotonic() + wait_s(task.report, task.every_s, SystemClock().now(), task.first_s)
        else:
            due[task] = began_s + task.again_s


def _round(task: Task, stop: threading.Event) -> int | None:
    """The exit code of one round; None if it was ended."""
    command = [sys.executable, "-m", task.module]
    die_with_parent = [sys.executable, "-S", "-m", "stack.die_with_parent", str(os.getpid())]
    with subprocess.Popen([*die_with_parent, *command], stdin=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if stop.wait(0.2):
                _end(process)
                return None
        return process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()


def main() -> int:
    configure_logging()
    settings = load_settings()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    scheduled = tasks(settings)
    if scheduled:
        stay(scheduled, stop)
    else:
        log.info("ledger.maintain.every_s is 0 and backup.folder is empty: nothing is done by itself")
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
