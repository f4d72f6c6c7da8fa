"""Processes of others, waited for; and what happens to them: they are killed, their disk is full."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from load.client import wait_for


class Killed(BaseException):
    """The process ends here: no ``except Exception`` of it sees this."""


def dies_with_the_test() -> list[str]:
    """What stands before a command that is to end when this process is killed."""
    return [sys.executable, "-S", "-m", "stack.die_with_parent", str(os.getpid())]


def is_gone(process: psutil.Process) -> bool:
    """Ended, or waiting for its parent to take note: what adopts orphans takes its time for that."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def with_children(pid: int) -> list[psutil.Process]:
    """A process, and all that it and its children started; none of one that has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def sockets_of(pid: int, kind: str) -> list[Any]:
    """The sockets that a process and all it started hold; one that ends while it is looked at holds none.

    :param kind: as psutil names it: ``inet``, ``tcp``, ``unix``, ``all``
    """
    found: list[Any] = []
    for process in with_children(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += process.net_connections(kind)
    return found


def name_of(process: psutil.Process) -> str:
    """Empty for one that has ended since it was listed."""
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


def all_end(processes: Iterable[psutil.Process], seconds: float = 60.0) -> bool:
    """Returns once they all have; False if they didn't in time."""
    watched = list(processes)
    return wait_for(lambda: all(is_gone(one) for one in watched), seconds)


def pause(pid: int) -> None:
    """SIGSTOP, and returns when all of the process stands still: on a busy machine it goes on for a while."""
    os.kill(pid, signal.SIGSTOP)
    assert wait_for(lambda: _stands_still(pid), 60.0)


def _stands_still(pid: int) -> bool:
    threads = Path(f"/proc/{pid}/task")
    if not threads.exists():
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    states = [(thread / "stat").read_text().rpartition(")")[2].split()[0] for thread in threads.iterdir()]
    return set(states) == {"T"}


def fill_disk(path: Path) -> None:
    """Writes a file until its disk takes nothing more."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
