"""Identifies a process for as long as it lives: a pid alone may be another process's by now."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import psutil

_START_FIELD = 19
"""``starttime`` in ``/proc/PID/stat``, counted after the command's closing bracket: field 22 in proc_pid_stat(5)."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process by its pid and its start, as the kernel tells it: that doesn't move when a clock is set."""

    pid: int
    started: str


def identity_of(pid: int) -> ProcessIdentity:
    """Identifies the process that has this pid now; without a start if none has."""
    return ProcessIdentity(pid, _start_of(pid))


def find_process(identity: ProcessIdentity) -> psutil.Process | None:
    """The process, if it still lives."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(identity.pid)
        if identity.started and _start_of(identity.pid) == identity.started:
            return None if process.status() == psutil.STATUS_ZOMBIE else process
    return None


def _start_of(pid: int) -> str:
    """Returns the boot and the ticks since; without ``/proc`` as psutil has it. Empty where no such process is."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return _start_without_proc(pid)
    return f"{boot} {stat.rpartition(')')[2].split()[_START_FIELD]}"


def _start_without_proc(pid: int) -> str:
    try:
        return str(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return ""
