"""The processor's status file: what `payhook status` and the management listener show."""

from __future__ import annotations

import json
import os
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
        path.parent.mkdir(parents=True, exist_ok=True)

    def due(self) -> bool:
        """Whether the last writing is long enough ago."""
        return self._clock.monotonic() - self._written_at >= WRITE_EVERY_S

    def write(self, status: dict[str, Any]) -> None:
        self._written_at = self._clock.monotonic()
        whole = {"pid": os.getpid(), "at": to_rfc3339(self._clock.now()), **status}
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(whole, indent=1), "utf-8")
        fresh.replace(self._path)

    def remove(self) -> None:
        """Called at start, so that nobody reads the last process's word."""
        self._path.unlink(missing_ok=True)
