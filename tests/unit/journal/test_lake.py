"""A table that older code made gets the columns that it lacks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from journal.append import Appender
from journal.lake import ensure_table

OLD = pa.schema([pa.field("line", pa.int64(), nullable=False)])
NEW = OLD.append(pa.field("pair", pa.string()))


def test_older_rows_read_as_null_in_the_columns_that_came_later(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    ensure_table(path, OLD, "table", {"delta.appendOnly": "true"})
    Appender.open(path).append(pa.Table.from_pylist([{"line": 1}], OLD))
    ensure_table(path, NEW, "table", {})
    Appender.open(path).append(pa.Table.from_pylist([{"line": 2, "pair": "other"}], NEW))
    rows = DeltaTable(path).to_pyarrow_table().sort_by("line").to_pylist()
    assert rows == [{"line": 1, "pair": None}, {"line": 2, "pair": "other"}]
    before = DeltaTable(path).version()
    ensure_table(path, NEW, "table", {})
    assert DeltaTable(path).version() == before


def test_of_starters_that_add_a_column_at_once_none_fails(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    ensure_table(path, OLD, "table", {})
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ensure_table(path, NEW, "table", {}), range(4)))
    assert [field.name for field in DeltaTable(path).schema().fields] == ["line", "pair"]
