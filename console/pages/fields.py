"""Reads a form's fields, and says of each that can't be read why."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import TypeVar

from starlette.datastructures import FormData, QueryParams

from core.errors import PayhookError

TEXT_CHARS_MAX = 500
CHOICES_MAX = 50

Value = TypeVar("Value")


class Fields:
    """The fields of one request. ``problems`` has a sentence for each field that isn't as it should be.

    A field that is empty, or isn't there, is None.
    """

    def __init__(self, given: QueryParams | FormData) -> None:
        self._given = given
        self.problems: dict[str, str] = {}

    def text(self, name: str, chars_max: int = TEXT_CHARS_MAX) -> str | None:
        value = self._given.get(name)
        value = value.strip() if isinstance(value, str) else ""
        if len(value) > chars_max:
            self.wrong(name, f"at most {chars_max} characters are taken")
            return None
        return value or None

    def number(self, name: str, least: int, most: int) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) < 20 and least <= int(value) <= most):
            self.wrong(name, f"a whole number from {least:,} to {most:,} is wanted")
            return None
        return int(value)

    def moment(self, name: str, read: Callable[[str], datetime]) -> datetime | None:
        """``read`` is one of `core.moments`."""
        return self.read(name, read)

    def read(self, name: str, read: Callable[[str], Value]) -> Value | None:
        """What ``read`` makes of the text; its own error is the problem."""
        value = self.text(name)
        try:
            return None if value is None else read(value)
        except PayhookError as wrong:
            self.wrong(name, str(wrong))
            return None

    def choice(self, name: str, among: Collection[str]) -> str | None:
        value = self.text(name)
        if value is not None and value not in among:
            self.wrong(name, f"one of these is wanted: {', '.join(among)}")
            return None
        return value

    def choices(self, name: str, among: Collection[str] | None = None) -> tuple[str, ...]:
        """A field that may be given several times."""
        values = [value for value in self._given.getlist(name) if isinstance(value, str) and value]
        if len(values) > CHOICES_MAX or any(len(value) > TEXT_CHARS_MAX for value in values):
            self.wrong(name, f"at most {CHOICES_MAX} of at most {TEXT_CHARS_MAX} characters are taken")
            return ()
        if among is not None and not set(values) <= set(among):
            self.wrong(name, f"these are wanted: {', '.join(among)}")
            return ()
        return tuple(dict.fromkeys(values))

    def listed(self, name: str) -> list[str]:
        """Every value of a field, however many there are: who asks has a limit of its own."""
        return [value for value in self._given.getlist(name) if isinstance(value, str)]

    def given(self, name: str, chars_max: int = TEXT_CHARS_MAX) -> str:
        """The field as it came: what the form shows again."""
        value = self._given.get(name)
        return value[:chars_max] if isinstance(value, str) else ""

    def wrong(self, name: str, problem: str) -> None:
        """Says what is wrong with a field; the first word counts."""
        self.problems.setdefault(name, problem)
