"""How live traffic fares, by the status file of the stream's processor: a replay never comes before it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from core.clock import from_rfc3339

STATUS_AGE_MAX = timedelta(seconds=30)
"""The processor writes its status about once a second; a batch may take longer."""


@dataclass(frozen=True, slots=True)
class Load:
    """``behind_s``: about how long an event that comes now waits for its decision. ``stopped``: why nothing is decided
    at all, None while something is. ``reading`` tells one look from the next."""

    behind_s: float
    stopped: str | None
    reading: str


class LiveLoad(Protocol):
    """Whoever knows."""

    def read(self, now: datetime) -> Load: ...


class StatusLoad:
    """Read from the file that `processor.reporting.status` writes."""

    def __init__(self, status: Path) -> None:
        self._status = status

    def read(self, now: datetime) -> Load:
        try:
            said: dict[str, Any] = json.loads(self._status.read_text("utf-8"))
            at = from_rfc3339(said["at"])
            if now - at > STATUS_AGE_MAX:
                return Load(0.0, f"the processor has said nothing since {said['at']}", said["at"])
            if said.get("blocked"):
                return Load(0.0, f"the stream is blocked: {said['blocked']}", said["at"])
            if not said.get("ready"):
                return Load(0.0, "the processor isn't ready", said["at"])
            return Load(_behind_s(said), None, said["at"])
        except (OSError, ValueError, KeyError, TypeError):
            return Load(0.0, "the processor isn't running", "")


def _behind_s(said: dict[str, Any]) -> float:
    """A batch under way, and what stands before the next one."""
    catch_up = said.get("catch_up", {})
    waiting = float(catch_up.get("recover_s") or 0.0) if catch_up.get("behind") else 0.0
    return float(said.get("batch_s", 0.0)) + waiting
