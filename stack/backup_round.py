"""One backup of a data folder by its settings: ``python -m stack.backup_round``, from a schedule of one's own."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from core.clock import SystemClock
from core.errors import PayhookError
from core.log import configure_logging
from ledger.maintain.tables import MaintenanceRunning
from stack.backup.make import back_up, record_failure
from stack.settings import Settings, load_settings

log = logging.getLogger("backup")

NICE = 10
"""As `stack.maintenance_round`."""


def run_once(settings: Settings) -> int:
    """Makes a backup; returns 0 if a good one was made. What became of it is also in the run folder."""
    clock = SystemClock()
    try:
        report = back_up(settings, Path(settings.backup.folder), settings.backup.keep, clock)
    except MaintenanceRunning as other:
        log.info("%s", other)
        return 1
    except PayhookError as problem:
        log.error("%s", problem)
        record_failure(settings, clock, str(problem))
        return 1
    for found in report.problems:
        log.error("backup %s isn't good: %s", report.name, found)
    log.info("backup %s: %d files, %d bytes, %.1f s", report.name, report.files, report.bytes, report.seconds)
    return 0 if report.ok else 1


def main() -> int:
    configure_logging()
    os.nice(NICE)
    try:
        return run_once(load_settings())
    except PayhookError as problem:
        log.error("%s", problem)
        return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # As cli.main: delta-rs's threads can abort an interpreter that takes its time to end.
    os._exit(code)
