"""What one person may close in one command; beyond it, a second one must approve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

EVERY_CURRENCY = "*"


@dataclass(frozen=True, slots=True)
class AloneLimits:
    """``items_max``: items of one purge or resolve. ``amounts_minor_max``: the money of all of them, in minor units by
    currency; `EVERY_CURRENCY` is for those that aren't named, and without it those have no limit."""

    items_max: int = 100
    amounts_minor_max: Mapping[str, int] = field(default_factory=dict)

    def amount_minor_max(self, currency: str) -> int | None:
        """None: as much as it may be."""
        return self.amounts_minor_max.get(currency, self.amounts_minor_max.get(EVERY_CURRENCY))
