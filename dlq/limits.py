"""What one person may close alone in a day; beyond it, a second one must approve."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

EVERY_CURRENCY = "*"


@dataclass(frozen=True, slots=True)
class AloneLimits:
    """``items_max``: items that one person purges and resolves within 24 hours. ``amounts_minor_max``: the money of all
    of them, in minor units by currency; `EVERY_CURRENCY` is for those that aren't named, and without it those have no
    limit."""

    items_max: int = 100
    amounts_minor_max: Mapping[str, int] = field(default_factory=dict)

    def amount_minor_max(self, currency: str) -> int | None:
        """None: as much as it may be."""
        return self.amounts_minor_max.get(currency, self.amounts_minor_max.get(EVERY_CURRENCY))

    def beyond(self, wanted: Closed, before: Closed) -> str | None:
        """Why this takes a second person, after what was closed within a day; None: it doesn't."""
        also = f" with the {before.items:,} of the last 24 hours" if before.items else ""
        if wanted.items + before.items > self.items_max:
            return f"it is {wanted.items:,} items{also}, and above {self.items_max:,} a day a second person approves"
        for currency in sorted(wanted.amounts_minor):
            amount, most = (
                wanted.amounts_minor[currency] + before.amounts_minor[currency],
                self.amount_minor_max(currency),
            )
            if most is not None and amount > most:
                minor = f"{amount:,} minor units of {currency}{also}"
                return f"it is {minor}, and above {most:,} a day a second person approves"
        return None


@dataclass(frozen=True, slots=True)
class Closed:
    """How many items, and their money by currency, as far as it is known."""

    items: int = 0
    amounts_minor: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Closed) -> Closed:
        return Closed(self.items + other.items, self.amounts_minor + other.amounts_minor)

    def to_json(self) -> str:
        """As the ``headers`` of a command's row hold it."""
        amounts = dict(sorted(self.amounts_minor.items()))
        return json.dumps({"closed_alone": {"items": self.items, "amounts_minor": amounts}}, separators=(",", ":"))
