"""A calendar week as ISO 8601 counts them: ``2026-W47`` begins on a Monday, at midnight UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from core.errors import PayhookError

_TEXT = re.compile(r"(\d{4})-?W(\d{2})", re.ASCII)
DAYS = 7


class WeekInvalid(PayhookError):
    """A text that names no week."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"{text!r} is no week: write 2026-W47")


@dataclass(frozen=True, slots=True)
class Week:
    """``start`` is its first moment, UTC."""

    start: datetime

    @property
    def end(self) -> datetime:
        """The first moment after it."""
        return self.start + timedelta(days=DAYS)

    @property
    def name(self) -> str:
        year, number, _ = self.start.isocalendar()
        return f"{year}-W{number:02}"

    def holds(self, moment: datetime) -> bool:
        return self.start <= moment < self.end

    @classmethod
    def named(cls, text: str) -> Week:
        """
        :raises WeekInvalid: there is no such week
        """
        found = _TEXT.fullmatch(text)
        try:
            if found is None:
                raise ValueError
            return cls(datetime.fromisocalendar(int(found[1]), int(found[2]), 1).replace(tzinfo=UTC))
        except ValueError:
            raise WeekInvalid(text) from None

    @classmethod
    def of(cls, moment: datetime) -> Week:
        """The week that a moment is in."""
        year, number, _ = moment.astimezone(UTC).isocalendar()
        return cls(datetime.fromisocalendar(year, number, 1).replace(tzinfo=UTC))

    def before(self) -> Week:
        return Week(self.start - timedelta(days=DAYS))

    def after(self) -> Week:
        return Week(self.end)
