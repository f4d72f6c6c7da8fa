"""A table as cells of a CSV file that no spreadsheet calculates and every reader takes back as it was.

Texts are quoted (RFC 4180), numbers aren't. A text that a spreadsheet would take for a formula (CWE-1236) begins with
an apostrophe, and so does one that began with an apostrophe: whoever takes one leading apostrophe away has the text.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_MARK = "'"
_MARKED = r"\A[=+\-@\t\r\n']"


def cells(table: pa.Table, numbers: frozenset[str] = frozenset()) -> pa.Table:
    """Times as RFC 3339 in UTC, texts made safe; ``numbers`` are text columns of numbers, which stay as they are."""
    columns = [
        column if name in numbers else _cell(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


def _cell(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ")
    if not pa.types.is_string(column.type):
        return column
    marked = pc.binary_join_element_wise(_MARK, column, "")
    return pc.if_else(pc.match_substring_regex(column, _MARKED), marked, column)
