"""A report's file: read once from its beginning, in bounded memory, or refused with line and column.

Where a record begins is known only from the file's start, because a quoted value may hold line breaks; so do the
line numbers and the hash that name the evidence. A report is therefore read in one pass, not split.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from core.card_numbers import shown
from core.errors import PayhookError
from providers.settlement.port import ReportLine, SettlementReport
from providers.settlement.row import Header, Row, RowUnreadable

LINE_BYTES_MAX = 1 << 20
"""A report's lines have some hundred bytes; what is longer isn't text."""
HEADER_CHARS_SHOWN = 120

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class ReportUnreadable(PayhookError):
    """The file isn't the report that it is said to be."""

    def __init__(self, name: str, title: str, problem: str) -> None:
        self.name = name
        self.title = title
        self.problem = problem
        super().__init__(f"{name} isn't {title}: {problem}. Nothing was compared")


class Digest(Protocol):
    """What `hashlib.sha256` returns."""

    def update(self, part: bytes, /) -> None: ...


def read_report(path: Path, report: SettlementReport, digest: Digest) -> Iterator[ReportLine]:
    """The report's lines in the file's order; blank ones are passed over.

    :param digest: takes all of the file's bytes in, so that after the last line it is the file's hash
    :raises ReportUnreadable: it isn't this report, or lacks columns
    :raises RowUnreadable: a line can't be read; those before it were handed out
    """
    with path.open("rb") as file:
        rows = csv.reader(_texts(path.name, file, digest), strict=True)
        header: Header | None = None
        line = 1
        while (values := _next(rows, path.name, line)) is not None:
            if header is None:
                header = _header(path.name, values, report)
                width = len(values)
            elif values:
                if len(values) != width:
                    problem = f"it has {len(values)} columns, the header has {width}"
                    raise RowUnreadable(path.name, line, None, problem)
                yield report.read(Row(header, line, values))
            line = rows.line_num + 1
    if header is None:
        raise ReportUnreadable(path.name, report.title, "it is empty")


class _Rows(Protocol):
    def __next__(self) -> list[str]: ...


def _next(rows: _Rows, name: str, line: int) -> list[str] | None:
    try:
        return next(rows)
    except StopIteration:
        return None
    except csv.Error as wrong:
        raise RowUnreadable(name, line, None, f"it isn't CSV ({wrong})") from wrong


def _texts(name: str, file: BinaryIO, digest: Digest) -> Iterator[str]:
    """The lines as texts, each looked at: one line in another encoding is found where it stands."""
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


def _header(name: str, values: Sequence[str], report: SettlementReport) -> Header:
    """
    :raises ReportUnreadable: other separators, or columns that are missing or there twice
    """
    given = [value.strip() for value in values]
    folded = [value.casefold() for value in given]
    if len(given) == 1 and (";" in given[0] or "\t" in given[0]):
        separator = "semicolons" if ";" in given[0] else "tabs"
        raise ReportUnreadable(name, report.title, f"its columns are separated by {separator}; commas are wanted")
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
        wanted = ", ".join(repr(title) for title in missing)
        there = shown(",".join(given), HEADER_CHARS_SHOWN)
        raise ReportUnreadable(name, report.title, f"the columns {wanted} are missing; its first line is {there}")
    return Header(name, at, titles)
