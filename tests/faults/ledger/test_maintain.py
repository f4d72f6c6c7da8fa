"""Maintenance on real Spark and Delta: readers see the same, the writer goes on, and any end leaves tables whole."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from core.clock import ManualClock
from core.decision import Decision
from core.routing import journal_topic
from journal.errors import Fenced
from journal.index import Index
from journal.reader import JournalReader
from journal.rewrite import take_snapshot
from journal.writer import JournalWriter
from ledger.maintain.compact import RowsDiffer, rewrite_files
from ledger.maintain.job import count_log_entries, maintain
from ledger.maintain.retention import list_data_files
from ledger.maintain.tables import MAINTAIN, StreamTables, open_staging
from ledger.queries.balances import sum_balances
from ledger.queries.story import read_event_story
from operations.orders import DeltaView
from tests.integration.ledger.lakes import Lake, job, verified
from tests.unit.journal.rows import STARTS, event_count, marks, row, sha

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.under(tmp_path)


def reported(lake: Lake, folder: Path) -> dict[str, Any]:
    """What each of the lake's readers says."""
    journal, postings = str(lake.tables.journal), str(lake.tables.postings)
    reader = JournalReader(journal)
    key = f"stripe:evt_{lake.seq // 2}:charge.succeeded"
    index = Index.open(folder, 1)
    index.catch_up(reader, lake.bodies)
    known = (index.seq, event_count(index), index.open_count(), [item.body for item in index.open_items()])
    index.close()
    view = DeltaView(lake.tables.journal, "payments.control")
    return {
        "rows": [one for rows in reader.rows_after(0) for one in rows],
        "later rows": [one for rows in reader.rows_after(lake.seq - 7) for one in rows],
        "tables": [table for one in reader.tables_after(5, ["seq", "row_hash"]) for table in one.to_pylist()],
        "picked": reader.rows_of([3, 17, lake.seq]),
        "hash": reader.row_hash_at(9),
        "story": read_event_story(journal, postings, key),
        "balances": sum_balances(postings),
        "view": (view.last_rows([5, 6]), view.command_row("none")),
        "bodies": lake.bodies.fetch([sha(f"body {n}") for n in range(0, lake.seq, 7)]),
        "index": known,
        "verified": verified(lake),
    }


def ends(lake: Lake) -> list[tuple[int, int]]:
    files = take_snapshot(lake.tables.journal, "seq").files
    return sorted((one.first, one.last) for one in files if one.first is not None and one.last is not None)


def test_every_reader_sees_the_same_before_and_after(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    lake.commits(30)
    lake.commit(
        decision=Decision.RETRY, due_at=datetime.now(UTC), event_key="stripe:evt_open:charge.succeeded", count=1
    )
    lake.commits(9)
    before = reported(lake, tmp_path / "index-1")
    report = maintain([lake.tables], job(spark))
    assert [(one.table, one.files_before, one.files_after, one.problem) for one in report.tables] == [
        ("journal", 40, 1, None),
        ("bodies", 40, 1, None),
        ("postings", 39, 1, None),
    ]
    assert all(one.bytes_after < one.bytes_before and one.log_after == 0 for one in report.tables)
    assert reported(lake, tmp_path / "index-2") == before
    assert not list(tmp_path.rglob(MAINTAIN))


def test_a_window_of_seq_reads_no_more_files_than_it_lies_in(spark: SparkSession, lake: Lake) -> None:
    for _ in range(12):
        lake.commit(count=300)
    maintain([lake.tables], job(spark, file_rows=1_500))
    lasts = ends(lake)
    assert len(lasts) < 12
    assert all(one[1] < following[0] for one, following in itertools.pairwise(lasts)), "ranges lie apart"
    table = DeltaTable(str(lake.tables.journal))
    files = table.to_pyarrow_dataset(file_pruning_predicate="seq >= 5 AND seq < 9")
    assert len(list(files.get_fragments())) == 1


def test_what_is_large_enough_is_not_touched_again(spark: SparkSession, lake: Lake) -> None:
    lake.commits(10, count=100)
    maintain([lake.tables], job(spark))
    names = take_snapshot(lake.tables.journal).names
    lake.commits(9)
    report = maintain([lake.tables], job(spark))
    assert names < take_snapshot(lake.tables.journal).names
    assert report.tables[0].files_after == 2


def test_a_few_small_files_are_not_worth_a_rewrite_nor_a_session(lake: Lake) -> None:
    def nobody() -> SparkSession:
        raise AssertionError("Spark was started for nothing")

    lake.commits(7)
    work = job(None)  # type: ignore[arg-type]
    work.session._open = nobody
    report = maintain([lake.tables], work)
    assert report.ok and [one.files_after for one in report.tables] == [7, 7, 7]


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(spark: SparkSession, lake: Lake) -> None:
    lake.commits(20)
    versions = [DeltaTable(str(one.path)).version() for one in lake.tables.list_tables()]
    report = maintain([lake.tables], job(spark, dry_run=True))
    assert report.dry_run and [one.files_after for one in report.tables] == [1, 1, 1]
    assert [DeltaTable(str(one.path)).version() for one in lake.tables.list_tables()] == versions


# beside the writer


def test_the_writer_commits_to_every_table_all_the_while(spark: SparkSession, lake: Lake) -> None:
    lake.commits(60)
    before = lake.seq
    with lake.committing():
        reports = [maintain([lake.tables], job(spark)) for _ in range(3)]
    assert all(report.ok for report in reports), reports
    assert lake.seq > before + 20, "next to nothing was committed meanwhile"
    assert [one.seq for rows in JournalReader(str(lake.tables.journal)).rows_after(0) for one in rows] == list(
        range(1, lake.seq + 1)
    )
    assert len(lake.bodies.fetch([sha(f"body {n}") for n in range(lake.seq)])) == lake.seq
    assert verified(lake)


def test_a_stale_writer_is_refused_after_maintenance_too(spark: SparkSession, lake: Lake) -> None:
    lake.commits(10)
    successor = JournalWriter.create_or_open(str(lake.tables.journal), "ledger")
    successor.begin_epoch(STARTS)
    assert all(one.problem is None for one in maintain([lake.tables], job(spark)).tables)
    for _ in range(2):
        with pytest.raises(Fenced):
            lake.commit()
    successor.commit([row(21), row(22)], marks(22), 0)


def test_a_state_that_only_commits_tell_outlasts_maintenance_and_a_cleaned_log(spark: SparkSession, lake: Lake) -> None:
    lake.commits(10)
    state = JournalReader(str(lake.tables.journal)).state()
    maintain([lake.tables], job(spark))
    log = Path(lake.tables.journal) / "_delta_log"
    for entry in log.glob("0*.json"):
        os.utime(entry, (0, 0))
    DeltaTable(str(lake.tables.journal)).cleanup_metadata()
    after = JournalReader(str(lake.tables.journal)).state()
    assert (after.published_upto, after.notes, after.epoch) == (state.published_upto, state.notes, state.epoch)
    assert state.notes and state.published_upto
    lake.commit()


def test_a_stream_that_reads_the_journal_gets_every_row_once(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """From the files that rows were committed in, also when those were replaced before it came to them."""
    version = DeltaTable(str(lake.tables.journal)).version()
    lake.commits(5)
    read = [*streamed(spark, lake, version, tmp_path)]
    lake.commits(10)
    maintain([lake.tables], job(spark))
    lake.commits(2)
    maintain([lake.tables], job(spark))
    read += streamed(spark, lake, version, tmp_path)
    assert (len(read), sorted(read)) == (lake.seq, list(range(1, lake.seq + 1)))


def streamed(spark: SparkSession, lake: Lake, version: int, folder: Path) -> list[int]:
    """What a streaming query takes until it has everything; it goes on where the last one stopped."""
    rows = spark.readStream.format("delta").option("startingVersion", version + 1).load(str(lake.tables.journal))
    taken: list[int] = []

    def take(batch: DataFrame, _: int) -> None:
        taken.extend(one["seq"] for one in batch.select("seq").collect())

    query = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    return taken


# old files


def age(folder: Path, hours: float) -> None:
    at = time.time() - hours * 3_600
    for file in folder.glob("*.parquet"):
        os.utime(file, (at, at))


def test_replaced_files_stay_for_readers_that_began_before_and_go_after_the_retention(
    spark: SparkSession, lake: Lake
) -> None:
    lake.commits(10)
    journal = Path(lake.tables.journal)
    pinned = JournalReader(str(journal))
    age(journal, 30)
    report = maintain([lake.tables], job(spark))
    assert report.tables[0].freed_files == 0, "they were replaced a moment ago, however old they are"
    assert [one.seq for rows in pinned.rows_after(0) for one in rows] == list(range(1, 21))
    assert len([*list_data_files(journal)]) == len(take_snapshot(journal).files) + 10


def test_files_that_were_replaced_long_enough_ago_and_orphans_leave_the_disk(spark: SparkSession, lake: Lake) -> None:
    lake.commits(10)
    journal = Path(lake.tables.journal)
    earlier = ManualClock(datetime.now(UTC) - timedelta(hours=25))
    maintain([lake.tables], job(spark, earlier))
    (journal / "part-00000-of-a-crash.parquet").write_bytes(b"torn")
    age(journal, 26)
    (journal / "part-00000-in-flight.parquet").write_bytes(b"being written")
    report = maintain([lake.tables], job(spark)).tables[0]
    assert (report.problem, report.freed_files) == (None, 11)
    assert (journal / "part-00000-in-flight.parquet").exists()
    assert verified(lake)


def test_files_stay_for_a_reading_stream_that_is_behind(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=40)
    lake.at = long_ago
    lake.commits(10)
    maintain([lake.tables], job(spark, ManualClock(long_ago + timedelta(hours=1))))
    age(Path(lake.tables.journal), 40)
    reading = reading_stream(tmp_path / "notify", taken=4)
    tables = StreamTables("ledger", lake.tables.journal, lake.tables.bodies, lake.tables.postings, (reading,))
    assert maintain([tables], job(spark)).tables[0].freed_files == 0
    caught_up = reading_stream(tmp_path / "other", taken=20)
    tables = StreamTables("ledger", lake.tables.journal, lake.tables.bodies, lake.tables.postings, (caught_up,))
    assert maintain([tables], job(spark)).tables[0].freed_files == 10


def reading_stream(path: Path, taken: int) -> Path:
    writer = JournalWriter.create_or_open(str(path), "notify")
    writer.begin_epoch({journal_topic("ledger", "shop"): {0: taken + 1}})
    return path


# what goes wrong


def test_what_is_wrong_with_one_table_costs_only_that_one(spark: SparkSession, lake: Lake) -> None:
    lake.commits(10)
    next(iter(Path(lake.tables.journal).glob("part-*.parquet"))).write_bytes(b"PAR1 torn")
    report = maintain([lake.tables], job(spark))
    journal, bodies, postings = report.tables
    assert not report.ok and journal.problem is not None
    assert (bodies.problem, bodies.files_after, postings.problem, postings.files_after) == (None, 1, None, 1)
    assert not list(Path(lake.tables.journal).glob(MAINTAIN))


def test_rows_that_are_not_those_that_the_log_tells_of_are_not_taken(spark: SparkSession, lake: Lake) -> None:
    """As when another file was put in one's place."""
    lake.commits(8)
    lake.commit(count=5)
    before = take_snapshot(lake.tables.journal, "seq")
    *small, larger = sorted(before.files, key=lambda one: one.first or 0)
    folder = Path(before.path)
    (folder / small[0].name).write_bytes((folder / larger.name).read_bytes())
    with pytest.raises(RowsDiffer, match="by the log"), open_staging(folder, MAINTAIN) as staged:
        rewrite_files(spark, before, small, ("seq",), staged)
    assert maintain([lake.tables], job(spark)).tables[0].files_after == 9


@pytest.mark.parametrize("moment", ["while a file is written", "between two commits"])
def test_a_kill_leaves_every_table_whole_and_the_next_run_does_the_rest(
    spark: SparkSession, lake: Lake, tmp_path: Path, moment: str
) -> None:
    for _ in range(60):
        lake.commit(count=50)
    versions = DeltaTable(str(lake.tables.journal)).version()
    env = {**os.environ, "PAYHOOK_DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "stack.rounds", "maintenance"]
    with subprocess.Popen(command, cwd=CHECKOUT, env={**env, "PYTHONPATH": str(CHECKOUT)}) as running:
        while not reached(moment, lake, versions):
            assert running.poll() is None, "it ended before it could be killed"
            time.sleep(0.001)
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert verified(lake)
    lake.commit()
    report = maintain([lake.tables], job(spark))
    assert report.ok and report.tables[0].files_after < 10
    assert verified(lake)
    assert not list(tmp_path.rglob(MAINTAIN))


def reached(moment: str, lake: Lake, version: int) -> bool:
    if moment == "between two commits":
        return (Path(lake.tables.journal) / "_delta_log" / f"{version + 1:020}.json").exists()
    return (Path(lake.tables.journal) / MAINTAIN).exists()


def test_what_a_killed_run_staged_is_removed_by_the_next_one_whatever_it_does(lake: Lake) -> None:
    staged = Path(lake.tables.journal) / MAINTAIN / "part-00000.parquet"
    lake.commit()
    staged.parent.mkdir()
    staged.write_bytes(b"half a file")
    assert maintain([lake.tables], job(None)).ok  # type: ignore[arg-type]
    assert not staged.parent.exists()


def test_the_log_is_short_for_readers_afterwards(spark: SparkSession, lake: Lake) -> None:
    lake.commits(30)
    assert count_log_entries(lake.tables.journal) > 30
    maintain([lake.tables], job(spark))
    assert count_log_entries(lake.tables.journal) == 0
    lake.commit()
    assert count_log_entries(lake.tables.journal) == 1
