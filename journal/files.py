"""Files that are there whole or not at all, and outlast a loss of power."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from pathlib import Path

import pyarrow as pa


def put_new(place: Path, data: bytes) -> None:
    """Writes a file whole, or not at all; on return it outlasts a loss of power.

    :raises FileExistsError: one is there
    """
    staged = place.with_name(f".{place.name}.{uuid.uuid4()}.tmp")
    try:
        put_file(staged, data)
        os.link(staged, place)
        sync(place.parent)
    finally:
        with contextlib.suppress(OSError):
            staged.unlink()


def put_file(place: Path, data: bytes | pa.Buffer) -> None:
    """Writes a file of a new name, and waits until it is on disk.

    :raises FileExistsError: one is there
    """
    with place.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(place: Path) -> None:
    """Waits until a file, or what a folder holds, is on disk."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def now_ms() -> int:
    """The wall time as Delta's log has it."""
    return time.time_ns() // 1_000_000


def since_boot_s() -> float:
    """Seconds that also pass while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
