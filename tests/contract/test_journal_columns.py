"""Columns that came later: on real Delta, old tables are taken on without a rewrite, and newer ones are written on."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

import journal.writer
from journal.errors import Fenced, JournalBroken
from journal.reader import JournalReader
from journal.schema import JOURNAL_SCHEMA, LATER_COLUMNS, JournalRow, stamped
from journal.table import CONFIGURATION, CONSTRAINTS, create_table
from journal.writer import JournalWriter
from tests.unit.journal.rows import STARTS, marks, row, row_hash

OLD_SCHEMA = pa.schema([field for field in JOURNAL_SCHEMA if field.name not in LATER_COLUMNS])


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal")


def old_table(path: str) -> DeltaTable:
    """As it was made before the later columns."""
    table = DeltaTable.create(path, OLD_SCHEMA, configuration=CONFIGURATION)
    for name, expression in CONSTRAINTS.items():
        table.alter.add_constraint({name: expression})
    return table


class OldCode:
    """Within, the writer knows the old columns only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __enter__(self) -> None:
        self._patch.setattr(journal.writer, "stamped", lambda *given: stamped(*given).select(OLD_SCHEMA.names))

    def __exit__(self, *_: object) -> None:
        self._patch.setattr(journal.writer, "stamped", stamped)


def begun(path: str) -> JournalWriter:
    writer = JournalWriter(path, "ledger")
    writer.begin_epoch(STARTS)
    return writer


def read(path: str, columns: list[str] | None = None) -> list[JournalRow]:
    return [one for rows in JournalReader(path).rows_after(0, columns) for one in rows]


def actions(path: str, version: int) -> list[dict[str, Any]]:
    text = Path(path, "_delta_log", f"{version:020}.json").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def files(path: str) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in Path(path).glob("*.parquet")}


def test_an_old_table_gets_the_later_columns_by_a_commit_of_metadata_alone(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_table(path)
    with OldCode(monkeypatch):
        begun(path).commit([row(1), row(2)], marks(2), 0)
    before, version = files(path), DeltaTable(path).version()
    create_table(path, "ledger")
    assert DeltaTable(path).version() == version + 1
    assert {name for action in actions(path, version + 1) for name in action} == {"commitInfo", "metaData"}
    assert files(path) == before
    create_table(path, "ledger")
    assert DeltaTable(path).version() == version + 1, "there was nothing more to add"


def test_old_rows_read_as_they_were_and_keep_their_hashes_beside_new_ones(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_table(path)
    with OldCode(monkeypatch):
        old = begun(path)
        old.commit([row(1), row(2)], marks(2), 0)
    writer = JournalWriter.create_or_open(path, "ledger")
    state = writer.begin_epoch(STARTS)
    assert (state.epoch, state.next_seq, state.marks) == (2, 3, marks(2))
    writer.commit([row(3, tenant="shop-a", original_sha256="ab" * 32)], marks(3), 0)
    rows = read(path)
    assert [(one.seq, one.tenant) for one in rows] == [(1, None), (2, None), (3, "shop-a")]
    assert [one.row_hash for one in rows] == [row_hash(one) for one in rows]
    DeltaTable(path).optimize.compact()
    assert read(path) == rows


def test_a_writer_of_old_code_is_fenced_off_for_good_as_soon_as_columns_are_added(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_table(path)
    with OldCode(monkeypatch):
        old = begun(path)
        old.commit([row(1)], marks(1), 0)
        create_table(path, "ledger")
        for _ in range(2):
            with pytest.raises(Fenced):
                old.commit([row(2)], marks(2), 0)
    new = begun(path)
    new.commit([row(2)], marks(2), 0)
    with OldCode(monkeypatch), pytest.raises(Fenced):
        old.commit([row(2)], marks(2), 0)
    assert [one.seq for one in read(path)] == [1, 2]


def test_the_state_is_that_of_the_last_batch_after_columns_were_added(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_table(path)
    with OldCode(monkeypatch):
        begun(path).commit([row(1)], marks(1), 0)
    before = JournalReader(path).state()
    create_table(path, "ledger")
    after = JournalReader(path).state()
    assert (after.epoch, after.marks, after.chain) == (before.epoch, before.marks, before.chain)


def test_a_reader_of_new_code_reads_an_old_table_that_nobody_has_opened_yet(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_table(path)
    with OldCode(monkeypatch):
        begun(path).commit([row(1)], marks(1), 0)
    needed = ["item_seq", "first", "topic", "partition", "offset", "decision", "decided_at"]
    [one] = read(path, [*needed, "tenant", "reason"])
    assert (one.seq, one.tenant) == (1, None)
    assert read(path)[0].row_hash == row_hash(read(path)[0])


def test_starters_of_new_code_that_race_for_an_old_table_complete_it(path: str) -> None:
    old_table(path)
    starters = 4
    together = threading.Barrier(starters)

    def complete(_: int) -> None:
        together.wait()
        create_table(path, "ledger")

    with ThreadPoolExecutor(starters) as pool:
        list(pool.map(complete, range(starters)))
    names = [field.name for field in DeltaTable(path).schema().fields]
    assert sorted(names) == sorted(JOURNAL_SCHEMA.names)
    begun(path).commit([row(1, zone="eu")], marks(1), 0)
    assert [one.zone for one in read(path)] == ["eu"]


def test_old_code_writes_on_in_a_table_of_newer_code(path: str) -> None:
    """After a step back to the release before: what it doesn't know stays NULL, and hashes hold."""
    create_table(path, "ledger")
    newer = [Field("risk_score", PrimitiveType("long")), Field("channel", PrimitiveType("string"))]
    DeltaTable(path).alter.add_columns(newer)
    writer = JournalWriter.create_or_open(path, "ledger")
    writer.begin_epoch(STARTS)
    writer.commit([row(1), row(2)], marks(2), 0)
    table = DeltaTable(path).to_pyarrow_dataset().to_table()
    assert table["risk_score"].null_count == 2
    assert [one.row_hash for one in read(path)] == [row_hash(one) for one in read(path)]


@pytest.mark.parametrize("name", ["seq", "decision", "postings"])
def test_a_table_that_lacks_another_column_is_refused(path: str, name: str) -> None:
    DeltaTable.create(path, JOURNAL_SCHEMA.remove(JOURNAL_SCHEMA.get_field_index(name)))
    with pytest.raises(JournalBroken, match=name):
        create_table(path, "ledger")


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
