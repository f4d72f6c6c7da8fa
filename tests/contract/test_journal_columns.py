"""On real Delta, tables of newer code are written on, and tables of a form that no release wrote are refused."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from journal.errors import JournalBroken, JournalOutdated
from journal.reader import JournalReader
from journal.schema import JOURNAL_SCHEMA, LATER_COLUMNS, JournalRow
from journal.table import CONFIGURATION, CONSTRAINTS, DECISION_IS_KNOWN, create_table
from journal.writer import JournalWriter
from tests.unit.journal.rows import STARTS, begin_journal, marks, row, row_hash


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal")


def begun(path: str) -> JournalWriter:
    writer = JournalWriter(path, "ledger")
    writer.begin_epoch(STARTS)
    return writer


def read(path: str, columns: list[str] | None = None) -> list[JournalRow]:
    return [one for rows in JournalReader(path).rows_after(0, columns) for one in rows]


@pytest.mark.parametrize("name", ["seq", "tenant", "history", "postings"])
def test_a_table_that_lacks_a_column_is_refused_and_says_what_to_do(path: str, name: str) -> None:
    DeltaTable.create(path, JOURNAL_SCHEMA.remove(JOURNAL_SCHEMA.get_field_index(name)))
    for opens in (lambda: create_table(path, "ledger"), lambda: JournalReader(path)):
        with pytest.raises(JournalOutdated, match=rf"lacks the columns {name}, .* begin with an empty one"):
            opens()
    assert DeltaTable(path).version() == 0


def test_a_table_whose_constraint_knows_fewer_decisions_is_refused(path: str) -> None:
    table = DeltaTable.create(path, JOURNAL_SCHEMA, configuration=CONFIGURATION)
    table.alter.add_constraint({DECISION_IS_KNOWN: "decision IN ('applied', 'ignored')"})
    with pytest.raises(JournalOutdated, match="lacks the decisions .*dead"):
        create_table(path, "ledger")


def test_starters_that_race_complete_a_table_without_constraints(path: str) -> None:
    DeltaTable.create(path, JOURNAL_SCHEMA, configuration=CONFIGURATION)
    starters = 4
    together = threading.Barrier(starters)

    def complete(_: int) -> None:
        together.wait()
        create_table(path, "ledger")

    with ThreadPoolExecutor(starters) as pool:
        list(pool.map(complete, range(starters)))
    configured = DeltaTable(path).metadata().configuration
    assert {f"delta.constraints.{name}" for name in CONSTRAINTS} <= configured.keys()


def test_old_code_writes_on_in_a_table_of_newer_code(path: str) -> None:
    """After a step back to the release before: what it doesn't know stays NULL, and hashes hold."""
    create_table(path, "ledger")
    newer = [Field("risk_score", PrimitiveType("long")), Field("channel", PrimitiveType("string"))]
    DeltaTable(path).alter.add_columns(newer)
    writer = begin_journal(path)
    writer.commit([row(1), row(2)], marks(2), 0)
    table = DeltaTable(path).to_pyarrow_dataset().to_table()
    assert table["risk_score"].null_count == 2
    assert [one.row_hash for one in read(path)] == [row_hash(one) for one in read(path)]


def test_a_column_of_another_type_is_refused(path: str) -> None:
    at = JOURNAL_SCHEMA.get_field_index("tenant")
    DeltaTable.create(path, JOURNAL_SCHEMA.set(at, pa.field("tenant", pa.int64())))
    with pytest.raises(JournalBroken, match="tenant"):
        create_table(path, "ledger")


def test_a_table_of_newer_code_with_a_column_that_must_be_filled_is_refused(path: str) -> None:
    DeltaTable.create(path, JOURNAL_SCHEMA.append(pa.field("shard", pa.int32(), nullable=False)))
    with pytest.raises(JournalBroken, match="shard"):
        create_table(path, "ledger")


def test_every_later_column_may_be_null() -> None:
    assert all(JOURNAL_SCHEMA.field(name).nullable for name in LATER_COLUMNS)
