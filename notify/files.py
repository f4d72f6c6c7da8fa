"""Small files that people edit while payhook runs: read again when they change."""

from __future__ import annotations

import threading
from pathlib import Path

FILE_BYTES_MAX = 1_048_576


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
