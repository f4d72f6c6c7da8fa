"""The CPU time that a running stack takes, all of its processes together."""

from __future__ import annotations

import psutil

from load.client import RunningStack


def cpu_seconds(stack: RunningStack) -> float:
    """Of every process under the stack's supervisor, since each began."""
    supervisor = psutil.Process(int(stack.endpoints["pids"]["kafka"])).parent()
    assert supervisor is not None
    return sum(_of(process) for process in [supervisor, *supervisor.children(recursive=True)])


def stolen_seconds() -> float:
    """CPU time, over all cores, that other machines on this one's host took from it; 0 where it isn't told."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))


def _of(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
