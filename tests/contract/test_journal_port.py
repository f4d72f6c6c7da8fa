"""What the journal promises of its writers: the fake in memory and the real table by the same suite."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from journal.errors import BatchInvalid, Fenced
from journal.schema import GENESIS, commit_digest, extend_chain
from tests.contract.journals import DeltaJournal, JournalUnderTest, MemoryJournal, WriterUnderTest
from tests.object_store.fixtures import place_on
from tests.unit.journal.rows import STARTS, TOPIC, marks, row


@pytest.fixture(params=["memory", "disk"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> JournalUnderTest:
    return MemoryJournal() if request.param == "memory" else DeltaJournal(place_on(request, tmp_path))


EVERYWHERE = pytest.mark.parametrize("journal", ["memory", "disk", "object store"], indirect=True)


def begun(journal: JournalUnderTest) -> WriterUnderTest:
    writer = journal.writer()
    writer.begin_epoch(STARTS)
    return writer


def seqs(journal: JournalUnderTest) -> list[int]:
    return [one.seq for one in journal.rows()]


@EVERYWHERE
def test_rows_come_back_as_they_were_committed_with_epoch_batch_and_hash(journal: JournalUnderTest) -> None:
    writer = begun(journal)
    first, second, third = row(1, reason="größer\n"), row(2), row(3)
    writer.commit([first, second], marks(2), 0)
    writer.commit([third], marks(3), 0)
    read = journal.rows()
    assert read == [first, second, third]
    assert [(one.epoch, one.batch_seq, len(one.row_hash)) for one in read] == [(1, 1, 64), (1, 1, 64), (1, 3, 64)]


def test_a_commit_names_its_rows_and_moves_the_version(journal: JournalUnderTest) -> None:
    writer = journal.writer()
    version = writer.begin_epoch(STARTS).version
    committed = writer.commit([row(1), row(2)], marks(2), 0)
    assert (committed.version, committed.first_seq, committed.last_seq) == (version + 1, 1, 2)


def test_the_state_is_that_of_the_last_commit(journal: JournalUnderTest) -> None:
    writer = begun(journal)
    rows = [row(1), row(2)]
    writer.commit(rows, marks(2), 0)
    state = journal.state()
    chain = extend_chain(GENESIS, commit_digest(one.row_hash for one in rows))
    assert (state.epoch, state.next_seq, state.marks, state.start, state.chain) == (1, 3, marks(2), STARTS, chain)


def test_a_new_epoch_carries_on_where_the_last_commit_stood(journal: JournalUnderTest) -> None:
    begun(journal).commit([row(1), row(2)], marks(2), 1)
    before = journal.state()
    state = journal.writer().begin_epoch({TOPIC: {0: 9, 1: 4}, "payments.control": {0: 7}})
    assert (state.epoch, state.next_seq, state.published_upto) == (2, 3, 1)
    assert state.marks == {TOPIC: {0: 2, 1: 4}, "payments.control": {0: 7}}
    assert state.start == {TOPIC: {0: 0, 1: 4}, "payments.control": {0: 7}}
    assert state.chain == before.chain
    assert journal.state() == state


def test_what_is_published_never_goes_back(journal: JournalUnderTest) -> None:
    writer = begun(journal)
    writer.commit([row(1)], marks(1), 1)
    writer.commit([row(2)], marks(2), 0)
    assert journal.state().published_upto == 1


def test_a_note_is_carried_forward_until_another_of_its_name_replaces_it(journal: JournalUnderTest) -> None:
    writer = begun(journal)
    writer.commit([row(1)], marks(1), 0, {"breakers": '{"merchants":"open"}', "pace": "[1]"})
    writer.commit([row(2)], marks(2), 0)
    assert journal.state().notes == {"breakers": '{"merchants":"open"}', "pace": "[1]"}
    writer.commit([row(3)], marks(3), 0, {"breakers": "{}"})
    journal.optimize()
    state = journal.writer().begin_epoch(STARTS)
    assert state.notes == {"breakers": "{}", "pace": "[1]"} == journal.state().notes


@EVERYWHERE
def test_a_writer_is_refused_after_a_later_epoch_and_on_every_further_try(journal: JournalUnderTest) -> None:
    stale = begun(journal)
    stale.commit([row(1)], marks(1), 0)
    fresh = begun(journal)
    for _ in range(2):
        with pytest.raises(Fenced):
            stale.commit([row(2)], marks(2), 0)
    fresh.commit([row(2)], marks(2), 0)
    for _ in range(2):
        with pytest.raises(Fenced):
            stale.commit([row(2)], marks(2), 0)
    assert seqs(journal) == [1, 2]


def test_a_writer_that_is_two_epochs_behind_is_refused(journal: JournalUnderTest) -> None:
    stale = begun(journal)
    begun(journal).commit([row(1)], marks(1), 0)
    begun(journal)
    with pytest.raises(Fenced):
        stale.commit([row(1)], marks(1), 0)


def test_of_two_writers_that_begin_one_after_the_other_the_later_epoch_holds(journal: JournalUnderTest) -> None:
    one, other = begun(journal), begun(journal)
    with pytest.raises(Fenced):
        one.commit([row(1)], marks(1), 0)
    other.commit([row(1)], marks(1), 0)
    assert seqs(journal) == [1]


def test_maintenance_between_two_commits_changes_nothing_for_the_writer(journal: JournalUnderTest) -> None:
    writer = begun(journal)
    writer.commit([row(1)], marks(1), 0)
    writer.commit([row(2)], marks(2), 1)
    before = journal.state()
    journal.optimize()
    after = journal.state()
    assert replace(after, version=before.version) == before and before.published_upto == 1
    writer.commit([row(3)], marks(3), 0)
    assert seqs(journal) == [1, 2, 3]


@EVERYWHERE
def test_maintenance_does_not_hide_a_later_epoch(journal: JournalUnderTest) -> None:
    stale = begun(journal)
    stale.commit([row(1)], marks(1), 0)
    stale.commit([row(2)], marks(2), 0)
    begun(journal)
    journal.optimize()
    with pytest.raises(Fenced):
        stale.commit([row(3)], marks(3), 0)


def test_a_batch_that_does_not_account_for_its_offsets_is_refused_and_the_next_one_taken(
    journal: JournalUnderTest,
) -> None:
    writer = begun(journal)
    for rows, until in (([row(1)], 2), ([row(2)], 1), ([row(1), row(2, offset=0)], 1), ([], 0), ([row(1)], 0)):
        with pytest.raises(BatchInvalid):
            writer.commit(rows, marks(until), 0)
    assert seqs(journal) == []
    writer.commit([row(1)], marks(1), 0)
    assert seqs(journal) == [1]


def test_marks_that_were_read_before_the_epoch_are_of_no_use(journal: JournalUnderTest) -> None:
    """The first writer's commit lies between the reading and the epoch."""
    first = begun(journal)
    read = journal.state().marks
    first.commit([row(1)], marks(1), 0)
    state = journal.writer().begin_epoch(read)
    assert state.marks == marks(1)
    late = journal.writer()
    late.begin_epoch(read)
    with pytest.raises(BatchInvalid):
        late.commit([row(1)], marks(1), 0)
    with pytest.raises(BatchInvalid):
        late.commit([row(2, offset=0)], {TOPIC: {0: read[TOPIC][0] + 1}}, 0)


def test_nothing_can_be_committed_before_the_epoch(journal: JournalUnderTest) -> None:
    with pytest.raises(BatchInvalid):
        journal.writer().commit([row(1)], marks(1), 0)


def test_a_writer_begins_one_epoch_only(journal: JournalUnderTest) -> None:
    """A second one would open another handle, which has seen what the first must not see."""
    writer = begun(journal)
    with pytest.raises(BatchInvalid):
        writer.begin_epoch(STARTS)
