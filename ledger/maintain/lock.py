"""One maintenance of a data folder at a time: a lock that the system takes back from a process that died."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from core.clock import to_rfc3339
from core.errors import PayhookError

LOCK = "maintain.lock"


class MaintenanceRunning(PayhookError):
    """Another process maintains this data folder."""

    def __init__(self, run_dir: Path, holder: str) -> None:
        self.run_dir = run_dir
        self.holder = holder
        super().__init__(
            f"maintenance is running already ({holder}); this one ends and has changed nothing. Run it again later."
        )


@contextlib.contextmanager
def sole_maintenance(run_dir: Path, now: datetime) -> Iterator[None]:
    """Holds the data folder's lock for this process; its file, which stays, says whose it was last.

    :raises MaintenanceRunning: a living process holds it
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    with (run_dir / LOCK).open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MaintenanceRunning(run_dir, _holder(run_dir / LOCK)) from None
        lock.truncate(0)
        lock.write(json.dumps({"pid": os.getpid(), "since": to_rfc3339(now)}))
        lock.flush()
        yield


def _holder(lock: Path) -> str:
    try:
        told = json.loads(lock.read_text("utf-8"))
        return f"process {told['pid']}, since {told['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that hasn't said its name yet"
