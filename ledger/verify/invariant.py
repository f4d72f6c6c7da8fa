"""What an invariant is, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from ledger.verify.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Finding:
    """One invariant's answer. ``offenders`` is a bounded sample; ``figures`` are what was counted on the way.

    ``unknown``: what couldn't be looked at, because only rows since some moment were. ``not_checked``: why nothing was
    checked at all; it isn't ``ok`` then, and nothing is wrong either.
    """

    name: str
    sentence: str
    offenders: tuple[dict[str, Any], ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    unknown: str | None = None
    not_checked: str | None = None

    @property
    def ok(self) -> bool:
        return not self.offenders and self.not_checked is None


class Invariant(Protocol):
    """One thing that always holds. ``name`` is stable; ``sentence`` says it to an accountant."""

    name: str
    sentence: str

    def check(self, evidence: Evidence) -> Finding:
        """Looks for offenders, at most ``evidence.sample_max`` of them."""
