"""Bodies whose time is over leave; what is open, young or shared keeps its own, and the proof holds without them."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from core.clock import ManualClock
from core.decision import Decision
from core.routing import Shard
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.payload import Payloads
from dead_letters.story import ItemStory
from journal.index import Index
from journal.journals import is_item_of, shard_note
from journal.reader import JournalReader
from journal.writer import JournalWriter
from ledger.maintain.job import TableReport, maintain
from ledger.provider_bugs import find_provider_bugs
from ledger.redactions import RetentionState, read_body_statuses
from tests.integration.ledger.lakes import Lake, job, verified
from tests.unit.journal.rows import sha

DAYS = 30
NOW = datetime.now(UTC)
OLD, YOUNG = NOW - timedelta(days=40), NOW - timedelta(days=10)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.under(tmp_path)


def written(lake: Lake, at: datetime, commits: int = 1, **changes: Any) -> list[int]:
    """Seqs of rows that were decided, and whose bodies were written, at that time."""
    before, lake.at = lake.seq, at
    lake.commits(commits, **changes)
    return list(range(before + 1, lake.seq + 1))


def run(spark: SparkSession, lake: Lake, now: datetime = NOW, **more: Any) -> TableReport:
    """A maintenance with the retention set. The log's times of files are moved to those of their rows before."""
    chosen = job(spark, ManualClock(now), bodies_days=DAYS, **more)
    (report,) = (one for one in maintain([lake.tables], chosen).tables if one.table == "bodies")
    assert report.problem is None
    return report


def there(lake: Lake) -> set[int]:
    """The seqs whose bodies are kept."""
    found = lake.bodies.fetch([sha(f"body {seq - 1}") for seq in range(1, lake.seq + 1)])
    return {seq for seq in range(1, lake.seq + 1) if sha(f"body {seq - 1}") in found}


def story_of(lake: Lake, item_seq: int) -> ItemStory:
    """As an operator sees it."""
    known = partial(read_body_statuses, "ledger", lake.tables.bodies, Path(lake.tables.journal).parent / "redactions")
    folder, payloads = Path(lake.tables.journal).parent / "index", Payloads(lake.tables.bodies, known)
    return DeadLetterIndex(folder, lake.tables.journal, payloads, ManualClock(NOW)).item(item_seq)


@pytest.fixture(autouse=True)
def written_when_decided(monkeypatch: pytest.MonkeyPatch, lake: Lake) -> None:
    """A file of bodies says that it was written when its rows were decided."""
    monkeypatch.setattr("journal.append.now_ms", lambda: int((lake.at or datetime.now(UTC)).timestamp() * 1_000))


def test_bodies_of_settled_events_leave_when_their_time_is_over(spark: SparkSession, lake: Lake) -> None:
    old, young = written(lake, OLD, 3), written(lake, YOUNG, 3)
    assert run(spark, lake).bodies_dropped == len(old)
    assert there(lake) == set(young)
    assert run(spark, lake).bodies_dropped == 0
    assert verified(lake, deep=True)


def test_what_was_dropped_stays_accounted_for_when_bodies_are_kept_for_longer(spark: SparkSession, lake: Lake) -> None:
    written(lake, OLD, 2)
    written(lake, NOW - timedelta(days=500))
    run(spark, lake)
    maintain([lake.tables], job(spark, ManualClock(NOW), bodies_days=400))
    published_upto = JournalReader(str(lake.tables.journal)).state().published_upto
    bodies = DeltaTable(str(lake.tables.bodies))
    assert RetentionState.read(bodies) == RetentionState(NOW - timedelta(days=DAYS), DAYS, published_upto)
    assert verified(lake, deep=True)


def test_a_table_of_which_nothing_is_to_go_says_nothing(spark: SparkSession, lake: Lake) -> None:
    written(lake, YOUNG, 2)
    assert run(spark, lake).bodies_dropped == 0
    assert RetentionState.read(DeltaTable(str(lake.tables.bodies))) is None
    assert len(there(lake)) == 4


def test_what_is_kept_for_ever_is_never_looked_at(spark: SparkSession, lake: Lake) -> None:
    written(lake, OLD, 3)
    maintain([lake.tables], job(spark, ManualClock(NOW)))
    assert len(there(lake)) == 6


@pytest.mark.parametrize("decision", [Decision.RETRY, Decision.PARKED, Decision.DEAD])
def test_the_body_of_an_open_item_stays_however_old_it_is(spark: SparkSession, lake: Lake, decision: Decision) -> None:
    written(lake, OLD, 2)
    (waiting,) = written(lake, OLD, decision=decision, count=1, due_at=OLD)
    assert run(spark, lake).bodies_dropped == 4
    assert there(lake) == {waiting}
    assert story_of(lake, waiting).payload.raw is not None


def test_it_leaves_once_the_item_was_closed_long_enough_ago(spark: SparkSession, lake: Lake) -> None:
    lake.at = OLD
    (dead,) = lake.commit(count=1, decision=Decision.DEAD)
    lake.follow(dead, Decision.PURGED, at=YOUNG)
    assert run(spark, lake).bodies_dropped == 0
    assert run(spark, lake, NOW + timedelta(days=DAYS)).bodies_dropped == 1
    assert there(lake) == set()


def test_it_stays_until_its_dead_letter_is_on_the_topic(spark: SparkSession, lake: Lake) -> None:
    lake.at = OLD
    (dead,) = lake.commit(count=1, decision=Decision.DEAD)
    purged = lake.follow(dead, Decision.PURGED, at=OLD, published=False)
    assert run(spark, lake).bodies_dropped == 0
    lake.follow(purged, Decision.RESOLVED, at=OLD)
    assert run(spark, lake).bodies_dropped == 1


def test_the_table_says_which_dead_letters_were_on_the_topic_when_bodies_were_dropped(
    spark: SparkSession, lake: Lake
) -> None:
    """All are published again after a recovery, those of dropped bodies too."""
    written(lake, OLD)
    run(spark, lake, OLD)
    (dead,) = lake.commit(count=1, decision=Decision.DEAD)
    purged = lake.follow(dead, Decision.PURGED, at=OLD)
    assert run(spark, lake).bodies_dropped == 3
    JournalWriter.create_or_open(str(lake.tables.journal), "ledger").renew_lineage(NOW, "lost", publish_again=True)
    assert JournalReader(str(lake.tables.journal)).state().published_upto == 0
    retained = RetentionState.read(DeltaTable(str(lake.tables.bodies)))
    assert retained is not None and retained.published_upto == purged.seq - 1


def test_a_body_that_a_younger_row_refers_to_stays(spark: SparkSession, lake: Lake) -> None:
    """A redelivery is a row with the body of the first copy, which was written once."""
    old = written(lake, OLD, 2)
    lake.at = YOUNG
    lake.commit(
        count=1, decision=Decision.DUPLICATE, body_sha256=sha("body 0"), event_key="stripe:evt_0:charge.succeeded"
    )
    assert run(spark, lake).bodies_dropped == len(old) - 1
    assert 1 in there(lake)


def test_a_dry_run_tells_how_many_would_leave(spark: SparkSession, lake: Lake) -> None:
    old = written(lake, OLD, 3)
    assert run(spark, lake, dry_run=True).bodies_dropped == len(old)
    assert there(lake) == set(old)


def test_the_writer_appends_all_the_while(spark: SparkSession, lake: Lake) -> None:
    written(lake, OLD, 10)
    lake.at = None
    with lake.committing():
        assert run(spark, lake).bodies_dropped == 20
    assert len(there(lake)) == lake.seq - 20
    assert verified(lake)


def test_dropped_bodies_leave_the_disk_with_the_next_vacuum(spark: SparkSession, lake: Lake) -> None:
    written(lake, OLD, 3)
    run(spark, lake, NOW - timedelta(hours=30))
    for file in Path(lake.tables.bodies).glob("*.parquet"):
        os.utime(file, (OLD.timestamp(), OLD.timestamp()))
    assert run(spark, lake).freed_files == 3
    assert not list(Path(lake.tables.bodies).glob("*.parquet"))


# what asks for a body afterwards


def test_whoever_asks_for_a_dropped_body_is_reported(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    written(lake, OLD, 2)
    (repeated,) = written(lake, OLD, decision=Decision.DUPLICATE_FACT, count=1, fact_key="stripe:ch_1")
    run(spark, lake)
    rows = [one for chunk in JournalReader(str(lake.tables.journal)).rows_after(0) for one in chunk]
    payload = story_of(lake, 1).payload
    assert payload.raw is None
    assert "dropped by retention (ledger.bodies_days)" in payload.note
    assert [one.status for one in read_body_statuses("ledger", lake.tables.bodies, tmp_path / "none", rows[:2])] == [
        "dropped",
        "dropped",
    ]
    (bug,) = find_provider_bugs(str(lake.tables.journal), str(lake.tables.bodies), {})
    assert (bug.kind, bug.again.seq, bug.again.amount_minor) == ("fact_repeated", repeated, None)
    assert verified(lake)


def test_an_index_is_made_again_without_them(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    written(lake, OLD, 3)
    (dead,) = written(lake, OLD, decision=Decision.DEAD, count=1)
    run(spark, lake)
    index = Index.open(tmp_path / "index", 1)
    index.catch_up(JournalReader(str(lake.tables.journal)), lake.bodies)
    assert [item.row.seq for item in index.open_items()] == [dead]
    index.close()


def test_what_another_shard_goes_on_with_keeps_no_body_here(spark: SparkSession, lake: Lake) -> None:
    """Its shard has a body of its own; in this journal the item is never closed."""
    events = written(lake, OLD, 3, decision=Decision.DEAD)
    written(lake, OLD)
    lake.writer = JournalWriter.create_or_open(str(lake.tables.journal), "ledger")
    lake.writer.begin_epoch({}, notes=shard_note(Shard(0, 2)))
    young = written(lake, YOUNG)
    rows = {row.seq: row for rows in JournalReader(str(lake.tables.journal)).rows_after(0) for row in rows}
    own = {seq for seq in events if is_item_of(Shard(0, 2), rows[seq])}
    assert 0 < len(own) < len(events)
    run(spark, lake)
    assert there(lake) == own | set(young)
