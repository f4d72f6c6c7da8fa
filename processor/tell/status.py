"""The processor's status file: what `payhook status` and the management listener show."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.clock import Clock, to_rfc3339

WRITE_EVERY_S = 1.0


class StatusFile:
    """Rewritten whole, at most once a second, and never seen half written."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._written_at = -WRITE_EVERY_S
        self._said: dict[str, Any] = {}
        path.parent.mkdir(parents=True, exist_ok=True)

    @property
    def said(self) -> Mapping[str, Any]:
        """What was last written; nothing before that."""
        return self._said

    def due(self) -> bool:
        """Whether the last writing is long enough ago."""
        return self._clock.monotonic() - self._written_at >= WRITE_EVERY_S

    def write(self, status: dict[str, Any]) -> None:
        """Replaces what was said; what can't be written is left, for a status is never worth the stream."""
        self._said = status
        self._written_at = self._clock.monotonic()
        text = json.dumps({"pid": os.getpid(), "at": to_rfc3339(self._clock.now()), **status}, indent=1)
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_text(text, "utf-8")
            fresh.replace(self._path)
        except OSError:
            self._write_in_place(text)

    def write_over(self, status: dict[str, Any]) -> None:
        """Some figures anew, the others as they were last said."""
        self.write({**self._said, **status})

    def _write_in_place(self, text: str) -> None:
        """On a full disk the file's own blocks are still there."""
        with contextlib.suppress(OSError), self._path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            file.write(text.encode().ljust(size))

    def remove(self) -> None:
        """Called at start, so that nobody reads the last process's word."""
        self._path.unlink(missing_ok=True)
