"""Whose hands are behind an act: none may be behind both a proposal and its approval."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

Hands: TypeAlias = Callable[[str], frozenset[str]]
"""Everybody who could act as a person, by the person's name; themselves among them."""


def same_person(name: str) -> frozenset[str]:
    """The one hand of a person of whom nothing else is known."""
    return frozenset({name.casefold().strip()})


def in_common(ones: Iterable[str], others: Iterable[str]) -> frozenset[str]:
    """The hands that are behind both."""
    return frozenset(one.casefold().strip() for one in ones) & {other.casefold().strip() for other in others}
