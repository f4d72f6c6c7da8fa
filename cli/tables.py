"""Tables whose cells are shown as they are: data that looks like markup stays data, what steers a terminal is named.

Keys and accounts are one word of several names. A cell that is too narrow breaks them between names, after ``:`` or
``/``, and a name only where it alone is wider than the cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from core.visible import visible_lines

CELL_CHARS_MAX = 20_000
_PIECE = re.compile(r"[^\s:/]*[:/]+|[^\s:/]+|\s+")


@dataclass(frozen=True, slots=True)
class Cell:
    """A text that rich renders into a cell."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = self.text.split("\n")
        if not options.no_wrap:
            lines = [part for line in lines for part in _broken(line, options.max_width)]
        yield Text("\n".join(lines))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        pieces = map(cell_len, _PIECE.findall(self.text))
        lines = map(cell_len, self.text.split("\n"))
        return Measurement(max(pieces, default=0), max(lines)).with_maximum(options.max_width)


def row(table: Table, *values: object) -> None:
    """Adds a row; None is an empty cell."""
    table.add_row(*(Cell("" if value is None else visible_lines(str(value), CELL_CHARS_MAX)) for value in values))


def _broken(line: str, width: int) -> Iterator[str]:
    """The line in parts of that width at most; at least one."""
    part = ""
    for piece in _PIECE.findall(line):
        if cell_len(part + piece.rstrip()) <= width:
            part += piece
            continue
        if part.strip():
            yield part.rstrip()
        *whole, part = chop_cells(piece.lstrip(), width) or [""]
        yield from whole
    yield part.rstrip()
