"""The index's file is derived: whatever becomes of it, or of the journal, it says what the journal says."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from core.decision import Decision
from dead_letters.file import LAYOUT, TABLES, DeadLetterIndexUnreadable
from dead_letters.listing import Filter
from journal.histories import JournalOlder
from journal.reader import JournalReader
from tests.dead_items import DeadItems, follow_until, seqs

ALL = Filter(states=())


@pytest.fixture
def items(tmp_path: Path) -> DeadItems:
    items = DeadItems(tmp_path)
    items.deaths(3)
    items.commit()
    items.followed()
    return items


def file_of(items: DeadItems) -> Path:
    return items.layout.dead_letter_index / "index.sqlite3"


def sql(items: DeadItems, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(file_of(items))) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def cut(items: DeadItems) -> None:
    raw = file_of(items).read_bytes()
    file_of(items).write_bytes(raw[: len(raw) // 3])


def overwritten(items: DeadItems) -> None:
    raw = bytearray(file_of(items).read_bytes())
    raw[100:] = b"\xa5" * (len(raw) - 100)
    file_of(items).write_bytes(raw)


def no_sqlite(items: DeadItems) -> None:
    file_of(items).write_bytes(b"not a database at all " * 1_000)


def of_older_layout(items: DeadItems) -> None:
    sql(items, "DROP TABLE items", "CREATE TABLE items (other TEXT)", "CREATE TABLE old (x)", "PRAGMA user_version = 0")


def with_fingerprints_of_older_masks(items: DeadItems) -> None:
    older = "SET fingerprint = 'older' WHERE fingerprint != ''"
    sql(items, *(f"UPDATE {table} {older}" for table in ("items", "cube", "causes")))
    sql(items, f"PRAGMA user_version = {LAYOUT - 1}")


def deleted(items: DeadItems) -> None:
    file_of(items).unlink()


def folder_deleted(items: DeadItems) -> None:
    shutil.rmtree(items.layout.dead_letter_index)


def deleted_but_for_its_log(items: DeadItems) -> None:
    """What a killed process leaves, without the file itself."""
    log = file_of(items).with_name("index.sqlite3-wal")
    with contextlib.closing(sqlite3.connect(file_of(items))) as connection:
        connection.execute("UPDATE items SET state = 'purged'")
        connection.commit()
        kept = log.read_bytes()
    file_of(items).unlink()
    log.write_bytes(kept)


def with_another_row(items: DeadItems) -> None:
    sql(items, "UPDATE mark SET row_hash = 'another'")


def further_than_the_journal(items: DeadItems) -> None:
    sql(items, "UPDATE mark SET seq = 1000", "UPDATE items SET state = 'purged'")


def of_another_journal(items: DeadItems) -> None:
    sql(items, "UPDATE mark SET table_id = 'another'", "UPDATE items SET state = 'purged'")


@pytest.mark.parametrize(
    "damage",
    [
        *(cut, overwritten, no_sqlite, of_older_layout, deleted, folder_deleted, deleted_but_for_its_log),
        *(with_fingerprints_of_older_masks, of_another_journal),
    ],
)
def test_it_is_made_anew(items: DeadItems, damage: Callable[[DeadItems], None]) -> None:
    damage(items)
    items.dead()
    items.commit()
    index = items.followed()
    assert seqs(index.page(Filter()).items) == [1, 2, 3, 4]
    assert (index.stats().open, index.groups()[0].count, index.follow().rows) == (4, 4, 0)


@pytest.mark.parametrize("ahead", [with_another_row, further_than_the_journal])
def test_it_refuses_where_the_journal_lacks_what_it_knows(items: DeadItems, ahead: Callable[[DeadItems], None]) -> None:
    ahead(items)
    with pytest.raises(JournalOlder, match="payhook recover"):
        items.followed()


@pytest.mark.parametrize("ahead", [with_another_row, further_than_the_journal])
def test_one_of_an_earlier_lineage_is_made_again(items: DeadItems, ahead: Callable[[DeadItems], None]) -> None:
    """A restore renewed the journal's lineage."""
    ahead(items)
    sql(items, "UPDATE mark SET lineage = 'before'")
    assert seqs(items.followed().page(Filter()).items) == [1, 2, 3]


def test_whoever_reads_a_damaged_one_is_reported_and_the_next_one_follows(items: DeadItems) -> None:
    index = items.index()
    no_sqlite(items)
    with pytest.raises(DeadLetterIndexUnreadable, match="not a database"):
        index.page(Filter())
    index.follow()
    assert len(index.page(Filter()).items) == 3


def test_one_that_newer_code_wrote_is_left_alone(items: DeadItems) -> None:
    sql(items, f"PRAGMA user_version = {LAYOUT + 1}")
    with pytest.raises(DeadLetterIndexUnreadable, match="newer code wrote it"):
        items.followed()
    with contextlib.closing(sqlite3.connect(file_of(items))) as connection:
        assert connection.execute("SELECT count(*) FROM items").fetchone() == (3,)


def test_the_layout_has_a_number_of_its_own() -> None:
    """Whoever changes a table, or what is written to it, counts `LAYOUT` up and mends this."""
    digest = hashlib.sha256("\n".join(TABLES).encode()).hexdigest()[:16]
    assert (LAYOUT, digest) == (6, "e34b74275b1d7fd1")


def test_a_restored_journal_is_followed_from_its_beginning(
    items: DeadItems, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup is shorter; what comes after it has numbers that the index has seen of other rows."""
    shutil.copytree(items.layout.journal, tmp_path / "backup")
    rows = list(items.ledger.rows)
    for row in rows[:3]:
        items.then(row, Decision.PURGED)
    items.commit()
    index = items.followed()
    assert index.page(Filter()).total == 0
    shutil.rmtree(items.layout.journal)
    shutil.copytree(tmp_path / "backup", items.layout.journal)
    with pytest.raises(JournalOlder):
        index.follow()
    monkeypatch.setattr(JournalReader, "lineage", "renewed by the restore")
    index.follow()
    assert seqs(index.page(ALL).items) == [1, 2, 3]
    assert index.page(Filter()).total == 3


def test_maintenance_of_the_journal_moves_nothing(items: DeadItems) -> None:
    index = items.index()
    for _ in range(3):
        items.dead()
        items.commit()
    DeltaTable(str(items.layout.journal)).optimize.compact()
    assert index.follow().rows == 3
    table = DeltaTable(str(items.layout.journal))
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    table.create_checkpoint()
    assert index.follow().rows == 0
    items.dead()
    items.commit()
    assert index.follow().rows == 1
    assert index.page(Filter()).total == 7


def test_closed_items_leave_after_their_time(items: DeadItems) -> None:
    items.then(items.ledger.rows[0], Decision.PURGED)
    items.commit()
    index = items.index(closed_days=4)
    items.clock.advance(3_600)
    index.follow()
    assert index.page(ALL).total == 3
    items.clock.advance(86_400)
    index.follow()
    assert seqs(index.page(ALL).items) == [2, 3]
    assert sum(hour.closed for hour in index.stats().hours) == 0
    assert items.ledger.rows[0].decision is Decision.DEAD
    assert index.item(1).item.state == "purged"


def test_two_processes_follow_at_once_and_each_row_counts_once(items: DeadItems) -> None:
    commits, each = 6, 4
    until = 3 + commits * each
    started = multiprocessing.get_context("spawn")
    counted = started.Queue()
    processes = [started.Process(target=follow_until, args=(items.data, until, counted)) for _ in range(2)]
    for process in processes:
        process.start()
    assert [counted.get(timeout=60) for _ in processes] == [0, 0]
    for _ in range(commits):
        rows = items.deaths(each - 1)
        items.then(rows[0], Decision.PURGED)
        items.commit()
    taken = [counted.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(30)
    assert sum(taken) == until - 3
    index = items.index()
    assert index.page(ALL).total == 3 + commits * (each - 1)
    assert index.stats().open == 3 + commits * (each - 2)
