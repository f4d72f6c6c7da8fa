"""A table is made once, and one of a form that no release wrote is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from journal.lake import TableOutdated, ensure_table

OLD = pa.schema([pa.field("line", pa.int64(), nullable=False)])
NEW = OLD.append(pa.field("pair", pa.string()))


def test_a_table_that_lacks_a_column_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    ensure_table(path, OLD, "table", {})
    with pytest.raises(TableOutdated, match=r"lacks the columns pair, .* begin with an empty one"):
        ensure_table(path, NEW, "table", {})
    assert DeltaTable(path).version() == 0
    ensure_table(path, OLD, "table", {})


def test_a_table_of_newer_code_is_taken_as_it_is(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    ensure_table(path, NEW, "table", {})
    ensure_table(path, OLD, "table", {})
    assert DeltaTable(path).version() == 0


def test_of_starters_that_make_it_at_once_none_fails(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ensure_table(path, NEW, "table", {}), range(4)))
    assert [field.name for field in DeltaTable(path).schema().fields] == ["line", "pair"]
