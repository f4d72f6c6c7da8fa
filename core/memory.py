"""How full the memory is that a process may use: its container's, or the machine's."""

from __future__ import annotations

from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def memory_used(cgroups: Path = CGROUPS, own_file: Path = OWN_CGROUP) -> float:
    """Returns the used share of the machine's memory, or of the control group's (version 2) that limits this process,
    whichever is higher. What the system can drop, such as the cache of files, isn't used.
    """
    machine = psutil.virtual_memory()
    used: float = 1 - machine.available / machine.total
    try:
        path = next(line for line in own_file.read_text("utf-8").splitlines() if line.startswith("0::"))[3:]
        group = cgroups / path.lstrip("/")
        limit_bytes = int((group / "memory.max").read_text("utf-8"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text("utf-8").splitlines())
        held_bytes = int((group / "memory.current").read_text("utf-8")) - int(stat["inactive_file"])
    except (OSError, ValueError, KeyError, StopIteration):
        return used  # there is no limit ("max" is no number), or no such control group
    return max(used, held_bytes / limit_bytes)
