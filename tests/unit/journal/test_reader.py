"""Reading in seq order, whatever the files look like."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from core.decision import Decision
from journal.errors import JournalBroken
from journal.reader import JournalReader, scan
from journal.schema import JOURNAL_SCHEMA, stamped, to_arrow
from tests.unit.journal.rows import row

NEEDED = ["item_seq", "first", "topic", "partition", "offset", "decision", "decided_at"]


def table_of(path: Path, files: Sequence[Sequence[int]], configuration: dict[str, str | None] | None = None) -> str:
    """A journal's table whose files hold these seqs, in this order."""
    table = DeltaTable.create(str(path), JOURNAL_SCHEMA, configuration=configuration)
    for seqs in files:
        rows = [row(seq) for seq in seqs]
        stamped(rows, 1, seqs[0])
        write_deltalake(table, to_arrow(rows), mode="append")
    return str(path)


def read(path: str, after: int = 0) -> list[int]:
    return [one.seq for rows in JournalReader(path).rows_after(after) for one in rows]


def test_files_that_overlap_are_read_in_order_in_windows_of_bounded_size(tmp_path: Path) -> None:
    """As compaction leaves them: any mixture of rows in any file."""
    seqs = list(range(1, 61))
    random.Random(5).shuffle(seqs)
    path = table_of(tmp_path / "journal", [seqs[:35], seqs[35:36], seqs[36:]])
    windows = list(scan(DeltaTable(path), 0, rows_per_window=7))
    assert [seq for rows in windows for seq in rows["seq"].to_pylist()] == list(range(1, 61))
    assert {rows.num_rows for rows in windows} == {7, 4}
    assert read(path) == list(range(1, 61))
    assert read(path, after=58) == [59, 60]
    assert read(path, after=60) == []


def test_an_empty_journal_has_no_rows(tmp_path: Path) -> None:
    path = table_of(tmp_path / "journal", [])
    assert (read(path), JournalReader(path).last_seq, JournalReader(path).row_hash_at(1)) == ([], 0, None)


def test_files_without_statistics_are_read_all_the_same(tmp_path: Path) -> None:
    path = table_of(tmp_path / "journal", [[3, 4], [1, 2]], {"delta.dataSkippingNumIndexedCols": "0"})
    assert read(path, after=1) == [2, 3, 4]


def test_a_reader_stays_at_its_version(tmp_path: Path) -> None:
    path = table_of(tmp_path / "journal", [[1, 2]])
    reader = JournalReader(path)
    write_deltalake(path, to_arrow([row(3)]), mode="append")
    assert [one.seq for rows in reader.rows_after(0) for one in rows] == [1, 2]
    assert (reader.last_seq, JournalReader(path).last_seq) == (2, 3)


@pytest.mark.parametrize("files", [[[1, 2, 4]], [[1, 2], [2, 3]], [[2, 3]]], ids=["missing", "twice", "first missing"])
def test_a_seq_that_is_not_there_once_is_an_error(tmp_path: Path, files: list[list[int]]) -> None:
    path = table_of(tmp_path / "journal", files)
    with pytest.raises(JournalBroken):
        read(path)


def test_a_lost_file_is_an_error(tmp_path: Path) -> None:
    path = table_of(tmp_path / "journal", [[1, 2], [3, 4]])
    next((tmp_path / "journal").glob("*.parquet")).unlink()
    with pytest.raises(JournalBroken):
        read(path)


def test_columns_may_be_left_out(tmp_path: Path) -> None:
    path = table_of(tmp_path / "journal", [[1, 2]])
    [[first, _]] = JournalReader(path).rows_after(0, NEEDED)
    assert (first.seq, first.event_key, first.row_hash) == (1, None, "")


def test_the_hash_of_any_row_can_be_had(tmp_path: Path) -> None:
    path = table_of(tmp_path / "journal", [[1, 2], [3]])
    [rows] = JournalReader(path).rows_after(0)
    assert [JournalReader(path).row_hash_at(one.seq) for one in rows] == [one.row_hash for one in rows]


def test_what_was_applied_after_an_item_is_found_by_entity(tmp_path: Path) -> None:
    """A later row of an earlier item isn't a later item; what was ignored isn't applied."""
    path = str(tmp_path / "journal")
    table = DeltaTable.create(path, JOURNAL_SCHEMA)
    rows = [
        row(1, decision=Decision.IGNORED, entity_key="a"),
        row(2, entity_key="a"),
        row(3, entity_key="a"),
        row(4, decision=Decision.IGNORED, entity_key="b"),
        row(5, decision=Decision.IGNORED, entity_key="b"),
        row(6, item_seq=1, first=False, entity_key="a"),
        row(7, entity_key="c"),
    ]
    stamped(rows, 1, 1)
    for some in (rows[3:], rows[:3]):
        write_deltalake(table, to_arrow(some), mode="append")
    reader = JournalReader(path)
    assert reader.applied_upto({"a": 1, "b": 4, "none": 1}) == {"a": 3}
    assert reader.applied_upto({"a": 3, "c": 7}) == {}
    assert reader.applied_upto({}) == {}
