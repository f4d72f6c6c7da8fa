"""What the journal promises of its one writer, on a real Delta table."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from journal.errors import BatchInvalid, Fenced
from journal.reader import JournalReader
from journal.state import read_state
from journal.writer import JournalWriter
from tests.unit.journal.rows import STARTS, TOPIC, marks, row


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal")


def begun(path: str) -> JournalWriter:
    writer = JournalWriter.create_or_open(path, "ledger")
    writer.begin_epoch(STARTS)
    return writer


def seqs(path: str) -> list[int]:
    return [one.seq for rows in JournalReader(path).rows_after(0) for one in rows]


def test_rows_come_back_as_they_were_committed_with_epoch_batch_and_hash(path: str) -> None:
    writer = begun(path)
    first, second = row(1, reason="größer\n"), row(2)
    writer.commit([first, second], marks(2), 0)
    [read] = list(JournalReader(path).rows_after(0))
    assert read == [first, second]
    assert (read[1].epoch, read[1].batch_seq, len(read[1].row_hash)) == (1, 1, 64)


def test_a_new_epoch_carries_on_where_the_last_commit_stood(path: str) -> None:
    writer = begun(path)
    writer.commit([row(1), row(2)], marks(2), 1)
    state = JournalWriter.create_or_open(path, "ledger").begin_epoch({TOPIC: {0: 9, 1: 4}})
    assert (state.epoch, state.next_seq, state.published_upto) == (2, 3, 1)
    assert state.marks == {TOPIC: {0: 2, 1: 4}}
    assert state.start == {TOPIC: {0: 0, 1: 4}}


def test_a_writer_is_refused_after_a_later_epoch_and_on_its_second_try_too(path: str) -> None:
    stale = begun(path)
    stale.commit([row(1)], marks(1), 0)
    fresh = begun(path)
    for _ in range(2):
        with pytest.raises(Fenced):
            stale.commit([row(2)], marks(2), 0)
    fresh.commit([row(2)], marks(2), 0)
    for _ in range(2):
        with pytest.raises(Fenced):
            stale.commit([row(2)], marks(2), 0)
    assert seqs(path) == [1, 2]


def test_of_two_writers_that_begin_at_once_the_later_epoch_holds(path: str) -> None:
    one, other = begun(path), begun(path)
    with pytest.raises(Fenced):
        one.commit([row(1)], marks(1), 0)
    other.commit([row(1)], marks(1), 0)
    assert seqs(path) == [1]


def test_optimize_by_someone_else_between_two_commits_changes_nothing_for_the_writer(path: str) -> None:
    writer = begun(path)
    writer.commit([row(1)], marks(1), 0)
    writer.commit([row(2)], marks(2), 0)
    before = read_state(path, DeltaTable(path).version())
    DeltaTable(path).optimize.compact()
    after = read_state(path, DeltaTable(path).version())
    assert (after.marks, after.chain, after.next_seq) == (before.marks, before.chain, before.next_seq)
    writer.commit([row(3)], marks(3), 0)
    assert seqs(path) == [1, 2, 3]


def test_offsets_without_a_first_row_are_refused_before_anything_is_written(path: str) -> None:
    writer = begun(path)
    with pytest.raises(BatchInvalid):
        writer.commit([row(1)], marks(2), 0)
    with pytest.raises(BatchInvalid):
        writer.commit([row(2)], marks(1), 0)
    with pytest.raises(BatchInvalid):
        writer.commit([row(1), row(2, offset=0)], marks(1), 0)
    assert seqs(path) == []


def test_marks_cannot_be_had_before_the_epoch(path: str) -> None:
    writer = JournalWriter.create_or_open(path, "ledger")
    with pytest.raises(BatchInvalid):
        writer.commit([row(1)], marks(1), 0)


def test_rows_can_be_neither_changed_nor_deleted_nor_of_an_unknown_decision(path: str) -> None:
    writer = begun(path)
    writer.commit([row(1)], marks(1), 0)
    with pytest.raises(DeltaError):
        DeltaTable(path).delete("seq = 1")
    with pytest.raises(DeltaError):
        DeltaTable(path).update(updates={"decision": "'dead'"}, predicate="seq = 1")


def test_the_state_can_be_read_from_the_rows_when_the_log_no_longer_has_it(path: str) -> None:
    writer = begun(path)
    writer.commit([row(1), row(2)], marks(2), 0)
    writer.commit([row(3)], marks(3), 0)
    told = JournalReader(path).state()
    DeltaTable(path).create_checkpoint()
    for entry in Path(path, "_delta_log").glob("0*.json"):
        entry.unlink()
    rebuilt = JournalReader(path).state()
    assert (rebuilt.marks, rebuilt.start, rebuilt.next_seq, rebuilt.chain) == (
        told.marks,
        told.start,
        told.next_seq,
        told.chain,
    )
