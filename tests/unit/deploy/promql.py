"""As much of PromQL as it takes to see which series an expression asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SELECTOR = re.compile(r"(?<![\w:])((?:\w+:)?payhook_[\w:]*|stream:payhook_[\w:]*|up)\b\s*(\{[^}]*\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Matcher:
    """One condition on a label."""

    label: str
    operator: str
    value: str

    def fits(self, value: str) -> bool:
        """Whether a label's value meets it."""
        if self.operator in ("=", "!="):
            return (value == self.value) is (self.operator == "=")
        return (re.fullmatch(self.value, value) is not None) is (self.operator == "=~")


@dataclass(frozen=True)
class Selector:
    """A metric's name, and what its labels must be."""

    metric: str
    matchers: tuple[Matcher, ...]


def selectors(expression: str) -> Iterator[Selector]:
    """Every series that an expression asks for."""
    for name, matchers in _SELECTOR.findall(expression):
        yield Selector(name, tuple(Matcher(*parts) for parts in _MATCHER.findall(matchers)))
