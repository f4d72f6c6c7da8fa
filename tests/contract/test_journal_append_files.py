"""Files that somebody else wrote are committed as rows are: on a disk and on an object store."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from journal.append import Appender, RowsRefused
from journal.storage import DiskStorage, open_storage
from tests.contract.test_journal_append import made, read, rows
from tests.object_store.fixtures import EVERYWHERE, place_on

DISKS = [Path("/dev/shm"), Path("/tmp"), Path("/var/tmp")]


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return made(place_on(request, tmp_path))


def staged(folder: Path, name: str, table: pa.Table) -> Path:
    pq.write_table(table, folder / name, row_group_size=2)
    return folder / name


def data_files(path: str) -> list[str]:
    return [one.name for one in open_storage(path).files() if one.name.endswith(".parquet")]


@EVERYWHERE
def test_their_rows_are_there_in_one_commit_and_the_files_are_gone(path: str, tmp_path: Path) -> None:
    files = [staged(tmp_path, "a", rows(1, 2, 3, name=["x", None, "z"])), staged(tmp_path, "b", rows(7))]
    assert Appender.open(path).append_files(files) == 1
    assert read(path) == [1, 2, 3, 7]
    assert read(path, pc.field("name") == "z") == [3]
    pruned = DeltaTable(path).to_pyarrow_dataset(file_pruning_predicate="n = 7").get_fragments()
    assert len(list(pruned)) == 1, "the log says what is in them"
    assert not any(one.exists() for one in files)
    assert Appender.open(path).append(rows(8)) == 2


@EVERYWHERE
def test_a_file_that_does_not_fit_is_refused_before_anything_is_written(path: str, tmp_path: Path) -> None:
    fits = staged(tmp_path, "fits", rows(1))
    for number, wrong in enumerate(
        (pa.table({"n": pa.array([1, None])}), pa.table({"name": ["a"]}), pa.table({"n": pa.array([1], pa.int32())}))
    ):
        with pytest.raises(RowsRefused, match="n must not be NULL|other types than n"):
            Appender.open(path).append_files([fits, staged(tmp_path, f"wrong-{number}", wrong)])
    assert fits.exists()
    assert (DeltaTable(path).version(), data_files(path)) == (0, [])


def test_where_each_row_must_be_checked_files_are_refused(path: str, tmp_path: Path) -> None:
    DeltaTable(path).alter.add_constraint({"small": "n < 10"})
    appender = Appender.open(path, checks={"small": lambda table: pc.less(table["n"], 10)})
    with pytest.raises(RowsRefused, match="constraints"):
        appender.append_files([staged(tmp_path, "a", rows(1))])


def test_a_file_of_another_disk_is_taken_in_whole(tmp_path: Path) -> None:
    others = [disk for disk in DISKS if disk.is_dir() and disk.stat().st_dev != tmp_path.stat().st_dev]
    if not others:
        pytest.skip("there is one disk only")
    staged = others[0] / f"payhook-{tmp_path.name}"
    staged.write_bytes(b"rows")
    DiskStorage(tmp_path).adopt_file(staged, "part.parquet")
    assert not staged.exists()
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("part.parquet", b"rows")]
