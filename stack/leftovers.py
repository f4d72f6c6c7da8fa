"""Ends what a killed supervisor left running, and only that.

A pid alone may have been given to somebody else since; together with its start time it can't.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import TypedDict

import psutil

from core.layout import Layout
from stack.errors import RestoreUnfinished

END_WAIT_S = 10.0
SAME_START_S = 0.5


class Identity(TypedDict):
    """One process: its pid and when it started, in seconds since 1970."""

    pid: int
    started: float


def identity(pid: int) -> Identity:
    """Who has this pid now; a start of 0 if nobody has."""
    try:
        return {"pid": pid, "started": psutil.Process(pid).create_time()}
    except psutil.NoSuchProcess:
        return {"pid": pid, "started": 0.0}


def end_leftovers(layout: Layout) -> bool:
    """Kills the recorded children that still run, each with its whole session; says whether there were any."""
    left = [process for process in map(_alive, _recorded(layout)) if process is not None]
    for process in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    psutil.wait_procs(left, timeout=END_WAIT_S)
    layout.supervisor.unlink(missing_ok=True)
    return bool(left)


def check_restored(layout: Layout) -> None:
    """
    :raises RestoreUnfinished: a restore was interrupted while it moved tables: a journal that is missing isn't new
    """
    if layout.restore_moves.exists():
        raise RestoreUnfinished(layout.root)


def recorded_supervisor(layout: Layout) -> psutil.Process | None:
    """The supervisor that wrote the data folder's record, if it still lives."""
    recorded = _read(layout)
    return _alive(recorded[0]) if recorded else None


def _recorded(layout: Layout) -> list[Identity]:
    return _read(layout)[1:]


def _read(layout: Layout) -> list[Identity]:
    try:
        read: list[Identity] = json.loads(layout.supervisor.read_text("utf-8"))["processes"]
    except (OSError, ValueError, KeyError):
        return []
    return read


def _alive(recorded: Identity) -> psutil.Process | None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(recorded["pid"])
        is_it = abs(process.create_time() - recorded["started"]) < SAME_START_S
        if is_it and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None
