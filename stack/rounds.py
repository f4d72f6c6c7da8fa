"""Maintains, backs up and verifies the lake of a data folder by schedule: ``python -m stack.rounds``.

It runs beside the processor. Each round is a process of its own: its memory is the system's again when it ends, and a
round that is killed leaves every table whole. ``python -m stack.rounds maintenance`` (``backup``, ``verification``) is
one round, for a schedule of one's own.
"""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from core.clock import SystemClock
from core.errors import PayhookError
from core.log import configure_logging
from core.status_file import past_moment_of, read_said
from stack.data_folder import secure_data_folder
from stack.servers.server import stopped_by_signal
from stack.settings import Settings, load_settings

log = logging.getLogger("rounds")

MODULES = {
    "maintenance": "stack.maintenance.job",
    "backup": "stack.backup.make",
    "verification": "stack.maintenance.verification",
    "catch-up": "stack.catching_up",
}
"""Whose ``run_round`` is a round of this name: it takes the settings and returns whether all of it was done. A module
is imported where its round runs: the process of the schedule stays small."""

FIRST_S = 60.0
"""After its start a stack catches up; a round that is overdue waits for so long."""

BACKUP_AGAIN_S = 900.0
"""After a backup that couldn't be made: the disk may be back, or maintenance done."""

VERIFY_FIRST_S = 3_600.0
VERIFY_AGAIN_S = 3_600.0
"""Until the next round after a verification that couldn't be made, or that found something."""

LOOK_AGAIN_S = 60.0
"""Until a round that wasn't wanted is asked for again."""

END_S = 10.0

NICE = 10
"""What decides payments goes first on a processor that isn't enough for both."""


@dataclass(frozen=True, slots=True)
class ScheduledRound:
    """A job that is run by schedule: the report that the last round left, and seconds until the next one.

    ``first_s``: until the first round of all; ``every_s``, ``again_s``: from the beginning of a round to the next one,
    ``again_s`` of one that failed.
    ``reads_only``: it may take long, and hold up none of those that write. ``is_wanted``: asked before each round.
    """

    name: str
    report: Path
    every_s: float
    first_s: float
    again_s: float
    reads_only: bool = False
    is_wanted: Callable[[], bool] = lambda: True


def schedule_rounds(settings: Settings) -> list[ScheduledRound]:
    rounds, layout, every_s = [], settings.layout, settings.ledger.maintain.every_s
    if every_s:
        rounds.append(ScheduledRound("maintenance", layout.maintained_file, every_s, every_s, every_s))
    if settings.backup.folder:
        every_s = settings.backup.every_h * 3_600
        rounds.append(ScheduledRound("backup", layout.backed_up, every_s, FIRST_S, min(every_s, BACKUP_AGAIN_S)))
    every_s = settings.ledger.verify.every_h * 3_600
    if every_s:
        again_s = min(every_s, VERIFY_AGAIN_S)
        rounds.append(
            ScheduledRound("verification", layout.verification_file, every_s, VERIFY_FIRST_S, again_s, reads_only=True)
        )
    return rounds


def wait_s(due: ScheduledRound, now: datetime) -> float:
    ended_at = past_moment_of(read_said(due.report), "ended_at", now)
    if ended_at is None:
        return min(due.first_s, due.every_s)
    return max(min(FIRST_S, due.every_s), due.every_s - (now - ended_at).total_seconds())


def begin_next_s(due: ScheduledRound, began_s: float, ended_s: float) -> float:
    """Returns when the next round begins, by the same clock.

    ``every_s`` counts from beginning to beginning: a long round makes no gap longer. Between two rounds is a rest.
    """
    return max(began_s + due.every_s, ended_s + min(FIRST_S, due.every_s))


def run_rounds(rounds: Sequence[ScheduledRound], stop: threading.Event) -> None:
    """Runs rounds, one at a time, until ``stop`` is set, which ends the one that is under way."""
    due_s = {due: time.monotonic() + wait_s(due, SystemClock().now()) for due in rounds}
    while not stop.wait(max(0.0, min(due_s.values()) - time.monotonic())):
        due = min(rounds, key=lambda candidate: due_s[candidate])
        if not due.is_wanted():
            due_s[due] = time.monotonic() + min(due.every_s, LOOK_AGAIN_S)
            continue
        began_s = time.monotonic()
        code = _run(due, stop)
        if code is not None:
            log.log(logging.INFO if code == 0 else logging.WARNING, "%s: the run ended with code %d", due.name, code)
        due_s[due] = begin_next_s(due, began_s, time.monotonic()) if code == 0 else began_s + due.again_s


def run_rounds_beside(rounds: Sequence[ScheduledRound], stop: threading.Event) -> None:
    """Runs rounds until ``stop`` is set; those that only read are one at a time too, beside the others."""
    kinds = [[due for due in rounds if due.reads_only is reads_only] for reads_only in (False, True)]
    threads = [threading.Thread(target=run_rounds, args=(kind, stop)) for kind in kinds if kind]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _run(due: ScheduledRound, stop: threading.Event) -> int | None:
    command = [sys.executable, "-m", "stack.rounds", due.name]
    die_with_parent = [sys.executable, "-S", "-m", "stack.die_with_parent", str(os.getpid())]
    with subprocess.Popen([*die_with_parent, *command], stdin=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if stop.wait(0.2):
                _end_process(process)
                return None
        return process.returncode


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()


def run_once(name: str) -> bool:
    os.nice(NICE)
    try:
        done: bool = importlib.import_module(MODULES[name]).run_round(load_settings())
    except PayhookError as problem:
        logging.getLogger(name).error("%s", problem)
        return False
    return done


def run_schedule(rounds_of: Callable[[Settings], list[ScheduledRound]], nothing: str) -> int:
    """Runs a process of rounds until SIGTERM; returns its exit code.

    :param nothing: what is logged where the settings schedule no round
    """
    configure_logging()
    try:
        settings = load_settings()
        secure_data_folder(settings)
    except PayhookError as problem:
        log.error("%s", problem)
        return 1
    rounds = rounds_of(settings)
    with stopped_by_signal() as stop:
        if rounds:
            run_rounds_beside(rounds, stop)
        else:
            log.info("%s", nothing)
            stop.wait()
    return 0


def main() -> int:
    nothing = "no maintenance, no backup and no verification is scheduled: nothing runs by schedule"
    return run_schedule(schedule_rounds, nothing)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(main())
    if sys.argv[1:2] not in [[name] for name in MODULES] or len(sys.argv) > 2:
        sys.exit(f"name one of {', '.join(MODULES)}")
    configure_logging()
    code = 0 if run_once(sys.argv[1]) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    # As cli.main: delta-rs's threads can abort an interpreter that takes its time to end.
    os._exit(code)
