"""Tables whose cells are shown as they are: data that looks like markup stays data, what steers a terminal is named."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from core.visible import visible_lines

CELL_CHARS_MAX = 20_000


def row(table: Table, *values: object) -> None:
    """Adds a row; None is an empty cell."""
    table.add_row(*(Text("" if value is None else visible_lines(str(value), CELL_CHARS_MAX)) for value in values))
