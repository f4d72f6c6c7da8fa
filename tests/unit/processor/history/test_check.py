"""A start is refused while Kafka holds another history than the journal decided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from journal.reader import JournalReader
from journal.schema import TopicRecord, same_record
from journal.state import JournalState
from processor.history.check import (
    LOOKED_NOTE,
    PARTITIONS_NOTE,
    DisagreementKind,
    HistoryRefused,
    PartitionsChanged,
    check_history,
    check_partitions,
    find_start_marks,
)
from tests.unit.journal.rows import TOPIC, sha
from tests.unit.processor.history.logs import MemoryLog, decided, journal_of, record, records

OLD = records(*(f"evt_{at}" for at in range(6)))


def refusal(
    path: Path, state: JournalState, log: MemoryLog, transactional: tuple[str, ...] = ()
) -> list[DisagreementKind]:
    try:
        check_history("ledger", state, JournalReader(str(path), state.version), log, [TOPIC], transactional)
    except HistoryRefused as refused:
        assert "payhook recover" in str(refused)
        return [one.kind for one in refused.found]
    return []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def test_the_log_that_was_decided_is_read_on(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD[:3], OLD[3:5])
    assert refusal(path, state, MemoryLog(OLD)) == []


@pytest.mark.parametrize(("decided", "noted", "refused"), [(6, "4", False), (4, "8", False), (4, "4", True)])
def test_another_number_of_partitions_waits_until_all_is_decided(
    path: Path, decided: int, noted: str, refused: bool
) -> None:
    state = replace(journal_of(path, MemoryLog(OLD), OLD[:decided]), notes={PARTITIONS_NOTE: noted})
    if not refused:
        check_partitions("ledger", state, MemoryLog(OLD), TOPIC, 8)
        return
    with pytest.raises(PartitionsChanged, match="events_partitions is 8, and 2 records are undecided .* by 4"):
        check_partitions("ledger", state, MemoryLog(OLD), TOPIC, 8)


def test_a_journal_that_notes_no_number_of_partitions_takes_each(path: Path) -> None:
    check_partitions("ledger", journal_of(path, MemoryLog(OLD), OLD[:4]), MemoryLog(OLD), TOPIC, 8)


@pytest.mark.row("F1")
def test_an_older_log_that_ends_before_the_mark_is_refused(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD)
    assert refusal(path, state, MemoryLog(OLD[:3])) == [DisagreementKind.ENDS_BEFORE]


def test_an_older_log_that_has_grown_past_the_mark_is_still_refused(path: Path) -> None:
    """The numbers fit again; the record behind the mark is another one."""
    state = journal_of(path, MemoryLog(OLD), OLD)
    grown = [*OLD[:3], *records(*(f"new_{at}" for at in range(20)), low=3)]
    assert refusal(path, state, MemoryLog(grown)) == [DisagreementKind.OTHER_RECORD]


def test_a_topic_that_was_created_again_is_refused_whatever_it_holds(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD)
    assert refusal(path, state, MemoryLog(OLD, topic_id="id-2")) == [DisagreementKind.OTHER_TOPIC]


def test_records_that_were_removed_before_they_were_decided_are_refused(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD[:2])
    assert refusal(path, state, MemoryLog(OLD, low=4)) == [DisagreementKind.REMOVED]


def test_records_that_were_removed_after_they_were_decided_leave_topic_and_range(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD[:4])
    assert refusal(path, state, MemoryLog(OLD, low=4)) == []


def test_a_log_that_was_exchanged_between_two_looks_is_found_by_the_next_start(path: Path) -> None:
    """The processor went on into the other log for a moment: its last row agrees, those before it don't."""
    other = [*OLD[:2], *records(*(f"new_{at}" for at in range(6)), low=2)]
    state = journal_of(path, MemoryLog(OLD), OLD[:2], OLD[2:4], other[4:])
    assert refusal(path, state, MemoryLog(other)) == [], "nothing says up to where a look has been"
    looked = replace(state, notes={**state.notes, LOOKED_NOTE: "2"})
    assert refusal(path, looked, MemoryLog(other)) == [DisagreementKind.OTHER_RECORD]


def test_a_hole_is_refused_unless_transactions_write_to_the_topic(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD[:2])
    holed = MemoryLog([*OLD[:2], *OLD[4:]])
    assert refusal(path, state, holed) == [DisagreementKind.HOLE]
    assert refusal(path, state, holed, transactional=(TOPIC,)) == []


def test_a_journal_of_before_takes_the_topic_as_its_first_history(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD[:3])
    before = replace(state, histories={}, lasts={}, lineage="")
    assert refusal(path, before, MemoryLog(OLD)) == []
    other = records(*(f"new_{at}" for at in range(6)))
    assert refusal(path, before, MemoryLog(other)) == [DisagreementKind.OTHER_RECORD]


def test_a_partition_that_came_later_begins_at_its_first_offset_ever(path: Path) -> None:
    """Where its first records are gone already, they were lost: that isn't passed over."""
    state = journal_of(path, MemoryLog(OLD), OLD[:3])
    held = {TOPIC: {0: (0, 6), 1: (4, 9)}, "payments.control": {0: (7, 7)}}
    assert find_start_marks(state, held) == {TOPIC: {0: 0, 1: 0}, "payments.control": {0: 7}}
    assert find_start_marks(None, held) == {TOPIC: {0: 0, 1: 4}, "payments.control": {0: 7}}


def test_what_could_not_be_read_is_compared_by_its_bytes() -> None:
    unread = {"event_key": None, "received_at": None, "body_sha256": None}
    row = decided(1, record(0, "garbage"), **unread, original_sha256=sha("garbage"))
    assert same_record(row, TopicRecord(0, b"garbage"))
    assert not same_record(row, TopicRecord(0, b"other garbage"))
