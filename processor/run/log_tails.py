"""The last lines that each thread logged, for the journal row of a failure."""

from __future__ import annotations

import logging
import threading
from collections import deque

from core.card_numbers import without_card_numbers

LOG_BYTES_MAX = 4_096
LINE_CHARS_MAX = 16_384
"""So much of a line is kept until card numbers are looked for: none is cut in the part that the journal gets."""
LINES_MAX = 100
"""Kept of one call; more than `LOG_BYTES_MAX` of lines that say anything."""


class LogTails(logging.Handler):
    """Listens while it is entered; what a thread logs is told to that thread only."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: dict[int, deque[str]] = {}

    def __enter__(self) -> LogTails:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)

    def begin(self) -> None:
        """Forgets what this thread logged before."""
        lines = self._lines.get(threading.get_ident())
        if lines:
            lines.clear()

    def text(self) -> str | None:
        """What this thread logged since `begin`, without card numbers, cut to its last `LOG_BYTES_MAX` bytes."""
        lines = self._lines.get(threading.get_ident())
        if not lines:
            return None
        whole = "\n".join(without_card_numbers(line) for line in lines)
        return whole.encode("utf-8", "replace")[-LOG_BYTES_MAX:].decode("utf-8", "ignore")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception as wrong:  # as logging's own handlers do: a bad line is no failure of its event
            message = f"(a line that can't be made: {type(wrong).__name__})"
        line = f"{record.levelname} {record.name}: {message[-LINE_CHARS_MAX:]}"
        self._lines.setdefault(record.thread or 0, deque(maxlen=LINES_MAX)).append(line)
