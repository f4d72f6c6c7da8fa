"""Small files that are there whole or not at all, and files that are locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path


def create_once(path: Path, text: str, mode: int = 0o600) -> None:
    """Makes a whole file in one step; one that is there is never touched.

    So of several processes that start at once all read the same.

    :raises OSError: it can't be made
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.touch(mode)
    fresh.write_text(text, "utf-8")
    with contextlib.suppress(FileExistsError):
        os.link(fresh, path)
    fresh.unlink()


def write_whole(path: Path, text: str) -> None:
    """Replaces a file in one step: no reader sees half of it. A loss of power may lose it."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text, "utf-8")
    fresh.replace(path)


def write_durably(path: Path, text: str, mode: int = 0o600) -> None:
    """Replaces a file in one step; on return it outlasts a loss of power.

    :raises OSError: nothing was changed
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Makes what was created or removed in a folder outlive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Holds a lock file for the length of a ``with``; False where another process holds it.

    The system takes it back from a process that dies.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        is_ours = False
    else:
        is_ours = True
    try:
        yield is_ours
    finally:
        os.close(descriptor)
