"""What processes hold of the machine's memory, and whether it grows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import psutil

MIB = 2**20


def growth_mib(resident: Sequence[float], of: Callable[[Sequence[float]], float] = statistics.median) -> float:
    """From the second quarter's median to the last one's; the first quarter fills caches and pools.

    :param of: ``min`` for a heap that is let grow to its limit before it is collected: what a collection left
    """
    quarter = len(resident) // 4
    return of(resident[-quarter:]) - of(resident[quarter : 2 * quarter])


def family(pid: int) -> list[psutil.Process]:
    """A process and those below it: what is measured runs below the one that ends it with us."""
    whole = psutil.Process(pid)
    return [whole, *whole.children(recursive=True)]


def own_mib(process: psutil.Process) -> float:
    """What it holds for itself; 0 of one that has ended.

    Pages of files (libraries above all) aren't counted: the kernel takes them back and reads them again as it likes,
    and what grows would be hidden by what it took.
    """
    try:
        held = process.memory_info()
    except psutil.NoSuchProcess:
        return 0.0
    return float((held.rss - held.shared) / MIB)
