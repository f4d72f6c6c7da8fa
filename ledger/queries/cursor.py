"""The end of a page of rows or postings, as a text: the next page begins there, whatever was decided meanwhile."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from core.clock import from_micros, to_micros
from core.errors import PayhookError

_TEXT = re.compile(r"\d{1,18}(?:~\d{1,18}){1,2}~[a-z0-9.-]{0,64}", re.ASCII)
_MICROS_MAX = 253_402_300_800_000_000
"""The end of the year 9999."""


class CursorInvalid(PayhookError):
    def __init__(self, cursor: str) -> None:
        self.cursor = cursor
        super().__init__("the cursor isn't one that a page gave as `next`: begin without one")


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last row of a page: when it was decided, its ``seq`` (and line), and whose journal has it."""

    at: datetime
    numbers: tuple[int, ...]
    stream: str

    @classmethod
    def read(cls, given: str, numbers: int) -> Self:
        """
        :raises CursorInvalid: no page gave it
        """
        parts = given.split("~")
        if not _TEXT.fullmatch(given) or len(parts) != numbers + 2 or int(parts[0]) >= _MICROS_MAX:
            raise CursorInvalid(given)
        return cls(from_micros(int(parts[0])), tuple(map(int, parts[1:-1])), parts[-1])

    @property
    def text(self) -> str:
        return "~".join([str(to_micros(self.at)), *map(str, self.numbers), self.stream])
