"""One line of a report: strict reading of its columns, with errors that name line and column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from core.card_numbers import shown
from core.errors import PayhookError
from core.money import Money, MoneyInvalid
from providers.fields import decimal_money_of

TEXT_CHARS_MAX = 40
"""Of a wrong value in an error text."""

_CURRENCY_CHARS = 3
_ZONES_BY_HOURS = {
    -8: "PST",
    -7: "PDT MST",
    -6: "MDT CST",
    -5: "CDT EST",
    -4: "EDT",
    -3: "BRT",
    0: "UTC GMT WET",
    1: "CET WEST BST",
    2: "CEST EET",
    3: "EEST",
    8: "SGT HKT",
    9: "JST",
    10: "AEST",
    11: "AEDT",
    12: "NZST",
    13: "NZDT",
}
_HOURS_BY_ZONE = {zone: hours for hours, zones in _ZONES_BY_HOURS.items() for zone in zones.split()}
"""Hours before UTC, of the names that reports use; one that stands for several zones (IST) is none of them."""


class RowUnreadable(PayhookError):
    """A line of the report can't be read. ``column`` is None where it isn't about one."""

    def __init__(self, name: str, line: int, column: str | None, problem: str) -> None:
        self.name = name
        self.line = line
        self.column = column
        self.problem = problem
        at = f"line {line}" if column is None else f"line {line}, column {column!r}"
        super().__init__(f"{name}, {at}: {problem}. Nothing was compared; export the report again, or mend that line")


@dataclass(frozen=True, slots=True)
class Header:
    """A report's columns by our names. ``at``: their places; ``titles``: what the file, or its provider, calls them."""

    name: str
    at: Mapping[str, int]
    titles: Mapping[str, str]


class Row:
    """The values of one line by our names of the columns."""

    __slots__ = ("_header", "_values", "line")

    def __init__(self, header: Header, line: int, values: Sequence[str]) -> None:
        self._header = header
        self._values = values
        self.line = line

    def has(self, column: str) -> bool:
        """Whether the file has such a column at all."""
        return column in self._header.at

    def optional(self, column: str) -> str:
        """Empty where there is nothing, or no such column."""
        at = self._header.at.get(column)
        return "" if at is None else self._values[at].strip()

    def text(self, column: str) -> str:
        """
        :raises RowUnreadable: empty, or no such column
        """
        found = self.optional(column)
        if not found:
            raise self.wrong(column, "is empty" if self.has(column) else "isn't in the file, and this line needs it")
        return found

    def money(self, amount: str, currency: str) -> Money:
        """A decimal amount in its currency, exactly.

        :raises RowUnreadable: names the one of both that is wrong
        """
        code = self.text(currency)
        if len(code) != _CURRENCY_CHARS or not (code.isascii() and code.isalpha()):
            raise self.wrong(currency, f"{shown(code, TEXT_CHARS_MAX)} isn't a currency's three letters")
        try:
            return decimal_money_of(self.text(amount), code)
        except MoneyInvalid as invalid:
            raise self.wrong(amount, invalid.problem) from None

    def moment(self, column: str, zone: str = "UTC") -> datetime:
        """A date and time; in ``zone`` where it doesn't name its own.

        :raises RowUnreadable: no such time
        """
        found = self.text(column)
        try:
            moment = datetime.fromisoformat(found)
        except ValueError:
            raise self.wrong(column, f"{shown(found, TEXT_CHARS_MAX)} isn't a date and time") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone(timedelta(hours=_HOURS_BY_ZONE[zone])))
        try:
            return moment.astimezone(UTC)
        except OverflowError:
            raise self.wrong(column, f"{shown(found, TEXT_CHARS_MAX)} is beyond all calendars") from None

    def zone(self, column: str) -> str:
        """The name of a time zone; UTC where there is no such column.

        :raises RowUnreadable: one that isn't known, or that stands for several
        """
        found = self.optional(column).upper() or "UTC"
        if found not in _HOURS_BY_ZONE:
            problem = f"the time zone {shown(found, TEXT_CHARS_MAX)} isn't known here: have the report made in UTC"
            raise self.wrong(column, problem)
        return found

    def wrong(self, column: str, problem: str) -> RowUnreadable:
        """The error to raise about a column."""
        return RowUnreadable(self._header.name, self.line, self._header.titles[column], problem)
