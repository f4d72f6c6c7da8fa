"""What a group of figures is, and the goals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console


@dataclass(frozen=True, slots=True)
class Group:
    """A set of figures measured together; ``seconds`` is about how long it takes."""

    name: str
    seconds: float
    measure: Callable[[Path, Console], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure should reach: one of the two."""

    at_least: float | None = None
    at_most: float | None = None

    def reached_by(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        return f"≥ {self.at_least}" if self.at_least is not None else f"≤ {self.at_most}"


GOALS = {
    "receiver.ratio_to_echo": Goal(at_least=0.60),
    "receiver.ratio_to_straightforward": Goal(at_least=1.8),
    "receiver.duplicates_ratio_to_echo": Goal(at_least=0.75),
    "receiver.p99_ratio_at_half_rate": Goal(at_most=3),
    "redis.bytes_per_key": Goal(at_most=165),
    "e2e.p50_s_at_120": Goal(at_most=0.45),
    "e2e.p99_s_at_120": Goal(at_most=0.8),
}
