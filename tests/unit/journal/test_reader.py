"""Reading in seq order, whatever the files look like; and a table's rows for Arrow without Python beneath."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow.fs import LocalFileSystem, PyFileSystem, SubTreeFileSystem

from core.decision import Decision
from journal.errors import JournalBroken
from journal.reader import JournalReader, dataset_of, scan_rows
from journal.schema import JOURNAL_SCHEMA, stamp_rows, to_arrow
from tests.unit.journal.rows import row
from tests.unit.test_imports import MAY_IMPORT, modules

NEEDED = ["item_seq", "first", "topic", "partition", "offset", "decision", "decided_at"]


def table_of(path: Path, files: Sequence[Sequence[int]], configuration: dict[str, str | None] | None = None) -> str:
    """A journal's table whose files hold these seqs, in this order."""
    table = DeltaTable.create(str(path), JOURNAL_SCHEMA, configuration=configuration)
    for seqs in files:
        rows = [row(seq) for seq in seqs]
        stamp_rows(rows, 1, seqs[0])
        write_deltalake(table, to_arrow(rows), mode="append")
    return str(path)


def read(path: str, after: int = 0) -> list[int]:
    return [one.seq for rows in JournalReader(path).rows_after(after) for one in rows]


def test_files_that_overlap_are_read_in_order_in_windows_of_bounded_size(tmp_path: Path) -> None:
    """As compaction leaves them: any mixture of rows in any file."""
    seqs = list(range(1, 61))
    random.Random(5).shuffle(seqs)
    path = table_of(tmp_path / "journal", [seqs[:35], seqs[35:36], seqs[36:]])
    windows = list(scan_rows(DeltaTable(path), 0, rows_per_window=7))
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
    stamp_rows(rows, 1, 1)
    for some in (rows[3:], rows[:3]):
        write_deltalake(table, to_arrow(some), mode="append")
    reader = JournalReader(path)
    assert reader.applied_upto({"a": 1, "b": 4, "none": 1}) == {"a": 3}
    assert reader.applied_upto({"a": 3, "c": 7}) == {}
    assert reader.applied_upto({}) == {}


VALUES = ["plain", "x y", "ö%/z", "a=b", "c%20d", "q?#:;&+", "'\"", "1"]
ENDS_WHILE_READING = """
import sys
from deltalake import DeltaTable
from journal.reader import dataset_of
rows = dataset_of(DeltaTable(sys.argv[1]))
batches = rows.scanner(batch_size=100, batch_readahead=64, fragment_readahead=24).to_batches()
print(next(batches).num_rows)
"""


def table_in(folder: Path, files: int = 4, rows: int = 10) -> DeltaTable:
    for file in range(files):
        numbers = range(rows * file, rows * (file + 1))
        write_deltalake(str(folder), pa.table({"seq": pa.array(numbers, pa.int64())}), mode="append")
    return DeltaTable(str(folder))


def rows_of(dataset: ds.Dataset, by: str = "seq") -> list[dict[str, object]]:
    found: list[dict[str, object]] = dataset.to_table().sort_by(by).to_pylist()
    return found


def paths(dataset: ds.Dataset) -> list[str]:
    return sorted(fragment.path for fragment in dataset.get_fragments())


def test_a_disks_files_are_opened_without_python(tmp_path: Path) -> None:
    table = table_in(tmp_path / "t")
    systems = [fragment.filesystem for fragment in dataset_of(table).get_fragments()]
    assert [type(system) for system in systems] == [SubTreeFileSystem] * 4
    assert [type(system.base_fs) for system in systems] == [LocalFileSystem] * 4
    assert {type(fragment.filesystem) for fragment in table.to_pyarrow_dataset().get_fragments()} == {PyFileSystem}


@pytest.mark.parametrize("name", ["plain", "a b é#x?y+z~:;&=", "'quoted\"", "日本"])
def test_partitions_and_folders_may_be_named_by_any_character(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    write_deltalake(path, pa.table({"value": VALUES, "seq": range(len(VALUES))}), partition_by=["value"])
    own = DeltaTable(path).to_pyarrow_dataset()
    read = dataset_of(DeltaTable(path))
    assert read.schema == own.schema
    assert paths(read) == paths(own)
    assert rows_of(read) == rows_of(own)
    assert [row["value"] for row in rows_of(read)] == VALUES
    for value in VALUES:
        one = dataset_of(DeltaTable(path), file_pruning_predicate=[("value", "=", value)])
        assert [row["value"] for row in rows_of(one)] == [value]
        assert len(paths(one)) == 1


@pytest.mark.parametrize("path", ["t", "./t/", "../here/t"])
def test_a_table_may_be_named_from_where_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    table_in(Path("t"))
    table = DeltaTable(path)
    monkeypatch.chdir(tmp_path)
    assert len(rows_of(dataset_of(table))) == 40


def test_a_link_to_a_table_is_followed(tmp_path: Path) -> None:
    table_in(tmp_path / "t")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    assert len(rows_of(dataset_of(DeltaTable(str(tmp_path / "link"))))) == 40


@pytest.mark.parametrize(
    ("predicate", "files"), [(None, 4), ("seq >= 15 AND seq < 21", 2), ("seq > 99", 0), ([("seq", "<", 10)], 1)]
)
def test_files_are_passed_over_as_delta_rs_does(tmp_path: Path, predicate: str | None, files: int) -> None:
    table = table_in(tmp_path / "t")
    read = dataset_of(table, file_pruning_predicate=predicate)
    assert paths(read) == paths(table.to_pyarrow_dataset(file_pruning_predicate=predicate))
    assert len(paths(read)) == files


def test_the_version_that_the_table_is_open_at_is_read(tmp_path: Path) -> None:
    table = table_in(tmp_path / "t", files=2)
    table_in(tmp_path / "t", files=1)
    assert len(rows_of(dataset_of(table))) == 20


def test_a_file_that_went_away_meanwhile_is_an_os_error(tmp_path: Path) -> None:
    """Maintenance takes files away beside readers, who look again; each catches it as that."""
    table = table_in(tmp_path / "t")
    read = dataset_of(table)
    (tmp_path / "t" / paths(read)[0]).unlink()
    with pytest.raises(FileNotFoundError):
        read.to_table()


def test_a_process_ends_as_it_meant_to_while_arrow_reads_ahead(tmp_path: Path) -> None:
    table_in(tmp_path / "t", files=24, rows=20_000)
    checkout = Path(__file__).parents[3]
    ended = subprocess.run(
        [sys.executable, "-c", ENDS_WHILE_READING, str(tmp_path / "t")],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (0, "100\n"), ended.stderr


def test_nobody_takes_another_way_in() -> None:
    """Nor through Python beneath: what `journal.reader.dataset_of` says of it."""
    ways = ("to_pyarrow_dataset", "to_pyarrow_table", "to_pandas")
    others = {
        str(path)
        for package in MAY_IMPORT
        for path in modules(package)
        for way in ways
        if f".{way}(" in path.read_text("utf-8") and path.parts[-2:] != ("journal", "reader.py")
    }
    assert others == set()
