"""Postings that are gone, wrong or in use are made again from the journal, line for line what the writer books."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import journal.log
import journal.rewrite
from core.clock import SystemClock
from core.decision import Decision
from core.money import Money, Movement
from core.work import Posting, postings_from_json, postings_to_json, reversed_postings
from journal.log import NotCommitted
from journal.reader import JournalReader
from journal.schema import JournalRow
from journal.storage import DiskStorage
from ledger.postings import PostingsRefused, PostingsWriter, flatten_postings, mark_of
from ledger.rebuild import BookingUnreadable, RebuildResult, rebuild_postings
from tests.divided_ledger import MOVES, ShardLedger
from tests.integration.ledger.lakes import Lake
from tests.unit.journal.rows import marks, row

BETWEEN_MERCHANTS = postings_to_json(
    [
        Posting("merchant:m-1:payable", "debit", Money(700, "EUR")),
        Posting("merchant:m-2:payable", "credit", Money(700, "EUR")),
    ]
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """3,000 rows: bookings, one of them between two merchants, rows that book nothing, and bookings taken back."""
    made = Lake.under(tmp_path)
    for number in range(3):
        rows = book(made, 900)
        book(made, 98, decision=Decision.IGNORED)
        book(made, 1, postings=BETWEEN_MERCHANTS)
        reverse(made, rows[number])
    return made


def book(lake: Lake, count: int = 10, **changes: Any) -> list[JournalRow]:
    """As `Lake.commit`, after rows that aren't the first of an offset too; bodies are nobody's business here."""
    until = decided(lake)
    rows = [
        row(lake.seq + n + 1, until + n, **lake._booked(lake.seq + n + 1, datetime.now(UTC), changes))
        for n in range(count)
    ]
    lake.seq += count
    lake.writer.commit(rows, marks(until + count), 0)
    lake.postings.follow(rows)
    return rows


def decided(lake: Lake) -> int:
    """The next offset."""
    return max(one[0] for one in JournalReader(str(lake.tables.journal)).state().marks.values())


def reverse(lake: Lake, booked: JournalRow) -> None:
    lake.seq += 1
    back = postings_to_json(reversed_postings(postings_from_json(booked.postings)))
    entry = replace(booked, seq=lake.seq, first=False, decision=Decision.REVERSED, postings=back, cause_seq=1)
    lake.writer.commit([entry], marks(decided(lake)), 0)
    lake.postings.follow([entry])


def path(lake: Lake) -> Path:
    assert isinstance(lake.tables.postings, Path)
    return lake.tables.postings


def lines(lake: Lake) -> pa.Table:
    found = DeltaTable(str(path(lake))).to_pyarrow_dataset().to_table()
    return found.sort_by([("seq", "ascending"), ("line", "ascending")]).combine_chunks()


def booked(lake: Lake) -> pa.Table:
    return flatten_postings([row for rows in JournalReader(str(lake.tables.journal)).rows_after(0) for row in rows])


def rebuilt(lake: Lake) -> RebuildResult:
    assert isinstance(lake.tables.journal, Path)
    return rebuild_postings(lake.tables.journal, path(lake), SystemClock())


def test_deleted_postings_come_back_line_for_line(lake: Lake) -> None:
    before = lines(lake)
    shutil.rmtree(path(lake))
    done = rebuilt(lake)
    assert lines(lake).equals(before) and before.equals(booked(lake))
    assert (done.before, done.lines, done.mark) == (0, 5_412, 3_000)
    assert mark_of(DeltaTable(str(path(lake)))) == 3_000
    assert not list(path(lake).glob("_rebuild*"))


def test_wrong_lines_are_replaced_and_who_follows_goes_on(lake: Lake) -> None:
    right, table = lines(lake), DeltaTable(str(path(lake)))
    made_up = right.slice(0, 2).set_column(9, right.schema.field(9), pa.array([1, 1], pa.int64()))
    lake.postings._commit_lines(made_up, 3_000)
    assert not lines(lake).equals(right)
    version = rebuilt(lake).version
    assert version == table.version() + 2
    assert lines(lake).equals(right)
    lake.postings = PostingsWriter.open(str(path(lake)))
    book(lake)
    assert lines(lake).equals(booked(lake))


def test_a_writer_that_runs_is_refused_once_and_the_next_one_catches_up(lake: Lake) -> None:
    """It would go on from a table that isn't there any more."""
    running = lake.postings
    rebuilt(lake)
    with pytest.raises(PostingsRefused):
        book(lake)
    lake.postings = PostingsWriter.open(str(path(lake)))
    assert lake.postings is not running
    lake.postings.catch_up(JournalReader(str(lake.tables.journal)))
    assert lines(lake).equals(booked(lake))


def test_what_a_running_writer_books_meanwhile_is_neither_lost_nor_booked_twice(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commit comes between the look at the table and the replacement: the replacement looks again."""
    busy = [True]

    class LateBookingStorage(DiskStorage):
        def put_new(self, name: str, data: bytes) -> None:
            if busy.pop() if busy else False:
                book(lake)
            super().put_new(name, data)

    monkeypatch.setattr(journal.rewrite, "open_storage", LateBookingStorage)
    done = rebuilt(lake)
    assert done.mark == 3_000
    lake.postings = PostingsWriter.open(str(path(lake)))
    assert lake.postings.mark_seq == 3_000
    lake.postings.catch_up(JournalReader(str(lake.tables.journal)))
    assert lines(lake).equals(booked(lake))


def test_a_table_that_never_stands_still_is_left_as_it_is(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    class RacingBookingStorage(DiskStorage):
        def put_new(self, name: str, data: bytes) -> None:
            book(lake)
            super().put_new(name, data)

    files = len(list(path(lake).glob("*.parquet")))
    monkeypatch.setattr(journal.log, "TRIES_MAX", 3)
    monkeypatch.setattr(journal.rewrite, "open_storage", RacingBookingStorage)
    with pytest.raises(NotCommitted, match="committed 3 times"):
        rebuilt(lake)
    assert lines(lake).equals(booked(lake))
    assert len(list(path(lake).glob("*.parquet"))) == files + 3


def test_a_booking_that_cannot_be_read_stops_it(lake: Lake) -> None:
    before = lines(lake)
    with pytest.raises(TypeError):
        book(lake, 1, postings="[1]")
    with pytest.raises(BookingUnreadable, match="the booking of row 3001"):
        rebuilt(lake)
    assert lines(lake).equals(before)


def test_postings_of_a_shard_are_made_of_its_own_rows(tmp_path: Path) -> None:
    """Those that it has from the journal of which it is a copy are in the other shard's postings."""
    ledger = ShardLedger(tmp_path)
    for _ in range(8):
        ledger.add(Movement.CAPTURE)
    ledger.commit()
    _, other = ledger.split()
    other.add(Movement.CAPTURE, 70, payment=MOVES[0])
    other.commit()
    places = other.places
    done = rebuild_postings(places.journal, places.postings, SystemClock())
    assert (done.before, done.lines, done.mark) == (2, 2, 9)
    assert DeltaTable(other.postings).to_pyarrow_dataset().to_table()["amount_minor"].to_pylist() == [70, 70]
