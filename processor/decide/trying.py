"""What is being tried, remembered across a crash: an event that ends the whole process is found like one that ends its
worker.
"""

from __future__ import annotations

import json
from pathlib import Path

from core.clock import Clock, to_micros
from journal.errors import StorageDown


class Trying:
    """A file that says after which seq events were handed to the handlers. Disposable: without it a try is repeated."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def remember(self, seq: int) -> None:
        """
        :raises StorageDown: the file can't be written now
        """
        try:
            self._write(seq)
        except OSError as failed:
            raise StorageDown("the note of what is tried", str(self._path), str(failed)) from failed

    def _write(self, seq: int) -> None:
        self._path.write_text(json.dumps({"seq": seq, "at_us": to_micros(self._clock.now())}), "utf-8")

    def tried(self, seq: int) -> bool:
        """Whether the process before this one ended after it had begun what follows ``seq``."""
        try:
            return bool(json.loads(self._path.read_text("utf-8"))["seq"] == seq)
        except (OSError, ValueError, KeyError, TypeError):
            return False
