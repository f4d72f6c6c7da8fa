"""Marks, what a batch must account for, and in which Delta commit rows became true."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from journal.errors import BatchInvalid, JournalBroken
from journal.state import Marks, check_movement, commits_of, marks_from_json, marks_to_json, with_starts
from tests.unit.journal.rows import begin_journal, marks, row

BEFORE: Marks = {"a": {0: 5, 1: 0}, "b": {0: 2}}


def test_marks_survive_their_json_whatever_the_order() -> None:
    text = marks_to_json({"b": {0: 2}, "a": {11: 1, 2: 5}})
    assert text == '{"a":{"2":5,"11":1},"b":{"0":2}}'
    assert marks_from_json(text) == {"a": {2: 5, 11: 1}, "b": {0: 2}}


def test_a_start_never_moves_a_partition_that_is_known() -> None:
    assert with_starts(BEFORE, {"a": {0: 9, 2: 7}, "c": {0: 1}}) == {"a": {0: 5, 1: 0, 2: 7}, "b": {0: 2}, "c": {0: 1}}


def test_offsets_that_the_marks_pass_have_one_first_row_each() -> None:
    rows = [row(1, 5, topic="a"), row(2, 6, topic="a"), row(3, 2, topic="b"), row(4, 5, first=False, item_seq=1)]
    check_movement(rows, BEFORE, {"a": {0: 7, 1: 0}, "b": {0: 3}})


@pytest.mark.parametrize(
    ("rows", "after"),
    [
        ([], {"a": {0: 6, 1: 0}, "b": {0: 2}}),
        ([row(1, 5, topic="a")], BEFORE),
        ([row(1, 6, topic="a")], {"a": {0: 7, 1: 0}, "b": {0: 2}}),
        ([row(1, 5, topic="a"), row(2, 5, topic="a")], {"a": {0: 6, 1: 0}, "b": {0: 2}}),
        ([row(1, 5, topic="a")], {"a": {0: 6, 1: 0}}),
        ([row(1, 0, topic="c")], {**BEFORE, "c": {0: 1}}),
        ([], {**BEFORE, "c": {0: 1}}),
        ([], {"a": {0: 4, 1: 0}, "b": {0: 2}}),
        ([row(7, 5, topic="a", item_seq=3)], {"a": {0: 6, 1: 0}, "b": {0: 2}}),
        ([row(7, 5, topic="a", first=False)], BEFORE),
    ],
    ids=[
        "an offset without a row",
        "a row beyond the marks",
        "a hole",
        "an offset decided twice",
        "a partition dropped",
        "a topic that no epoch named",
        "a mark that no epoch named",
        "a mark that goes back",
        "a first row of another item",
        "a later row that is its item's first",
    ],
)
def test_anything_else_is_refused(rows: list[object], after: Marks) -> None:
    with pytest.raises(BatchInvalid):
        check_movement(rows, BEFORE, after)  # type: ignore[arg-type]


@pytest.fixture
def journal(tmp_path: Path) -> str:
    """Seven commits of two rows: batches 1, 3, 5 … 13; a compaction after the third."""
    path = str(tmp_path / "journal")
    writer = begin_journal(path)
    for seq in range(1, 15, 2):
        writer.commit([row(seq), row(seq + 1)], marks(seq + 1), 0)
        if seq == 5:
            DeltaTable(path).optimize.compact()
    return path


def test_each_batch_is_found_with_its_version_and_time(journal: str) -> None:
    found = commits_of(journal, list(range(1, 15, 2)))
    assert sorted(found) == [1, 3, 5, 7, 9, 11, 13]
    infos = {info["version"]: info for info in DeltaTable(journal).history()}
    for batch_seq, commit in found.items():
        assert infos[commit.version]["payhook.batch_seq"] == str(batch_seq)
        assert abs(commit.committed_at - datetime.now(UTC)) < timedelta(minutes=5)


@pytest.mark.parametrize("batch_seq", [0, 2, 15, 10**12])
def test_what_is_no_batch_has_no_commit(batch_seq: int, journal: str) -> None:
    assert commits_of(journal, [batch_seq]) == {}


def test_what_was_cleaned_up_is_not_found_and_the_rest_is(journal: str) -> None:
    log = Path(journal) / "_delta_log"
    before = commits_of(journal, [9])
    DeltaTable(journal).create_checkpoint()
    for entry in sorted(log.glob("*.json"))[:-4]:
        entry.unlink()
    found = commits_of(journal, list(range(1, 15, 2)))
    assert found == before | {seq: found[seq] for seq in (7, 11, 13)}


def test_of_a_log_of_maintenance_alone_nothing_is_found(journal: str) -> None:
    DeltaTable(journal).optimize.compact()
    DeltaTable(journal).create_checkpoint()
    for entry in sorted((Path(journal) / "_delta_log").glob("*.json"))[:-1]:
        entry.unlink()
    assert commits_of(journal, [1, 13]) == {}


def test_a_torn_entry_is_an_error(journal: str) -> None:
    for entry in (Path(journal) / "_delta_log").glob("*.json"):
        entry.write_bytes(entry.read_bytes()[:-30])
    with pytest.raises(JournalBroken, match="isn't whole"):
        commits_of(journal, [7])


def test_where_no_log_is_nothing_is_found(tmp_path: Path) -> None:
    assert commits_of(str(tmp_path), [1]) == {}


def test_a_log_that_cannot_be_listed_is_an_error(journal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("Permission denied")

    monkeypatch.setattr("journal.storage.DiskStorage.files", refused)
    with pytest.raises(JournalBroken, match="can't be listed"):
        commits_of(journal, [1])
