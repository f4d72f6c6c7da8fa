"""What is plotted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

SERIES_MAX = 8
"""As many colours as the style sheet has, each told from the others by its dashes too."""

VALUE_MAX = 1e100
"""What is beyond it is no count and no amount: it is left out, like what is no number."""

Told: TypeAlias = Callable[[float], str]
"""A value as an axis tells it."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A value that stays until the next moment. Moments ascend."""

    name: str
    points: Sequence[tuple[datetime, float]]


def is_plotted(value: float) -> bool:
    """Whether a value has a place on an axis."""
    return -VALUE_MAX <= value <= VALUE_MAX
