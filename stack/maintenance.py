"""Maintains the lake of a data folder by schedule: ``python -m stack.maintenance``, beside the processor.

Each round is a process of its own (`stack.maintenance_round`): what it took of memory is the system's again, and one
that is ended, at whatever moment, leaves every table whole.
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
from datetime import datetime
from pathlib import Path

from core.clock import SystemClock, from_rfc3339
from core.log import configure_logging
from stack.settings import Settings, load_settings

log = logging.getLogger("maintenance")

FIRST_S = 60.0
"""After its start a stack catches up; a round that is overdue waits for so long."""

END_S = 10.0


def wait_s(last_report: Path, every_s: float, now: datetime) -> float:
    """Seconds until the next round: so long after the last one, whatever was restarted since, or after now."""
    try:
        ended_at = from_rfc3339(json.loads(last_report.read_text("utf-8"))["ended_at"])
    except (OSError, ValueError, KeyError, TypeError):
        return every_s
    return max(min(FIRST_S, every_s), every_s - (now - ended_at).total_seconds())


def stay(settings: Settings, stop: threading.Event) -> None:
    """Round after round until ``stop`` is set, which ends the one that is under way."""
    every_s = settings.ledger.maintain.every_s
    while not stop.wait(wait_s(settings.layout.maintained, every_s, SystemClock().now())):
        began_s = time.monotonic()
        code = _round(stop)
        if code is not None:
            log.log(logging.INFO if code == 0 else logging.WARNING, "a round ended with %d", code)
        if code != 0 and stop.wait(max(0.0, every_s - (time.monotonic() - began_s))):
            return


def _round(stop: threading.Event) -> int | None:
    """The exit code of one round; None if it was ended."""
    command = [sys.executable, "-m", "stack.maintenance_round"]
    tether = [sys.executable, "-S", "-m", "stack.tether", str(os.getpid())]
    with subprocess.Popen([*tether, *command], stdin=subprocess.DEVNULL) as process:
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
    if settings.ledger.maintain.every_s:
        stay(settings, stop)
    else:
        log.info("ledger.maintain.every_s is 0: nothing is maintained by itself")
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
