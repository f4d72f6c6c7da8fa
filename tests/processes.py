"""Processes of others, waited for."""

from __future__ import annotations

from collections.abc import Iterable

import psutil

from load.client import wait_for


def is_gone(process: psutil.Process) -> bool:
    """Ended, or waiting for its parent to take note: what adopts orphans takes its time for that."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def all_end(processes: Iterable[psutil.Process], seconds: float = 60.0) -> bool:
    """Returns once they all have; False if they didn't in time."""
    watched = list(processes)
    return wait_for(lambda: all(is_gone(one) for one in watched), seconds)
