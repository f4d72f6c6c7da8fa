"""A table's rows for Arrow: the same as delta-rs's own, without Python beneath where the files are on a disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow.fs import LocalFileSystem, PyFileSystem, SubTreeFileSystem

from journal.reader import dataset_of
from tests.unit.test_imports import MAY_IMPORT, modules

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
