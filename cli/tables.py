"""Prints tables and texts for people. Every table fits its terminal, and what steers a terminal is named instead.

Keys and accounts are one word of several names. A cell that is too narrow breaks after a blank, ``:`` or ``/``; where
that isn't enough, after ``.``, ``_``, ``-`` or ``@``. A table that still doesn't fit is printed record by record.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence

import click
from rich.cells import cell_len, chop_cells

from core.visible import make_visible, visible_lines

CELL_CHARS_MAX = 20_000
GAP = 2
OWN_LINE = 2
NAME_CHARS_MAX = 24
_PIECE = re.compile(r"(?:[^\s:/]|(?<=\d):(?=\d))+[:/]*|[:/]+|\s+")
_SMALL_PIECE = re.compile(r"(?:[^\s:/._@-]|(?<=\d)[:.-](?=\d))+[:/._@-]*|[:/._@-]+|\s+")
"""Times, dates and numbers are whole."""


class PrintedTable:
    """Prints rows of values under names. ``right``: the columns of numbers; ``title`` stands above it."""

    def __init__(self, *names: str, right: Sequence[str] = (), title: str = "") -> None:
        self._names = names
        self._right = frozenset(right)
        self._title = title
        self._rows: list[list[str]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *values: object) -> None:
        cells = ["" if value is None else visible_lines(str(value), CELL_CHARS_MAX) for value in values]
        self._rows.append(cells + [""] * (len(self._names) - len(cells)))

    def print(self, indent: int = 0) -> None:
        if not self._rows:
            return
        if self._title:
            print_heading(self._title)
        self._drop_empty()
        lines = self._as_table(indent) or self._as_records(indent)
        click.echo("\n".join(lines))

    def _drop_empty(self) -> None:
        kept = [column for column in range(len(self._names)) if any(row[column] for row in self._rows)]
        self._names = tuple(self._names[column] for column in kept)
        self._rows = [[row[column] for column in kept] for row in self._rows]

    def _as_table(self, indent: int) -> list[str]:
        widths = self._fit_widths(_count_columns() - indent)
        if widths is None:
            return []
        lines = [click.style(line, bold=True) for line in self._lines(list(self._names), widths, indent)]
        return lines + [line for cells in self._rows for line in self._lines(cells, widths, indent)]

    def _fit_widths(self, available: int) -> list[int] | None:
        columns = [[name, *column] for name, *column in zip(self._names, *self._rows, strict=True)]
        most = [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in columns]
        for pattern in (_PIECE, _SMALL_PIECE):
            least = [self._find_least_width(*column, pattern=pattern) for column in columns]
            spare = available - GAP * (len(columns) - 1) - sum(least)
            if spare >= 0:
                return _share_width(least, most, spare)
        return None

    def _find_least_width(self, name: str, *cells: str, pattern: re.Pattern[str]) -> int:
        of_name = max(map(cell_len, name.split()), default=0)
        cut = str.splitlines if name in self._right else pattern.findall
        pieces = (piece for cell in cells for piece in cut(cell))
        return max([of_name, *(cell_len(piece.rstrip()) for piece in pieces)])

    def _lines(self, cells: Sequence[str], widths: Sequence[int], indent: int) -> Iterator[str]:
        broken = [wrap_text(cell, width) for cell, width in zip(cells, widths, strict=True)]
        for number in range(max(map(len, broken))):
            parts = []
            for name, lines, width in zip(self._names, broken, widths, strict=True):
                text = lines[number] if number < len(lines) else ""
                blanks = " " * (width - cell_len(text))
                parts.append(blanks + text if name in self._right else text + blanks)
            yield " " * indent + (" " * GAP).join(parts).rstrip()

    def _as_records(self, indent: int) -> list[str]:
        lines = []
        for cells in self._rows:
            lines += [*_detail_lines(list(zip(self._names, cells, strict=True)), indent), ""]
        return lines[:-1]


def print_heading(text: str) -> None:
    click.secho("\n".join(wrap_text(make_visible(text), _count_columns())), bold=True)


def print_details(details: Iterable[tuple[str, str | None]], title: str = "") -> None:
    shown = [(make_visible(name), visible_lines(text, CELL_CHARS_MAX)) for name, text in details if text is not None]
    if shown and title:
        print_heading(title)
    for line in _detail_lines(shown, 2 if title else 0):
        click.echo(line)


def print_text(text: str, chars_max: int, indent: int = 2) -> None:
    for line in wrap_text(visible_lines(text.rstrip(), chars_max), _count_columns() - indent):
        click.echo(" " * indent + line)


def wrap_text(text: str, width: int) -> list[str]:
    return [part for line in text.split("\n") for part in _break_line(line, max(width, 1))]


def _detail_lines(details: Sequence[tuple[str, str]], indent: int) -> Iterator[str]:
    names = max((cell_len(name) for name, text in details if text and cell_len(name) <= NAME_CHARS_MAX), default=0)
    width = _count_columns() - indent - names - GAP
    for name, text in details:
        if not text:
            continue
        if cell_len(name) > NAME_CHARS_MAX or _measure_widest_piece(text) > width:
            # A hash is whole on a line of its own.
            yield from (" " * indent + line for line in wrap_text(name, _count_columns() - indent))
            yield from (
                " " * (indent + OWN_LINE) + line for line in wrap_text(text, _count_columns() - indent - OWN_LINE)
            )
            continue
        first, *others = wrap_text(text, width)
        yield f"{' ' * indent}{name}{' ' * (names - cell_len(name) + GAP)}{first}".rstrip()
        yield from (f"{' ' * (indent + names + GAP)}{line}" for line in others)


def _measure_widest_piece(text: str) -> int:
    return max((cell_len(piece.rstrip()) for piece in _PIECE.findall(text)), default=0)


def _share_width(least: Sequence[int], most: Sequence[int], spare: int) -> list[int]:
    widths = list(least)
    ordered = sorted(range(len(least)), key=lambda at: most[at] - least[at])
    for done, column in enumerate(ordered):
        more = min(most[column] - least[column], spare // (len(ordered) - done))
        widths[column] += more
        spare -= more
    return widths


def _break_line(line: str, width: int) -> Iterator[str]:
    part = ""
    for piece in _PIECE.findall(line):
        if cell_len(part + piece.rstrip()) <= width:
            part += piece
            continue
        if part.strip():
            yield part.rstrip()
        part = piece.lstrip()
        if cell_len(part.rstrip()) > width:
            *lines, part = _break_name(part, width)
            yield from lines
    yield part.rstrip()


def _break_name(name: str, width: int) -> Iterator[str]:
    """Breaks a name that is wider than its cell after its own separators; within a part only where that is too wide."""
    part = ""
    for piece in _SMALL_PIECE.findall(name):
        if cell_len(part + piece.rstrip()) > width and part:
            yield part
            part = ""
        *parts, last = chop_cells(part + piece, width) or [""]
        yield from parts
        part = last
    yield part


def _count_columns() -> int:
    return shutil.get_terminal_size().columns
