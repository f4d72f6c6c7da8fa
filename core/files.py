"""Small files: written whole or not at all, and read again when they change."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

FILE_BYTES_MAX = 1_048_576


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


class TextFiles:
    """Texts by path. The same text object is given while the file is the same; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: dict[Path, tuple[tuple[int, int, int], str]] = {}

    def text(self, path: Path) -> str:
        """
        :raises OSError: it can't be read
        :raises ValueError: it isn't UTF-8, or larger than `FILE_BYTES_MAX`
        """
        found = path.stat()
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        with self._lock:
            known = self._read.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        if found.st_size > FILE_BYTES_MAX:
            raise ValueError(f"{found.st_size} bytes, at most {FILE_BYTES_MAX} are read")
        text = path.read_bytes().decode("utf-8")
        with self._lock:
            self._read[path] = (stamp, text)
        return text


def problem_of(error: OSError | ValueError) -> str:
    """One sentence without the path, which the caller names."""
    if isinstance(error, UnicodeDecodeError):
        return "it isn't UTF-8"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)


def write_whole(path: Path, text: str, mode: int = 0o600) -> None:
    """Writes a file whole or not at all, durably, over one that is there.

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
