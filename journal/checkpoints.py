"""Checkpoints of a Delta table's log, made beside its writer: readers begin with the last one."""

from __future__ import annotations

import logging
import threading
import time

from journal.lake import open_table
from journal.place import place_of

log = logging.getLogger(__name__)

COMMITS = 100
"""A checkpoint is due at each multiple, where they are quick; so it is too for a writer that never lives so long."""

SHARE_MAX = 0.05
"""Of the time: a checkpoint reads what the table has of files, so of a table with many it is made less often."""

_one_at_a_time = threading.Lock()


class Checkpoints:
    """Of one table; told of every commit."""

    def __init__(self, path: str, version: int) -> None:
        self._path = path
        self._last = version
        self._not_before_s = 0.0
        self._thread: threading.Thread | None = None

    def committed(self, version: int) -> None:
        """Begins one if it is time."""
        busy = self._thread is not None and self._thread.is_alive()
        if busy or version // COMMITS == self._last // COMMITS or time.monotonic() < self._not_before_s:
            return
        self._last = version
        self._thread = threading.Thread(target=self._make, name=f"checkpoint-{place_of(self._path).name}", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """For one that is being made."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _make(self) -> None:
        with _one_at_a_time:
            began_s = time.monotonic()
            try:
                table = open_table(self._path)
                table.create_checkpoint()
                table.cleanup_metadata()
            except Exception as failed:
                log.warning("no checkpoint of %s could be made; the next one will do: %s", self._path, failed)
            ended_s = time.monotonic()
            self._not_before_s = ended_s + (ended_s - began_s) / SHARE_MAX
