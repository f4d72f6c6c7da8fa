"""In which Delta commit rows became true."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from journal.errors import JournalBroken
from journal.state import commits_of
from journal.writer import JournalWriter
from tests.unit.journal.rows import STARTS, marks, row


@pytest.fixture
def journal(tmp_path: Path) -> str:
    """Seven commits of two rows: batches 1, 3, 5 … 13; a compaction after the third."""
    path = str(tmp_path / "journal")
    writer = JournalWriter.create_or_open(path, "ledger")
    writer.begin_epoch(STARTS)
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
