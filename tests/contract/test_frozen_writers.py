"""Writers that stand still (SIGSTOP, a sleeping machine) while maintenance removes files that no commit names."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import journal.rewrite
from journal.append import Appender
from journal.errors import CommitUnknown
from journal.log import COMMIT_S_MAX, AppTransaction, NotCommitted, OutcomeUnknown, list_numbers
from journal.reader import JournalReader
from journal.rewrite import Rewriter, replace_all, take_snapshot
from journal.storage import DiskStorage
from journal.writer import JournalWriter
from ledger.maintain.redact import IN_FLIGHT_S_MAX
from ledger.maintain.retention import list_data_files, vacuum_table
from ledger.settings import MaintainSettings
from tests.contract.test_journal_append import made, read, rows
from tests.unit.journal.rows import STARTS, begin_journal, marks, row

RETENTION = timedelta(hours=1)
FROZEN = 3 * RETENTION
NOW_MS = 1_800_000_000_000


@dataclass(slots=True)
class Machine:
    """A table's maintenance, and the time since the machine was booted as its writers see it."""

    path: Path
    since_boot_s: float = 0.0

    def freeze(self) -> None:
        """Writers stand still; everything on the disk ages meanwhile, and then maintenance comes."""
        self.since_boot_s += FROZEN.total_seconds()
        for one in self.path.rglob("*.parquet"):
            aged = one.stat().st_mtime - FROZEN.total_seconds()
            os.utime(one, (aged, aged))
        now = datetime.now(UTC)
        vacuum_table(self.path, now, now - RETENTION)

    def elapsed_s(self) -> float:
        return self.since_boot_s


class Freezing(DiskStorage):
    """A disk on which the writer is frozen, once: after a data file was written, or before the log's entry is put."""

    def __init__(self, machine: Machine, where: str) -> None:
        super().__init__(machine.path)
        self.machine = machine
        self.where = where

    def put_file(self, name: str, data: bytes | pa.Buffer) -> None:
        super().put_file(name, data)
        self._at("file")

    def adopt_file(self, staged: Path, name: str) -> None:
        super().adopt_file(staged, name)
        self._at("file")

    def put_new(self, name: str, data: bytes) -> None:
        self._at("entry")
        super().put_new(name, data)

    def _at(self, where: str) -> None:
        if self.where == where:
            self.where = ""
            self.machine.freeze()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(Path(made(str(tmp_path / "table"))))


def appender(machine: Machine, where: str) -> Appender:
    opened = Appender.open(str(machine.path), elapsed_s=machine.elapsed_s)
    opened.log.storage = Freezing(machine, where)
    return opened


def staged(machine: Machine, table: pa.Table) -> Path:
    file = machine.path / "_staged.parquet"
    pq.write_table(table, file)
    return file


def names(machine: Machine) -> set[str]:
    return {one.name for one in list_data_files(machine.path)}


def test_a_file_that_was_written_before_the_writer_froze_is_not_committed(machine: Machine) -> None:
    one = appender(machine, "file")
    with pytest.raises(NotCommitted, match="nothing was committed"):
        one.append(rows(1), AppTransaction("a", 1))
    assert (list_numbers(one.log.storage), read(str(machine.path))) == ([0], [])
    assert one.append(rows(2), AppTransaction("a", 2)) == 1
    assert read(str(machine.path)) == [2]


def test_nor_is_one_that_somebody_else_wrote(machine: Machine) -> None:
    one = appender(machine, "file")
    with pytest.raises(NotCommitted, match="nothing was committed"):
        one.append_files([staged(machine, rows(1))])
    assert (list_numbers(one.log.storage), read(str(machine.path))) == ([0], [])


def test_a_file_whose_commit_came_too_late_is_removed(machine: Machine) -> None:
    times = iter([0.0, COMMIT_S_MAX + 1])
    one = Appender.open(str(machine.path), elapsed_s=lambda: next(times))
    with pytest.raises(NotCommitted, match="nothing was committed"):
        one.append(rows(1))
    assert not names(machine)


def test_time_that_the_commits_of_others_take_counts(machine: Machine) -> None:
    times = iter([0.0, COMMIT_S_MAX - 1, COMMIT_S_MAX + 1])
    one = Appender.open(str(machine.path), elapsed_s=lambda: next(times))
    Appender.open(str(machine.path)).append(rows(1))
    with pytest.raises(NotCommitted, match="nothing was committed"):
        one.append(rows(2))
    assert read(str(machine.path)) == [1]
    assert len(names(machine)) == 1


def test_rows_whose_entry_was_put_too_late_can_be_read(machine: Machine) -> None:
    """Between the last look at the clock and the put there is time too; the entry then names a file that is gone."""
    one = appender(machine, "entry")
    with pytest.raises(OutcomeUnknown, match="took too long"):
        one.append(rows(1))
    assert read(str(machine.path)) == [1]


@pytest.mark.parametrize("where", ["file", "entry"])
def test_a_journals_writer_that_was_frozen_ends_and_the_next_one_goes_on(tmp_path: Path, where: str) -> None:
    machine = Machine(tmp_path / "journal")
    writer = begin_journal(str(machine.path))
    opened = writer._appender
    assert opened is not None
    opened.log.elapsed_s, opened.log.storage = machine.elapsed_s, Freezing(machine, where)
    for _ in range(2):
        with pytest.raises(CommitUnknown):
            writer.commit([row(1)], marks(1), 0)
    after = JournalWriter.create_or_open(str(machine.path), "ledger")
    state = after.begin_epoch(STARTS)
    assert state.next_seq == {"file": 1, "entry": 2}[where]
    after.commit([row(state.next_seq)], marks(state.next_seq), 0)
    seqs = [one.seq for some in JournalReader(str(machine.path)).rows_after(0) for one in some]
    assert seqs == list(range(1, state.next_seq + 1))


def test_a_rewrite_that_was_frozen_before_its_commit_changes_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Appender.open(str(machine.path)).append(rows(1))
    before, there = take_snapshot(machine.path, "n"), names(machine)
    monkeypatch.setattr(journal.rewrite, "open_storage", lambda _: Freezing(machine, "file"))
    rewriter = Rewriter(before, machine.elapsed_s)
    with pytest.raises(NotCommitted, match="more than 600 s"):
        rewriter.replace_files(before.files, [staged(machine, rows(1))], NOW_MS)
    assert (read(str(machine.path)), names(machine)) == ([1], there)
    rewriter.replace_files(before.files, [staged(machine, rows(1))], NOW_MS)
    assert read(str(machine.path)) == [1]


def test_of_a_rewrite_that_was_frozen_in_its_commit_nobody_knows(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Appender.open(str(machine.path)).append(rows(1))
    before, times = take_snapshot(machine.path, "n"), iter([0.0, 0.0, COMMIT_S_MAX + 1])
    rewriter = Rewriter(before, lambda: next(times))
    with pytest.raises(OutcomeUnknown, match="too long"):
        rewriter.replace_files(before.files, [staged(machine, rows(1))], NOW_MS)
    assert read(str(machine.path)) == [1], "the entry may count: its files must be there"


def test_a_rebuild_that_was_frozen_before_its_commit_changes_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Appender.open(str(machine.path)).append(rows(1))
    there = names(machine)
    monkeypatch.setattr(journal.rewrite, "open_storage", lambda _: Freezing(machine, "file"))
    with pytest.raises(NotCommitted, match="nothing was committed"):
        replace_all(machine.path, [staged(machine, rows(2))], AppTransaction("a", 1), {}, NOW_MS, machine.elapsed_s)
    assert (read(str(machine.path)), names(machine)) == ([1], there)


def test_a_file_is_as_old_as_it_is_in_the_tables_folder(machine: Machine) -> None:
    """Spark may have written it long before: maintenance goes by its age, and its commit is counted from here on."""
    file = staged(machine, rows(1))
    os.utime(file, (0, 0))
    DiskStorage(machine.path).adopt_file(file, "part.parquet")
    [found] = list_data_files(machine.path)
    assert abs(found.at.timestamp() - time.time()) < RETENTION.total_seconds() / 2


def test_a_commit_takes_less_time_than_whatever_removes_files_waits() -> None:
    with pytest.raises(ValueError, match="retention_h"):
        MaintainSettings(retention_h=0)
    assert timedelta(seconds=2 * COMMIT_S_MAX) <= timedelta(seconds=IN_FLIGHT_S_MAX) < timedelta(hours=1)
