"""Appends to Delta tables, as delta-rs reads them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from hypothesis import given
from hypothesis import strategies as st

from core.decision import Decision
from core.location import location_of, make_folder
from journal.append import ROWS_PER_GROUP, Appender, RowsRefused, TableUnfit
from journal.checkpoints import COMMITS, _read_errors
from journal.log import (
    AppTransaction,
    NotCommitted,
    OutcomeUnknown,
    Overtaken,
    entry_name,
    last_checkpoint,
    list_numbers,
)
from journal.schema import JOURNAL_SCHEMA, TIMESTAMP, stamp_rows
from journal.storage import DiskStorage, open_storage
from journal.table import CHECKS, create_table
from tests.object_store.fixtures import EVERYWHERE, place_on
from tests.unit.journal.rows import row

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("at", TIMESTAMP),
        pa.field("sure", pa.bool_()),
    ]
)
AT = datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return made(place_on(request, tmp_path))


def made(path: str) -> str:
    make_folder(path)
    DeltaTable.create(path, SCHEMA, configuration={"delta.appendOnly": "true"})
    return path


def rows(*numbers: int, **columns: list[Any]) -> pa.Table:
    count = len(numbers)
    nothing = {"name": [None] * count, "at": [None] * count, "sure": [None] * count}
    return pa.table({"n": list(numbers), **nothing, **columns}, schema=SCHEMA)


def read(path: str, where: pc.Expression | None = None) -> list[int]:
    return sorted(DeltaTable(path).to_pyarrow_dataset().to_table(filter=where)["n"].to_pylist())


def entry(path: str, version: int) -> Path:
    return Path(path, "_delta_log", f"{version:020}.json")


def test_rows_are_read_as_they_were_given(path: str) -> None:
    appender = Appender.open(path)
    given = rows(1, 2, name=["größer", None], at=[AT, None], sure=[True, None])
    assert appender.append(given) == 1
    assert DeltaTable(path).to_pyarrow_dataset().to_table().to_pylist() == given.to_pylist()


def test_a_commit_says_what_it_was_reported_and_how_far_the_application_is(path: str) -> None:
    Appender.open(path).append(None, AppTransaction("app", 7), {"payhook.mark": "7"})
    info, txn = map(json.loads, open_storage(path).read(entry_name(1)).splitlines())
    assert info["commitInfo"]["payhook.mark"] == "7"
    assert txn == {"txn": {"appId": "app", "version": 7}}
    assert DeltaTable(path).transaction_version("app") == 7


def test_columns_that_rows_lack_read_as_null(path: str) -> None:
    Appender.open(path).append(pa.table({"n": [1]}, schema=pa.schema([SCHEMA.field("n")])))
    [one] = DeltaTable(path).to_pyarrow_dataset().to_table().to_pylist()
    assert one == {"n": 1, "name": None, "at": None, "sure": None}


def test_many_rows_are_written_in_groups_of_which_readers_skip_some(tmp_path: Path) -> None:
    path = made(str(tmp_path / "table"))
    Appender.open(path).append(rows(*range(2 * ROWS_PER_GROUP + 1)))
    [file] = DeltaTable(path).file_uris()
    metadata = pq.read_metadata(file)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [ROWS_PER_GROUP, ROWS_PER_GROUP, 1]
    assert [group.column(0).statistics.min for group in groups] == [0, ROWS_PER_GROUP, 2 * ROWS_PER_GROUP]


TEXTS = st.none() | st.text(max_size=100) | st.text("\U0010ffff\ud7ffab", min_size=60, max_size=70)
TIMES = st.none() | st.integers(-(10**15), 10**16).map(lambda micros: pa.scalar(micros, TIMESTAMP).as_py())


@given(
    files=st.lists(
        st.lists(st.tuples(TEXTS, TIMES, st.none() | st.booleans()), min_size=1, max_size=4), min_size=1, max_size=4
    )
)
def test_a_search_finds_every_row_whatever_files_say_of_themselves(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[tuple[Any, Any, Any]]]
) -> None:
    path = made(str(tmp_path_factory.mktemp("search") / "table"))
    appender = Appender.open(path)
    number = 0
    known: dict[int, tuple[Any, Any, Any]] = {}
    for one in files:
        numbers = list(range(number, number + len(one)))
        names, times, sure = map(list, zip(*one, strict=True))
        appender.append(rows(*numbers, name=names, at=times, sure=sure))
        known |= dict(zip(numbers, one, strict=True))
        number += len(one)
    appender.append(pa.table({"n": [number]}, schema=pa.schema([SCHEMA.field("n")])))
    known[number] = (None, None, None)
    DeltaTable(path).create_checkpoint()
    for at, field in enumerate(("name", "at", "sure")):
        for value in {found[at] for found in known.values()} - {None}:
            wanted = [n for n, found in known.items() if found[at] == value]
            assert read(path, pc.field(field) == pa.scalar(value, SCHEMA.field(field).type)) == wanted
        assert read(path, pc.field(field).is_null()) == [n for n, found in known.items() if found[at] is None]


def test_files_without_what_is_sought_are_skipped(path: str) -> None:
    appender = Appender.open(path)
    for n in range(4):
        appender.append(rows(n, name=[f"name {n}"], at=[AT + timedelta(days=n)]))
    for predicate in ("n = 2", "name = 'name 2'", "at = '2026-02-02T12:00:00.123456Z'"):
        assert len(list(DeltaTable(path).to_pyarrow_dataset(file_pruning_predicate=predicate).get_fragments())) == 1


# what the table demands


def test_null_where_none_may_be_is_refused_and_nothing_is_written(path: str) -> None:
    appender = Appender.open(path)
    for wrong in (pa.table({"n": pa.array([1, None])}), pa.table({"name": ["a"]})):
        with pytest.raises(RowsRefused, match="n must not be NULL"):
            appender.append(wrong)
    with pytest.raises(RowsRefused, match="no columns"):
        appender.append(pa.table({"n": [1], "other": [1]}))
    with pytest.raises(RowsRefused, match="other types than n"):
        appender.append(pa.table({"n": pa.array([1], pa.int32())}))
    assert DeltaTable(path).version() == 0 and not list(Path(path).glob("*.parquet"))
    appender.append(rows(1))


JOURNAL_ROWS = [
    row(1),
    row(2, decision=Decision.DEAD, attempt=3),
    row(1, attempt=-1),
    row(0),
    row(2, item_seq=0),
    row(2, item_seq=3),
    row(3, item_seq=2),
    row(1, decision="delivered"),
]


@pytest.mark.parametrize("number", range(len(JOURNAL_ROWS)))
def test_a_row_of_the_journal_is_taken_just_where_delta_itself_takes_it(tmp_path: Path, number: int) -> None:
    table = stamp_rows([JOURNAL_ROWS[number]], 1, 1)

    def takes(write: Any, name: str) -> bool:
        create_table(str(tmp_path / name), "ledger")
        try:
            write(str(tmp_path / name))
        except (RowsRefused, DeltaError):
            return False
        return True

    here = takes(lambda path: Appender.open(path, checks=CHECKS).append(table), "here")
    assert here == takes(lambda path: write_deltalake(path, table, mode="append"), "delta") == (number in (0, 1, 6))


def test_a_constraint_that_cannot_be_checked_here_is_no_reason_to_write_on(path: str) -> None:
    DeltaTable(path).alter.add_constraint({"small": "n < 10"})
    with pytest.raises(TableUnfit, match="small"):
        Appender.open(path)
    appender = Appender.open(path, checks={"small": lambda table: pc.less(table["n"], 10)})
    with pytest.raises(RowsRefused, match="small"):
        appender.append(rows(1, 11))


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 1, "minWriterVersion": 5},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "rowTracking"]},
    ],
)
def test_a_table_that_asks_for_more_than_is_done_here_is_refused(path: str, protocol: dict[str, Any]) -> None:
    entry(path, 1).write_text(json.dumps({"protocol": protocol}), "utf-8")
    with pytest.raises(TableUnfit, match="rowTracking|version 5"):
        Appender.open(path)


def test_a_partitioned_table_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), SCHEMA, partition_by=["name"])
    with pytest.raises(TableUnfit, match="partitioned"):
        Appender.open(str(tmp_path))


# beside others


@EVERYWHERE
def test_of_appenders_that_race_each_commit_is_there_once(path: str) -> None:
    count, each = 4, 25 if isinstance(location_of(path), Path) else 5
    together = threading.Barrier(count)

    def append(first: int) -> None:
        appender = Appender.open(path)
        together.wait()
        for n in range(first, first + each):
            appender.append(rows(n))

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(append, range(0, count * each, each)))
    assert DeltaTable(path).version() == count * each
    assert read(path) == list(range(count * each))


@EVERYWHERE
def test_what_delta_commits_meanwhile_is_passed_over_and_appends_go_on(path: str) -> None:
    appender = Appender.open(path)
    for n in range(6):
        appender.append(rows(n))
        if n % 2:
            DeltaTable(path).optimize.compact()
            write_deltalake(path, rows(100 + n), mode="append")
    assert read(path) == [0, 1, 2, 3, 4, 5, 101, 103, 105]


@EVERYWHERE
def test_a_change_of_the_table_ends_an_appender(path: str) -> None:
    appender = Appender.open(path)
    appender.append(rows(1))
    DeltaTable(path).alter.add_constraint({"small": "n < 10"})
    for _ in range(2):
        with pytest.raises(Overtaken, match="metadata"):
            appender.append(rows(11))
    assert read(path) == [1]
    assert len(list(open_storage(path).files())) == 1, "the refused file is gone again"


@EVERYWHERE
def test_the_same_application_elsewhere_ends_an_appender_another_one_does_not(path: str) -> None:
    one, other, third = (Appender.open(path) for _ in range(3))
    one.append(rows(1), AppTransaction("a", 1))
    other.append(rows(2), AppTransaction("b", 1))
    with pytest.raises(Overtaken, match="concurrent transaction of a"):
        third.append(rows(3), AppTransaction("a", 1))
    assert read(path) == [1, 2]


def test_a_commit_whose_success_was_not_reported_is_known_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a network's file system does it, that tries again after its first try came through."""
    put_new = DiskStorage.put_new

    def twice(storage: DiskStorage, name: str, data: bytes) -> None:
        put_new(storage, name, data)
        put_new(storage, name, data)

    appender = Appender.open(path)
    monkeypatch.setattr(DiskStorage, "put_new", twice)
    assert [appender.append(rows(n), AppTransaction("a", n)) for n in (1, 2)] == [1, 2]
    assert read(path) == [1, 2]


def test_a_torn_entry_of_somebody_else_is_not_passed_over(path: str) -> None:
    appender = Appender.open(path)
    entry(path, 1).write_text('{"commitInfo":', "utf-8")
    with pytest.raises(OutcomeUnknown, match="can't be read"):
        appender.append(rows(1))


@EVERYWHERE
def test_an_entry_that_was_cleaned_away_is_not_written_again(path: str) -> None:
    """An append to a number before the last checkpoint would be there and be seen by nobody."""
    stale, live = Appender.open(path), Appender.open(path)
    for n in range(3):
        live.append(rows(n))
    DeltaTable(path).create_checkpoint()
    for version in range(3):
        open_storage(path).delete([entry_name(version)])
    with pytest.raises(NotCommitted, match="commit 1"):
        stale.append(rows(9))
    assert list_numbers(open_storage(path)) == [3]
    live.append(rows(3))
    assert read(path) == [0, 1, 2, 3]


def test_a_last_checkpoint_that_cannot_be_read_stops_an_append(path: str) -> None:
    appender = Appender.open(path)
    Path(path, "_delta_log", "_last_checkpoint").write_text("{", "utf-8")
    with pytest.raises(NotCommitted, match="last checkpoint"):
        appender.append(rows(1))


def test_where_nothing_can_be_written_the_error_says_so(path: str) -> None:
    appender = Appender.open(path)
    log = Path(path, "_delta_log")
    log.rename(Path(path, "gone"))
    with pytest.raises(FileNotFoundError):
        appender.append(rows(1))
    Path(path, "gone").rename(log)
    assert read(path) == []


# checkpoints


@EVERYWHERE
def test_checkpoints_are_made_beside_and_readers_begin_with_them(path: str) -> None:
    appender = Appender.open(path)
    for n in range(COMMITS + 5):
        appender.append(rows(n), AppTransaction("a", n))
    appender.checkpoints.wait(30)
    assert COMMITS <= last_checkpoint(open_storage(path)) <= COMMITS + 5
    for version in range(COMMITS):
        open_storage(path).delete([entry_name(version)])
    assert read(path) == list(range(COMMITS + 5))
    appender.append(rows(1_000), AppTransaction("a", 1_000))
    assert DeltaTable(path).transaction_version("a") == 1_000


def test_writers_that_never_live_long_make_one_too(path: str) -> None:
    for first in range(0, COMMITS + 20, 20):
        appender = Appender.open(path)
        for n in range(first, first + 20):
            appender.append(rows(n))
        appender.checkpoints.wait(30)
    assert Path(path, "_delta_log", "_last_checkpoint").exists()


def test_a_checkpoint_that_fails_is_reported_and_appends_go_on(path: str, caplog: pytest.LogCaptureFixture) -> None:
    appender = Appender.open(path)
    Path(path, "_delta_log", f"{COMMITS:020}.checkpoint.parquet").mkdir()
    for n in range(COMMITS + 1):
        appender.append(rows(n))
        appender.checkpoints.wait(30)
    assert "no checkpoint could be made" in caplog.text
    assert read(path) == list(range(COMMITS + 1))


@pytest.mark.parametrize(
    ("executable", "reported"), [("/no/python", "No such file"), ("/bin/false", "it ended with 1")]
)
def test_checkpoints_are_made_again_once_their_process_can_run(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, executable: str, reported: str
) -> None:
    monkeypatch.setattr("journal.checkpoints.SHARE_MAX", 1e9)
    appender = Appender.open(path)
    with monkeypatch.context() as broken:
        broken.setattr("sys.executable", executable)
        for n in range(COMMITS):
            appender.append(rows(n))
        appender.checkpoints.wait(30)
    assert reported in caplog.text
    assert not Path(path, "_delta_log", "_last_checkpoint").exists()
    for n in range(COMMITS, 2 * COMMITS):
        appender.append(rows(n))
    appender.checkpoints.wait(30)
    assert last_checkpoint(open_storage(path)) >= 2 * COMMITS - 1


WAITS_TO_BE_SLOW = """
import os, sys, time
until = time.monotonic() + 10
while os.getpriority(os.PRIO_PROCESS, 0) != 19:
    if time.monotonic() > until:
        sys.exit("it goes beside the writer")
sys.exit("it waits for the writer")
"""


def test_a_checkpoints_process_waits_for_its_writer() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS_TO_BE_SLOW], stderr=subprocess.PIPE, text=True) as process:
        assert _read_errors(process) == ["it waits for the writer"]


def test_the_journals_schema_is_taken_whole(tmp_path: Path) -> None:
    create_table(str(tmp_path), "ledger")
    table = stamp_rows([row(1, received_at=AT), row(2, reason="x" * 10_000)], 1, 1)
    Appender.open(str(tmp_path), checks=CHECKS).append(table)
    read_again = DeltaTable(str(tmp_path)).to_pyarrow_dataset().to_table().select(JOURNAL_SCHEMA.names)
    assert read_again.sort_by("seq").to_pylist() == table.to_pylist()
