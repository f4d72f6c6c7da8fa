"""Tables whose cells are shown as they are: data that looks like markup stays data."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text


def row(table: Table, *values: object) -> None:
    """Adds a row; None is an empty cell."""
    table.add_row(*(Text("" if value is None else str(value)) for value in values))
