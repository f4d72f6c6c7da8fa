"""Records what runs on a data folder, in its files.

``endpoints.json``: where a running stack answers, for people, tests and tools. ``run/supervisor.json``: which processes
there are, so that what a killed supervisor left is ended, and only that. ``supervisor.lock``: which one holds the
folder, also where ``run`` was removed. A process is identified by more than its pid, which may be another's by now.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from core.files import write_whole
from core.layout import Layout
from core.status_file import read_shaped
from stack.errors import RestoreUnfinished, ServerLeft

_START_FIELD = 19
"""``starttime`` in ``/proc/PID/stat``, counted after the command's closing bracket: field 22 in proc_pid_stat(5)."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process by its pid and its start, as the kernel reports it: that doesn't move when a clock is set."""

    pid: int
    started: str


def identity_of(pid: int) -> ProcessIdentity:
    return ProcessIdentity(pid, _start_of(pid))


def find_process(identity: ProcessIdentity) -> psutil.Process | None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(identity.pid)
        if identity.started and _start_of(identity.pid) == identity.started:
            return None if process.status() == psutil.STATUS_ZOMBIE else process
    return None


def _start_of(pid: int) -> str:
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


FILE = "endpoints.json"
END_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Endpoints:
    """URLs, except ``kafka`` (host:port), and the paths of the ledger's journals; no test traffic, no test journal."""

    ingest: str
    ops: str
    kafka: str
    redis: str
    journal: str
    pids: Mapping[str, int]
    test_journal: str | None = None


def as_dict(endpoints: Endpoints) -> dict[str, Any]:
    return {name: value for name, value in asdict(endpoints).items() if value is not None}


def write_endpoints(data_dir: Path, endpoints: Endpoints) -> None:
    """Rewrites the file whole; a reader never sees half of it."""
    write_whole(data_dir / FILE, json.dumps(as_dict(endpoints), indent=2) + "\n")


def read_endpoints(data_dir: Path) -> Endpoints | None:
    """Returns None while nothing runs there, as far as this version can read."""
    return read_shaped(data_dir / FILE, Endpoints)


def has_endpoints(data_dir: Path) -> bool:
    return (data_dir / FILE).exists()


def remove_endpoints(data_dir: Path) -> None:
    (data_dir / FILE).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    up: bool = False
    states: Mapping[str, str] = field(default_factory=dict)
    processes: tuple[ProcessIdentity, ...] = ()


def record_processes(layout: Layout, up: bool, states: Mapping[str, str], pids: Sequence[int]) -> None:
    content = ProcessRecord(up, states, tuple(map(identity_of, pids)))
    write_whole(layout.supervisor_file, json.dumps(asdict(content), indent=1) + "\n")


def recorded_states(layout: Layout) -> dict[str, str]:
    return dict(_read_record(layout).states)


def record_holder(layout: Layout) -> None:
    layout.supervisor_lock.write_text(json.dumps(asdict(identity_of(os.getpid()))) + "\n", "utf-8")


def end_leftovers(layout: Layout) -> bool:
    """Kills the recorded children that still run, each with its whole session; says whether there were any.

    :raises ServerLeft: one doesn't end; the record stays, so that the next `payhook down` finds it
    """
    left = [process for process in map(find_process, _read_record(layout).processes[1:]) if process is not None]
    for process in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    _, stuck = psutil.wait_procs(left, timeout=END_WAIT_S)
    for process in stuck:
        raise ServerLeft("a server", process.pid)
    layout.supervisor_file.unlink(missing_ok=True)
    return bool(left)


def check_restored(layout: Layout) -> None:
    """
    :raises RestoreUnfinished: a restore was interrupted while it moved tables: a journal that is missing isn't new
    """
    if layout.restore_moves.exists():
        raise RestoreUnfinished(layout.root)


def recorded_supervisor(layout: Layout) -> psutil.Process | None:
    holder = read_shaped(layout.supervisor_lock, ProcessIdentity)
    named = [*([] if holder is None else [holder]), *_read_record(layout).processes[:1]]
    return next(filter(None, map(find_process, named)), None)


def _read_record(layout: Layout) -> ProcessRecord:
    return read_shaped(layout.supervisor_file, ProcessRecord) or ProcessRecord()
