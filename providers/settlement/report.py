"""A settlement report: what one is, its lines, and its file, read once from its beginning in bounded memory.

A file is read, or refused with line and column. Where a record begins is known only from the file's start, because a
quoted value may hold line breaks; so do the line numbers and the hash that name the evidence. So it is read in one
pass, not split.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

from core.card_numbers import quote_masked
from core.errors import PayhookError
from core.money import Money, MoneyFact, MoneyInvalid, Movement
from providers.money import PAYOUTS, decimal_money_of

ALWAYS: frozenset[Movement] = frozenset(set(Movement) - PAYOUTS - {Movement.FEE})
"""Movements of which a report has lines in any case. Payouts are in some files and not in others, and fees are amounts
of other lines: they are compared as sums.
"""
TO_US = frozenset({Movement.CAPTURE, Movement.REFUND_FAILED, Movement.DISPUTE_WON, Movement.PAYOUT_FAILED})
"""Movements that bring money to us where their amount is above zero."""
LINE_BYTES_MAX = 1 << 20
"""A report's lines have some hundred bytes; what is longer isn't text."""
HEADER_CHARS_SHOWN = 120
TEXT_CHARS_MAX = 40
"""The most characters of a wrong value that an error text shows."""

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
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class ReportUnreadable(PayhookError):
    def __init__(self, name: str, title: str, problem: str) -> None:
        self.name = name
        self.title = title
        self.problem = problem
        super().__init__(f"{name} isn't {title}: {problem}. Nothing was compared")


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


class ReportRow:
    __slots__ = ("_header", "_values", "line")

    def __init__(self, header: Header, line: int, values: Sequence[str]) -> None:
        self._header = header
        self._values = values
        self.line = line

    def has_column(self, column: str) -> bool:
        return column in self._header.at

    def optional_text(self, column: str) -> str:
        at = self._header.at.get(column)
        return "" if at is None else self._values[at].strip()

    def text(self, column: str) -> str:
        """
        :raises RowUnreadable: empty, or no such column
        """
        value = self.optional_text(column)
        if not value:
            raise self.build_error(
                column, "is empty" if self.has_column(column) else "isn't in the file, and this line needs it"
            )
        return value

    def money(self, amount: str, currency: str) -> Money:
        """Reads a decimal amount in its currency, exactly.

        :raises RowUnreadable: names the one of both that is wrong
        """
        code = self.text(currency)
        if len(code) != _CURRENCY_CHARS or not (code.isascii() and code.isalpha()):
            raise self.build_error(currency, f"{quote_masked(code, TEXT_CHARS_MAX)} isn't a currency's three letters")
        try:
            return decimal_money_of(self.text(amount), code)
        except MoneyInvalid as invalid:
            raise self.build_error(amount, invalid.problem) from None

    def parse_moment(self, column: str, zone: str = "UTC") -> datetime:
        """Reads a date and time; in ``zone`` where it doesn't name its own.

        :raises RowUnreadable: no such time
        """
        value = self.text(column)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise self.build_error(column, f"{quote_masked(value, TEXT_CHARS_MAX)} isn't a date and time") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone(timedelta(hours=_HOURS_BY_ZONE[zone])))
        try:
            return moment.astimezone(UTC)
        except OverflowError:
            raise self.build_error(column, f"{quote_masked(value, TEXT_CHARS_MAX)} is beyond all calendars") from None

    def parse_zone(self, column: str) -> str:
        """Reads the name of a time zone; UTC where there is no such column.

        :raises RowUnreadable: one that isn't known, or that stands for several
        """
        name = self.optional_text(column).upper() or "UTC"
        if name not in _HOURS_BY_ZONE:
            problem = (
                f"the time zone {quote_masked(name, TEXT_CHARS_MAX)} isn't known here: have the report made in UTC"
            )
            raise self.build_error(column, problem)
        return name

    def build_error(self, column: str, problem: str) -> RowUnreadable:
        return RowUnreadable(self._header.name, self.line, self._header.titles[column], problem)


@dataclass(frozen=True, slots=True)
class SettlementLine:
    """A line about a movement of money. ``line`` is its number in the file, the header's is 1.

    ``fact`` is what the provider's adapter makes of the same movement's webhook, and ``entity_key`` the adapter's too;
    None where the file doesn't tell all that the adapter would know, so that the event can't be made from it.
    ``adds``: the line belongs to a fact that another line reports, and its amount is part of that one's.
    ``or_fact_key``: the name that the fact has instead where one object moves money several times.
    ``fee``: what the provider kept of it; below zero it was given back. None: nothing, or the file doesn't say.
    """

    line: int
    fact: MoneyFact
    occurred_at: datetime
    entity_key: str | None
    adds: bool = False
    or_fact_key: str | None = None
    fee: Money | None = None


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A line that the ledger has no movement for: fees, transfers, reserves. ``fee``: as of `SettlementLine`."""

    line: int
    category: str
    fee: Money | None = None


ReportLine: TypeAlias = SettlementLine | NotCompared


class SettlementReport(Protocol):
    """A kind of report of a provider, named as its adapter is. ``title`` is what the provider calls it.

    ``names_account``: whether each line names its account; if not, the person who gives the report must.
    ``columns``: our name of each column that is read, and what the provider may call it, in small letters;
    ``required``: those without which it isn't this report. ``wanted_to_repair``: what the file must hold for events to
    be made of its lines, in words.
    """

    provider: str
    title: str
    names_account: bool
    columns: Mapping[str, tuple[str, ...]]
    required: frozenset[str]
    wanted_to_repair: str

    def read(self, row: ReportRow) -> ReportLine:
        """
        :raises RowUnreadable: names line and column
        """


class Digest(Protocol):
    def update(self, part: bytes, /) -> None: ...


def read_report(path: Path, report: SettlementReport, digest: Digest) -> Iterator[ReportLine]:
    """Reads the report's lines in the file's order; blank ones are passed over.

    :param digest: takes all of the file's bytes in, so that after the last line it is the file's hash
    :raises ReportUnreadable: it isn't this report, or lacks columns
    :raises RowUnreadable: a line can't be read; those before it were handed out
    """
    with path.open("rb") as file:
        rows = csv.reader(_decode_lines(path.name, file, digest), strict=True)
        header: Header | None = None
        line = 1
        while (values := _read_next(rows, path.name, line)) is not None:
            if header is None:
                header = _parse_header(path.name, values, report)
                width = len(values)
            elif values:
                if len(values) != width:
                    problem = f"it has {len(values)} columns, the header has {width}"
                    raise RowUnreadable(path.name, line, None, problem)
                yield report.read(ReportRow(header, line, values))
            line = rows.line_num + 1
    if header is None:
        raise ReportUnreadable(path.name, report.title, "it is empty")


def _read_next(rows: Iterator[list[str]], name: str, line: int) -> list[str] | None:
    try:
        return next(rows)
    except StopIteration:
        return None
    except csv.Error as wrong:
        raise RowUnreadable(name, line, None, f"it isn't CSV ({wrong})") from wrong


def _decode_lines(name: str, file: BinaryIO, digest: Digest) -> Iterator[str]:
    """Decodes line by line, so that an error names the line that has another encoding."""
    number = 0
    while raw := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        digest.update(raw)
        if len(raw) > LINE_BYTES_MAX:
            raise RowUnreadable(name, number, None, f"it is longer than {LINE_BYTES_MAX} bytes")
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        if raw.startswith(_UTF16) or b"\0" in raw:
            raise RowUnreadable(name, number, None, "it isn't UTF-8 but looks like UTF-16; save it as UTF-8")
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError:
            raise RowUnreadable(name, number, None, "it isn't UTF-8; save the report as UTF-8") from None


def _parse_header(name: str, values: Sequence[str], report: SettlementReport) -> Header:
    given = [value.strip() for value in values]
    folded = [value.casefold() for value in given]
    if len(given) == 1 and (";" in given[0] or "\t" in given[0]):
        separator = "semicolons" if ";" in given[0] else "tabs"
        raise ReportUnreadable(name, report.title, f"its columns are separated by {separator}; expected commas")
    at, titles = {}, {}
    for column, alternatives in report.columns.items():
        places = [place for place, value in enumerate(folded) if value in alternatives]
        if len({folded[place] for place in places}) < len(places):
            raise ReportUnreadable(name, report.title, f"the column {given[places[0]]!r} is there twice")
        titles[column] = given[places[0]] if places else alternatives[0]
        if places:
            # Of two names for one column the one that is listed first says more.
            at[column] = min(places, key=lambda place: alternatives.index(folded[place]))
            titles[column] = given[at[column]]
    missing = [titles[column] for column in report.columns if column in report.required and column not in at]
    if missing:
        missing_titles = ", ".join(repr(title) for title in missing)
        first_line = quote_masked(",".join(given), HEADER_CHARS_SHOWN)
        raise ReportUnreadable(
            name, report.title, f"the columns {missing_titles} are missing; its first line is {first_line}"
        )
    return Header(name, at, titles)
