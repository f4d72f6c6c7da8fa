"""How far retention has gone through a table of bodies: the commits that drop bodies say it, whatever is set since."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from deltalake import DeltaTable

from core.clock import from_micros, to_micros
from journal.log import AppTransaction

BEFORE_APP_ID = "payhook-retention-before"
DAYS_APP_ID = "payhook-retention-days"


@dataclass(frozen=True, slots=True)
class Retained:
    """Bodies that weren't needed for ``days`` days are gone, where those began ``before`` then."""

    before: datetime
    days: int

    @classmethod
    def of(cls, bodies: DeltaTable) -> Self | None:
        """None: retention never dropped one."""
        before, days = (bodies.transaction_version(name) for name in (BEFORE_APP_ID, DAYS_APP_ID))
        return cls(from_micros(before), days) if before is not None and days is not None else None

    def with_earlier(self, earlier: Self | None) -> Self:
        """Both: what was dropped stays so when bodies are kept for longer since."""
        if earlier is None:
            return self
        return type(self)(max(self.before, earlier.before), min(self.days, earlier.days))

    def transactions(self) -> list[AppTransaction]:
        """As a commit says it."""
        return [AppTransaction(BEFORE_APP_ID, to_micros(self.before)), AppTransaction(DAYS_APP_ID, self.days)]
