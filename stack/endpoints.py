"""What runs on a data folder, as its files say.

``endpoints.json``: where a running stack answers, for people, tests and tools. ``run/supervisor.json``: which processes
there are, so that what a killed supervisor left is ended, and only that. A pid alone may belong to another process by
now; a pid together with its start time can't.
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

FILE = "endpoints.json"
END_WAIT_S = 10.0
SAME_START_S = 0.5


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
    """As the file has them: what there isn't isn't named."""
    return {name: value for name, value in asdict(endpoints).items() if value is not None}


def write_endpoints(data_dir: Path, endpoints: Endpoints) -> None:
    """Rewritten whole; a reader never sees half of it."""
    write_whole(data_dir / FILE, json.dumps(as_dict(endpoints), indent=2) + "\n")


def read_endpoints(data_dir: Path) -> Endpoints | None:
    """None while nothing runs there, as far as this version can read."""
    return read_shaped(data_dir / FILE, Endpoints)


def remove_endpoints(data_dir: Path) -> None:
    (data_dir / FILE).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Identity:
    """One process: its pid and when it started, in seconds since 1970."""

    pid: int
    started: float


@dataclass(frozen=True, slots=True)
class Record:
    """Who runs: the supervisor first, then its children. ``states``: each process's by its name."""

    up: bool = False
    states: Mapping[str, str] = field(default_factory=dict)
    processes: tuple[Identity, ...] = ()


def record(layout: Layout, up: bool, states: Mapping[str, str], pids: Sequence[int]) -> None:
    """Writes who runs."""
    said = Record(up, states, tuple(map(_identity, pids)))
    write_whole(layout.supervisor, json.dumps(asdict(said), indent=1) + "\n")


def recorded_states(layout: Layout) -> dict[str, str]:
    """Each process's state by its name; nothing where no supervisor wrote it."""
    return dict(_recorded(layout).states)


def _identity(pid: int) -> Identity:
    """Which process has this pid now; a start of 0 if none has."""
    try:
        return Identity(pid, psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return Identity(pid, 0.0)


def end_leftovers(layout: Layout) -> bool:
    """Kills the recorded children that still run, each with its whole session; says whether there were any.

    :raises ServerLeft: one doesn't end; the record stays, so that the next `payhook down` finds it
    """
    left = [process for process in map(_alive, _recorded(layout).processes[1:]) if process is not None]
    for process in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    _, stuck = psutil.wait_procs(left, timeout=END_WAIT_S)
    for process in stuck:
        raise ServerLeft("a server", process.pid)
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
    processes = _recorded(layout).processes
    return _alive(processes[0]) if processes else None


def _recorded(layout: Layout) -> Record:
    return read_shaped(layout.supervisor, Record) or Record()


def _alive(recorded: Identity) -> psutil.Process | None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(recorded.pid)
        is_it = abs(process.create_time() - recorded.started) < SAME_START_S
        if is_it and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None
