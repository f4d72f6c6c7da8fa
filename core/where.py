"""Decides which of a topic's events a work stream takes, by their headers: ``where = {mode = "live", tenant =
"eu-*"}``.

A header is compared with one pattern or a list of them. ``*`` stands for any text, ``?`` for one character, ``[ab]``
for one of those. A pattern behind ``!`` takes out what fits it. A header that an event hasn't is an empty text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from core.errors import PayhookError

HEADERS: Final = ("mode", "tenant", "zone", "provider")
PATTERNS_MAX = 100
PATTERN_CHARS_MAX = 200
NOT = "!"

Patterns: TypeAlias = str | Sequence[str]


class WhereInvalid(PayhookError):
    def __init__(self, key: str, problem: str) -> None:
        self.key = key
        self.problem = problem
        super().__init__(f"{key}: {problem}")


@dataclass(frozen=True, slots=True)
class HeaderFilter:
    """``terms``: patterns by header. An event is taken if each of these headers fits one of its patterns; without terms
    every event is.
    """

    terms: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def read(cls, table: Mapping[str, Patterns]) -> HeaderFilter:
        """
        :raises WhereInvalid: no event has such a header, or a pattern can't be read
        """
        unknown = sorted(table.keys() - set(HEADERS))
        if unknown:
            raise WhereInvalid(unknown[0], f"events have no such header; they have {', '.join(HEADERS)}")
        return cls(tuple((name, _read_patterns(name, table[name])) for name in HEADERS if name in table))

    @classmethod
    def from_text(cls, text: str) -> HeaderFilter:
        return cls.read(json.loads(text))

    @property
    def text(self) -> str:
        return json.dumps({name: list(patterns) for name, patterns in self.terms}, separators=(",", ":"))

    def __str__(self) -> str:
        return ", ".join(f"{name} = {' or '.join(patterns)}" for name, patterns in self.terms)

    def is_match(self, mode: str, tenant: str | None, zone: str | None, provider: str) -> bool:
        if not self.terms:
            return True
        values = {"mode": mode, "tenant": tenant or "", "zone": zone or "", "provider": provider}
        return all(_is_match(values[name], patterns) for name, patterns in self.terms)


EVERYTHING: Final = HeaderFilter()


def _is_match(value: str, patterns: Iterable[str]) -> bool:
    included, excluded = list[str](), list[str]()
    for pattern in patterns:
        (excluded if pattern.startswith(NOT) else included).append(pattern.removeprefix(NOT))
    if any(fnmatchcase(value, pattern) for pattern in excluded):
        return False
    return not included or any(fnmatchcase(value, pattern) for pattern in included)


def _read_patterns(name: str, given: Any) -> tuple[str, ...]:
    patterns = (given,) if isinstance(given, str) else tuple(given)
    if not 0 < len(patterns) <= PATTERNS_MAX:
        raise WhereInvalid(name, f"expected 1 to {PATTERNS_MAX} patterns, got {len(patterns)}")
    for pattern in patterns:
        _check_pattern(name, pattern)
    if name == "mode" and not any(_is_match(mode, patterns) for mode in ("live", "test")):
        raise WhereInvalid(name, f"{' or '.join(patterns)!r} fits neither live nor test: the stream would get nothing")
    return patterns


def _check_pattern(name: str, pattern: str) -> None:
    glob = pattern.removeprefix(NOT)
    if len(pattern) > PATTERN_CHARS_MAX or not pattern.isprintable():
        raise WhereInvalid(name, f"a pattern is printable text of {PATTERN_CHARS_MAX} characters at most")
    start = glob.find("[")
    while start >= 0:
        # As fnmatch reads it: a ] right behind [ or [! is one of the characters.
        end = glob.find("]", start + (3 if glob.startswith("[!", start) else 2))
        if end < 0:
            raise WhereInvalid(name, f"the [ in {pattern!r} is never closed: write [[] for the character itself")
        start = glob.find("[", end)
