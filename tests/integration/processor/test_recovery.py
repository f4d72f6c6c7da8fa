"""A stream's process dies, or what it keeps is damaged: nothing is lost, twice, or skipped in silence."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from journal.errors import Fenced, JournalBroken
from journal.histories import JournalOlder
from journal.writer import Tenure
from processor.decide.arrivals import OffsetHole
from tests.integration.processor.stored import Stored
from tests.unit.processor.harness import EVENTS

AFTER_THE_COMMIT = ("processor.after_index", "processor.after_postings", "processor.after_dlq")
"""The stack's own tests die around the commit; `make test-faults` dies at every point, here and there."""


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """Six events were decided: one of them is dead."""
    made = Stored(tmp_path)
    for event_id in ("a", "b", "dead-c", "d", "e", "f"):
        made.kafka.post(event_id)
    made.decide_all()
    return made


def more(stored: Stored) -> None:
    """New events, a copy of an old one and a death, in one batch and a bit."""
    for event_id in ("g", "a", "dead-h", "i", "j"):
        stored.kafka.post(event_id)


def assert_whole(stored: Stored) -> None:
    """What `more` brought is decided, each event once."""
    stored.check()
    wanted = {name: ["applied"] for name in "bdefgij"} | {"a": ["applied", "duplicate"]}
    assert stored.decisions() == wanted | {"dead-c": ["dead"], "dead-h": ["dead"]}


@pytest.mark.parametrize("point", AFTER_THE_COMMIT)
def test_kill_9_after_the_commit_leaves_one_effect_and_whole_derived_tables(stored: Stored, point: str) -> None:
    more(stored)
    stored.killed_at(point)
    stored.decide_all()
    assert_whole(stored)


def test_kafka_hands_over_offsets_below_the_marks_and_they_are_passed_over(stored: Stored) -> None:
    batches = stored.open()
    more(stored)
    batches.run(stored.kafka.read(4))
    assert batches.committed_marks[EVENTS][0] == 8
    stored.decide(batches)
    batches.close()
    assert_whole(stored)


def test_kafka_hands_over_an_offset_beyond_the_mark_and_nothing_is_decided(stored: Stored) -> None:
    batches = stored.open()
    more(stored)
    with pytest.raises(OffsetHole, match="offset 6 is next, Kafka gave 7"):
        batches.run(stored.kafka.read(7))
    batches.release()
    assert len(stored.rows()) == 6
    stored.decide_all()
    assert_whole(stored)


def test_a_gap_of_a_declared_topic_has_one_row_that_says_which_offsets_were_passed_over(stored: Stored) -> None:
    """Markers of transactions take offsets and hold no record."""
    batches = stored.open(transactional=(EVENTS,))
    for event_id in ("g", "h", "i", "j"):
        stored.kafka.post(event_id)
    batches.run(stored.kafka.read(8))
    batches.close()
    passed, *rest = [row for row in stored.rows() if row.offset >= 6]
    assert (passed.decision, passed.offset, passed.offset_until, passed.event_key) == ("ignored", 6, 8, None)
    assert [(row.offset, row.decision) for row in rest] == [(8, "applied"), (9, "applied")]
    shutil.rmtree(stored.index)
    reopened = stored.open()
    assert reopened.committed_marks[EVENTS][0] == 10
    reopened.close()


# what is derived is lost or damaged


def deleted(folder: Path) -> None:
    shutil.rmtree(folder)


def truncated(folder: Path) -> None:
    """Every file of the store ends half way, as after a full disk or a bad copy."""
    [epoch] = folder.iterdir()
    for file in epoch.glob("*"):
        if file.name not in ("OWNER", "LOCK"):
            with file.open("r+b") as half:
                half.truncate(file.stat().st_size // 2)


def empty(folder: Path) -> None:
    [epoch] = folder.iterdir()
    for file in epoch.glob("*"):
        file.write_bytes(b"")


@pytest.mark.parametrize("damage", [deleted, truncated, empty])
def test_a_damaged_index_is_made_anew_and_knows_every_key(stored: Stored, damage: Callable[[Path], None]) -> None:
    damage(stored.index)
    more(stored)
    stored.decide_all()
    assert_whole(stored)


def test_an_index_of_another_journal_is_made_anew_and_knows_every_key_of_this_one(
    stored: Stored, tmp_path: Path
) -> None:
    other = Stored(tmp_path / "other")
    other.folder.mkdir()
    for event_id in ("g", "i", "x", "y", "z", "dead-w"):
        other.kafka.post(event_id)
    other.decide_all()
    shutil.rmtree(stored.index)
    shutil.copytree(other.index, stored.index)
    more(stored)
    stored.decide_all()
    assert_whole(stored)


def test_deleted_postings_are_appended_again_from_the_first_row(stored: Stored) -> None:
    shutil.rmtree(stored.postings)
    more(stored)
    stored.decide_all()
    assert_whole(stored)


# the journal itself is damaged


def last_entry(stored: Stored) -> Path:
    return max(stored.journal.glob("_delta_log/*.json"))


def last_file(stored: Stored) -> Path:
    return max(stored.journal.glob("*.parquet"), key=lambda file: file.stat().st_mtime)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.98])
def test_a_log_entry_that_ends_half_way_stops_the_start_and_says_what_to_do(stored: Stored, share: float) -> None:
    entry = last_entry(stored)
    whole = entry.read_bytes()
    entry.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(JournalBroken, match=f"{entry.name}.*Restore the journal"):
        stored.open()
    entry.write_bytes(whole)
    more(stored)
    stored.decide_all()
    assert_whole(stored)


def test_commits_that_are_gone_while_their_postings_are_there_stop_the_start(stored: Stored) -> None:
    """A lake that was restored in part: deciding the offsets again could book other amounts under old numbers."""
    before = len(list(stored.journal.glob("_delta_log/*.json")))
    more(stored)
    stored.decide_all()
    for entry in sorted(stored.journal.glob("_delta_log/*.json"))[before:]:
        entry.unlink()
    with pytest.raises(JournalOlder, match="payhook recover"):
        stored.open()


def test_a_missing_data_file_stops_the_start_when_it_is_the_last_one(stored: Stored) -> None:
    last_file(stored).unlink()
    with pytest.raises(JournalBroken, match="Restore the journal"):
        stored.open()


def test_a_missing_data_file_stops_whoever_reads_it(stored: Stored) -> None:
    first = min(stored.journal.glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    first.unlink()
    shutil.rmtree(stored.index)
    with pytest.raises(JournalBroken, match="Restore the journal"):
        stored.open()


def test_a_journal_that_vanished_is_not_taken_for_a_new_one(stored: Stored) -> None:
    """The disk with the lake isn't there: the index on another disk still knows that something was decided."""
    shutil.move(stored.folder / "lake", stored.folder / "unmounted")
    with pytest.raises(JournalBroken, match="index"):
        stored.open()
    shutil.rmtree(stored.folder / "lake")
    shutil.move(stored.folder / "unmounted", stored.folder / "lake")
    more(stored)
    stored.decide_all()
    assert_whole(stored)


# two processes


def test_a_process_that_was_overtaken_decides_nothing_more_and_does_not_take_over_again(
    stored: Stored, tmp_path: Path
) -> None:
    ours = Tenure("ours")
    stale = stored.open(ours)
    fresh = stored.open(Tenure("theirs"))
    more(stored)
    with pytest.raises(Fenced):
        stored.decide(stale)
    stale.release()
    with pytest.raises(Fenced, match="theirs"):
        stored.open(ours)
    stored.decide(fresh)
    fresh.close()
    assert_whole(stored)
