"""Limits of what one account may do alone in a day; beyond them another account must approve."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from operations.command import REPLAY

EVERY_CURRENCY = "*"


class LimitKind(StrEnum):
    """Actions that count together. The value names them in the ``headers`` of a command's row."""

    CLOSED = "closed_alone"
    """Purges and resolves."""
    REPLAYED = "replayed_alone"
    """Replays, of ignored events too."""


def kind_of(action: str) -> LimitKind:
    return LimitKind.REPLAYED if action == REPLAY else LimitKind.CLOSED


@dataclass(frozen=True, slots=True)
class AloneLimits:
    """Limits of what one person does alone within 24 hours.

    ``items_max``: items that are purged and resolved; ``amounts_minor_max``: the money of all of them, in minor units
    by currency; `EVERY_CURRENCY` is for those that aren't named, and without it those have no limit.
    ``replay_items_max``, ``replay_amounts_minor_max``: the same of what is replayed.
    """

    items_max: int = 100
    amounts_minor_max: Mapping[str, int] = field(default_factory=dict)
    replay_items_max: int = 100_000
    replay_amounts_minor_max: Mapping[str, int] = field(default_factory=dict)

    def of_each(self, shards: int) -> AloneLimits:
        """Divides the limits among shards, which count by themselves: together they allow no more than this."""

        def parts(amounts: Mapping[str, int]) -> dict[str, int]:
            return {currency: amount // shards for currency, amount in amounts.items()}

        return AloneLimits(
            self.items_max // shards,
            parts(self.amounts_minor_max),
            self.replay_items_max // shards,
            parts(self.replay_amounts_minor_max),
        )

    def amount_minor_max(self, kind: LimitKind, currency: str) -> int | None:
        amounts = self.amounts_minor_max if kind is LimitKind.CLOSED else self.replay_amounts_minor_max
        return amounts.get(currency, amounts.get(EVERY_CURRENCY))

    def why_beyond(self, kind: LimitKind, wanted: Volume, before: Volume) -> str | None:
        """Says why this takes a second person, after what was done within a day; None: it doesn't."""
        items_max, done = (
            (self.items_max, "closed") if kind is LimitKind.CLOSED else (self.replay_items_max, "replayed")
        )
        if wanted.items + before.items > items_max:
            items = f"{wanted.items:,} item{'' if wanted.items == 1 else 's'}"
            after = f" after {before.items:,} {done} in the last 24 hours" if before.items else ""
            return f"needs approval: {items}{after} (limit {items_max:,} a day)"
        for currency in sorted(wanted.amounts_minor):
            amount, most = (
                wanted.amounts_minor[currency] + before.amounts_minor[currency],
                self.amount_minor_max(kind, currency),
            )
            if most is not None and amount > most:
                span = f" {done} in the last 24 hours, with these" if before.items else ""
                return f"needs approval: {amount:,} minor units of {currency}{span} (limit {most:,} a day)"
        return None


@dataclass(frozen=True, slots=True)
class Volume:
    items: int = 0
    amounts_minor: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Volume) -> Volume:
        return Volume(self.items + other.items, self.amounts_minor + other.amounts_minor)

    def to_json(self, kind: LimitKind) -> str:
        done: dict[str, Any] = {"items": self.items, "amounts_minor": dict(sorted(self.amounts_minor.items()))}
        return json.dumps({kind.value: done}, separators=(",", ":"))


def account_of(actor: str) -> str:
    """Returns the account's name, the same however it was typed."""
    return actor.casefold().strip()
