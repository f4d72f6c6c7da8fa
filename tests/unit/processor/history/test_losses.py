"""What a person accepts after a loss: the journal says it, and the next history begins where the two part."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.decision import Decision
from core.routing import Shard
from journal.errors import BatchInvalid, Fenced
from journal.histories import ReflectedPosition, may_follow
from journal.reader import JournalReader
from journal.state import JournalState
from journal.writer import JournalWriter, LossDecision
from processor.history.check import DisagreementKind, HistoryRefused, check_history
from processor.history.losses import Acceptance, Findings, LostEvent, MovedOn, accept_losses, find_losses
from tests.unit.journal.rows import NOW, TOPIC
from tests.unit.processor.history.logs import MemoryLog, decided, journal_of, records

OLD = records(*(f"evt_{at}" for at in range(6)))
NEW = records(*(f"new_{at}" for at in range(9)), low=3)
BACK = [*OLD[:3], *NEW]
"""An older copy of the log, which has grown past the mark since."""

WHO = Acceptance("ada", "Kafka's disk was restored from the copy of 02:00", NOW)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def found(path: Path, state: JournalState, log: MemoryLog) -> Findings:
    return find_losses("ledger", state, JournalReader(str(path), state.version), log, [TOPIC])


def rows(path: Path) -> list:  # type: ignore[type-arg]
    return [row for part in JournalReader(str(path)).rows_after(0) for row in part]


def test_nothing_is_found_where_nothing_disagrees(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD[:4])
    assert found(path, state, MemoryLog(OLD)) == Findings("ledger", 4, state.epoch)


@pytest.mark.parametrize(
    ("log", "begins", "beyond", "to_decide"),
    [
        (MemoryLog(BACK), 3, 3, 9),
        (MemoryLog(OLD[:3]), 3, 3, 0),
        (MemoryLog([], topic_id="id-2"), 0, 6, 0),
        (MemoryLog(records("a", "b"), topic_id="id-2"), 0, 6, 2),
        (MemoryLog(OLD, topic_id="id-2"), 6, 0, 0),
        (MemoryLog([*OLD[2:3], *NEW], low=2), 3, 3, 9),
        (MemoryLog(NEW[1:], low=4), 4, 2, 8),
    ],
    ids=[
        "an older log that grew",
        "an older log",
        "another Kafka, empty",
        "a topic that was created again",
        "another Kafka with the same records",
        "an older log whose beginning was removed",
        "nothing is left of what both held",
    ],
)
def test_the_next_history_begins_where_the_records_part(
    path: Path, log: MemoryLog, begins: int, beyond: int, to_decide: int
) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD)
    [parted] = found(path, state, log).parted
    [parting] = parted.partings
    assert (parting.begins, parting.decided_beyond, parting.to_decide) == (begins, beyond, to_decide)
    assert parting.lost_range is None


def test_a_log_that_parted_behind_rows_that_agree_is_found(path: Path) -> None:
    """The processor went on into the other log for a moment, long ago."""
    state = journal_of(path, MemoryLog(OLD), OLD, BACK[6:10])
    [parted] = found(path, state, MemoryLog(BACK)).parted
    assert parted.partings[0].begins == 3


def test_after_the_decision_the_stream_reads_on_in_the_next_history(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD)
    after = accept_losses(path, found(path, state, MemoryLog(BACK)), [], 0, WHO)
    assert after.marks == after.start == {TOPIC: {0: 3}}
    history = after.history(TOPIC)
    assert (history.number, [(one.start, one.end) for one in history.ended]) == (2, [({0: 0}, {0: 6})])
    assert (after.generation, after.published_upto, after.next_seq) == (1, 0, 7)
    check_history("ledger", after, JournalReader(str(path)), MemoryLog(BACK), [TOPIC])
    last = journal_of(path, MemoryLog(BACK), BACK[3:])
    assert last.marks == {TOPIC: {0: 12}}
    assert [(row.offset, row.history) for row in rows(path)[6:8]] == [(3, 2), (4, 2)]
    check_history("ledger", last, JournalReader(str(path)), MemoryLog(BACK), [TOPIC])
    assert found(path, last, MemoryLog(BACK)).parted == ()


def test_a_second_loss_is_found_within_the_second_history(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD)
    accept_losses(path, found(path, state, MemoryLog(BACK)), [], 0, WHO)
    state = journal_of(path, MemoryLog(BACK), BACK[3:])
    again = [*BACK[:5], *records(*(f"again_{at}" for at in range(9)), low=5)]
    with pytest.raises(HistoryRefused):
        check_history("ledger", state, JournalReader(str(path)), MemoryLog(again), [TOPIC])
    [parted] = found(path, state, MemoryLog(again)).parted
    assert parted.partings[0].begins == 5


def test_offsets_that_were_removed_undecided_are_one_row(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD[:2])
    findings = found(path, state, MemoryLog(OLD, low=5))
    assert [one.kind for one in findings.disagreements] == [DisagreementKind.REMOVED]
    after = accept_losses(path, findings, [], 0, WHO)
    assert after.marks == {TOPIC: {0: 5}}
    row = rows(path)[-1]
    assert (row.decision, row.first, row.offset, row.offset_until) == (Decision.LOST, True, 2, 5)
    assert (row.actor, row.reason, row.event_key) == (WHO.actor, WHO.reason, None)
    assert after.history(TOPIC).ended[0].end == {0: 5}


def test_a_journal_that_lost_rows_goes_on_in_a_lineage_of_its_own(path: Path) -> None:
    """What was derived from the rows that are gone is made again, and dead letters are published again."""
    state = journal_of(path, MemoryLog(OLD), OLD)
    before = JournalReader(str(path)).lineage
    after = accept_losses(path, found(path, state, MemoryLog(OLD)), [], 0, WHO, is_older=True)
    assert (after.marks, after.generation, after.published_upto) == ({TOPIC: {0: 6}}, 1, 0)
    reader = JournalReader(str(path))
    assert reader.lineage == after.lineage != before
    assert may_follow("the index", ReflectedPosition(before, 9, "x"), reader) is False
    check_history("ledger", after, reader, MemoryLog(OLD), [TOPIC])


def test_an_older_journal_that_has_moved_on_keeps_its_lineage(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD[:4])
    findings = found(path, state, MemoryLog(OLD))
    journal_of(path, MemoryLog(OLD), OLD[4:])
    before = JournalReader(str(path)).lineage
    with pytest.raises(MovedOn, match="look again"):
        accept_losses(path, findings, [], 0, WHO, is_older=True)
    assert JournalReader(str(path)).lineage == before


def test_a_decision_about_a_journal_that_another_command_has_changed_is_not_taken(path: Path) -> None:
    """It has as many rows as it had: a division adds none."""
    state = journal_of(path, MemoryLog(OLD), OLD)
    findings = found(path, state, MemoryLog(BACK))
    divided = JournalWriter.create_or_open(str(path), "ledger").divide_journal(TOPIC, Shard(0, 2), NOW)
    with pytest.raises(MovedOn, match="a command changed the journal, after it was looked at; look again"):
        accept_losses(path, findings, [], 0, WHO)
    assert JournalReader(str(path)).state() == divided


def test_records_that_part_before_a_division_are_found_after_it(path: Path) -> None:
    journal_of(path, MemoryLog(OLD), OLD)
    state = JournalWriter.create_or_open(str(path), "ledger").divide_journal(TOPIC, Shard(0, 2), NOW)
    check_history("ledger", state, JournalReader(str(path)), MemoryLog(OLD), [TOPIC])
    with pytest.raises(HistoryRefused):
        check_history("ledger", state, JournalReader(str(path)), MemoryLog(BACK), [TOPIC])
    assert found(path, state, MemoryLog(OLD)).parted == ()
    [parted] = found(path, state, MemoryLog(BACK)).parted
    assert parted.partings[0].begins == 3


def test_another_topic_with_a_gap_at_the_mark_is_read_from_where_it_parts(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD)
    other = [*records(*(f"new_{at}" for at in range(6))), *records("new_7", low=7)]
    [parted] = found(path, state, MemoryLog(other, topic_id="id-2")).parted
    assert (parted.partings[0].begins, parted.partings[0].lost_range) == (0, None)


def test_the_next_generation_is_higher_than_that_of_every_shard(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD)
    assert accept_losses(path, found(path, state, MemoryLog(BACK)), [], 0, WHO, generation=3).generation == 4


def test_an_event_that_is_lost_is_named_and_holds_no_key(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD)
    lost = [LostEvent("stripe:evt_9:charge", "stripe", NOW)]
    accept_losses(path, found(path, state, MemoryLog(OLD[:3])), lost, 0, WHO)
    row = rows(path)[-1]
    assert (row.decision, row.first, row.offset, row.event_key) == (Decision.LOST, False, -1, "stripe:evt_9:charge")


def test_a_decision_about_a_journal_that_has_moved_on_is_not_taken(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD)
    findings = found(path, state, MemoryLog(BACK))
    journal_of(path, MemoryLog(OLD), records("late", low=6))
    with pytest.raises(MovedOn, match="look again"):
        accept_losses(path, findings, [], 0, WHO)


def test_who_wrote_before_the_decision_is_fenced_off(path: Path) -> None:
    journal_of(path, MemoryLog(OLD), OLD)
    writer = JournalWriter.create_or_open(str(path), "ledger")
    state = writer.begin_epoch({})
    accept_losses(path, found(path, state, MemoryLog(BACK)), [], 0, WHO)
    late = records("late", low=6)
    with pytest.raises(Fenced):
        writer.commit([decided(7, late[0])], {TOPIC: {0: 7}}, 0)


def test_a_mark_goes_back_only_with_a_new_history(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD)
    writer = JournalWriter.create_or_open(str(path), "ledger")
    begun = writer.begin_epoch({})
    with pytest.raises(BatchInvalid, match="within their history"):
        writer.commit_loss_decision(LossDecision([], {TOPIC: {0: 3}}, {TOPIC: {0: 3}}, begun.histories, 1, {}))
    assert state.marks == {TOPIC: {0: 6}}


def test_the_anchors_that_are_given_up_are_noted(path: Path) -> None:
    state = journal_of(path, MemoryLog(OLD), OLD)
    writer = JournalWriter.create_or_open(str(path), "ledger")
    writer.begin_epoch({})
    writer.commit([decided(7, records("late", low=6)[0])], {TOPIC: {0: 7}}, 0, {"anchored": "6"})
    findings = found(path, JournalReader(str(path)).state(), MemoryLog(BACK))
    after = accept_losses(path, findings, [], 2, WHO)
    assert after.notes["anchored"] == "2"
    assert '"anchors": [2, 6]' in after.notes["accepted"]
    assert state.next_seq == 7
