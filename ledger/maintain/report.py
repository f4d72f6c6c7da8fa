"""What a maintenance did, or would do: for people and for machines."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from core.clock import to_rfc3339
from core.location import Location


@dataclass(frozen=True, slots=True)
class TableReport:
    """One table; ``stream`` is empty where it is no work stream's. ``log`` is how many commits a reader goes through
    that opens it; ``freed`` left the disk.

    ``problem``: why it wasn't done, or only in part; the table is whole all the same.
    """

    stream: str
    table: str
    path: Location
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    log_before: int
    log_after: int
    freed_files: int
    freed_bytes: int
    bodies_dropped: int
    seconds: float
    problem: str | None = None

    @property
    def of(self) -> str:
        """Which one it is, in words."""
        return f"{self.table} of {self.stream}" if self.stream else self.table


@dataclass(frozen=True, slots=True)
class Report:
    """A whole maintenance; ``dry_run``: nothing was changed, what would be is told."""

    ended_at: datetime
    seconds: float
    dry_run: bool
    tables: tuple[TableReport, ...]

    @property
    def ok(self) -> bool:
        return all(table.problem is None for table in self.tables)

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "dry_run": self.dry_run,
            "ended_at": to_rfc3339(self.ended_at),
            "seconds": round(self.seconds, 3),
            "tables": [{**asdict(table), "seconds": round(table.seconds, 3)} for table in self.tables],
        }

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), indent=1, default=str)
