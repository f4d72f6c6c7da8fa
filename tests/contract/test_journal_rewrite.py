"""Files that are put in place of others, beside the table's writer; what wrote them is equal: here it isn't Spark."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import journal.log
import journal.rewrite
from journal.append import Appender, TableUnfit, compute_file_statistics
from journal.bodies import BodyStore
from journal.errors import Fenced
from journal.log import AppTransaction, NotCommitted, Overtaken
from journal.reader import JournalReader
from journal.rewrite import Rewriter, Snapshot, replace_all, take_snapshot
from journal.storage import DiskStorage
from journal.writer import JournalWriter
from tests.contract.test_journal_append import made, read
from tests.contract.test_journal_append import rows as numbered
from tests.unit.journal.rows import NOW, begin_journal, marks, row, sha

NOW_MS = 1_800_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def commit(writer: JournalWriter, *seqs: int) -> None:
    writer.commit([row(seq, due_at=NOW, reason="größer") for seq in seqs], marks(seqs[-1]), seqs[-1] - 1, {"note": "n"})


def rewrite(path: Path, before: Snapshot | None = None, rewriter: Rewriter | None = None) -> None:
    """All of a snapshot's files into one."""
    before = before or take_snapshot(path, "seq")
    staged = path / "_staged.parquet"
    tables = [pq.read_table(path / one.name) for one in sorted(before.files, key=lambda one: one.first or 0)]
    pq.write_table(pa.concat_tables(tables), staged, row_group_size=3)
    (rewriter or Rewriter(before)).replace_files(before.files, [staged], NOW_MS)


def seqs(path: Path) -> list[int]:
    return [one.seq for rows in JournalReader(str(path)).rows_after(0) for one in rows]


def entries(path: Path) -> list[Path]:
    return sorted(Path(path, "_delta_log").glob("0*.json"))


PUT_NEW = DiskStorage.put_new


def put_twice(storage: DiskStorage, name: str, data: bytes) -> None:
    """As a network's file system does it, that tries again after its first try came through."""
    PUT_NEW(storage, name, data)
    PUT_NEW(storage, name, data)


def test_rows_are_the_same_and_files_are_fewer(path: Path) -> None:
    writer = begin_journal(path)
    for seq in range(1, 9):
        commit(writer, seq)
    rows = [one for chunk in JournalReader(str(path)).rows_after(0) for one in chunk]
    rewrite(path)
    reader = JournalReader(str(path))
    assert [one for chunk in reader.rows_after(0) for one in chunk] == rows
    assert reader.last_seq == 8
    assert len(DeltaTable(str(path)).file_uris()) == 1


def test_the_log_says_of_a_new_file_what_an_append_of_its_rows_would(path: Path) -> None:
    writer = begin_journal(path)
    for seq in range(1, 8):
        commit(writer, seq)
    rewrite(path)
    (found,) = take_snapshot(path, "seq").files
    reported = compute_file_statistics(path / found.name, take_snapshot(path).indexed)
    assert (found.rows, found.first, found.last) == (7, 1, 7)
    assert reported["minValues"]["topic"] == reported["maxValues"]["topic"] == "payments.events"
    assert (reported["minValues"]["offset"], reported["maxValues"]["offset"]) == (0, 6)
    assert set(reported["nullCount"].values()) == {0}


def test_the_running_writer_goes_on_and_a_stale_one_stays_refused(path: Path) -> None:
    stale = begin_journal(path)
    commit(stale, 1)
    live = begin_journal(path)
    commit(live, 2)
    rewrite(path)
    for _ in range(2):
        with pytest.raises(Fenced):
            commit(stale, 2)
    commit(live, 3)
    rewrite(path)
    commit(live, 4)
    assert seqs(path) == [1, 2, 3, 4]


def test_a_writer_that_commits_all_the_while_loses_nothing(path: Path) -> None:
    """Spark's own commits on a local disk would: they rename onto an entry that was put a moment before."""
    writer = begin_journal(path)
    stop, rewritten = threading.Event(), threading.Semaphore(0)

    def maintain() -> None:
        while not stop.is_set():
            rewrite(path)
            rewritten.release()

    commit(writer, 1)
    with ThreadPoolExecutor(1) as pool:
        others = pool.submit(maintain)
        seq, rewrites = 1, 0
        try:
            while rewrites < 20 and seq < 2_000:
                seq += 1
                commit(writer, seq)
                assert seq % 3 or rewritten.acquire(timeout=60)
                rewrites = (writer._appender.version if writer._appender else 0) - seq
        finally:
            stop.set()
        others.result()
    assert rewrites >= 20, "nobody committed in between: the test showed nothing"
    assert seqs(path) == list(range(1, seq + 1))


def test_a_night_of_maintenance_alone_leaves_the_state_as_it_was_told(path: Path) -> None:
    """The log's own clean-up takes everything before a checkpoint that is an hour old."""
    writer = begin_journal(path)
    for seq in range(1, 4):
        commit(writer, seq)
    reported = JournalReader(str(path)).state()
    for _ in range(3):
        rewrite(path)
    DeltaTable(str(path)).create_checkpoint()
    for entry in entries(path):
        os.utime(entry, (0, 0))
    DeltaTable(str(path)).cleanup_metadata()
    after = JournalReader(str(path)).state()
    assert len(entries(path)) == 1, "what the clean-up leaves is the last entry"
    assert (after.marks, after.start, after.chain, after.epoch, after.next_seq) == (
        reported.marks,
        reported.start,
        reported.chain,
        reported.epoch,
        reported.next_seq,
    )
    assert (after.published_upto, dict(after.notes)) == (2, {"note": "n"})


def test_a_checkpoint_beside_a_quiet_writer_takes_no_entry_from_it(path: Path) -> None:
    writer = begin_journal(path)
    commit(writer, 1)
    for _ in range(3):
        rewrite(path)
        for entry in entries(path):
            os.utime(entry, (0, 0))
        DeltaTable(str(path)).create_checkpoint()
    commit(writer, 2)
    assert seqs(path) == [1, 2]


def test_who_was_overtaken_by_another_rewrite_changes_nothing(path: Path) -> None:
    commit(begin_journal(path), 1, 2)
    before = take_snapshot(path, "seq")
    late = Rewriter(before)
    rewrite(path, before)
    files = sorted(path.glob("*.parquet"))
    for _ in range(2):
        with pytest.raises(Overtaken, match="removed a file"):
            rewrite(path, before, late)
    assert seqs(path) == [1, 2]
    assert sorted(path.glob("part-*.parquet")) == files, "what it had placed is gone again"


def test_a_change_of_the_table_refuses_a_rewrite(path: Path) -> None:
    commit(begin_journal(path), 1)
    before = take_snapshot(path, "seq")
    rewriter = Rewriter(before)
    DeltaTable(str(path)).alter.add_constraint({"small": "seq < 100"})
    with pytest.raises(Overtaken, match="metadata"):
        rewrite(path, before, rewriter)
    assert seqs(path) == [1]


def test_a_rewrite_that_slept_while_the_log_was_cleaned_is_refused(path: Path) -> None:
    writer = begin_journal(path)
    commit(writer, 1)
    before = take_snapshot(path, "seq")
    rewriter = Rewriter(before)
    commit(writer, 2)
    DeltaTable(str(path)).create_checkpoint()
    for entry in entries(path)[:-1]:
        entry.unlink()
    entries(path)[-1].rename(path / "away.json")
    with pytest.raises(NotCommitted, match="can't be read"):
        rewrite(path, before, rewriter)
    assert seqs(path) == [1, 2]


@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError])
def test_a_rewrite_that_ends_right_after_its_commit_leaves_the_files_that_it_names(
    path: Path, monkeypatch: pytest.MonkeyPatch, end: type[BaseException]
) -> None:
    writer = begin_journal(path)
    commit(writer, 1)

    def put_and_end(storage: DiskStorage, name: str, data: bytes) -> None:
        PUT_NEW(storage, name, data)
        raise end

    with monkeypatch.context() as patched:
        patched.setattr(DiskStorage, "put_new", put_and_end)
        with pytest.raises(end):
            rewrite(path)
    commit(writer, 2)
    assert seqs(path) == [1, 2]


def test_a_rewrite_whose_success_was_not_reported_keeps_its_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own entry must not look like somebody else's, who removed the files: it names the new ones."""
    commit(begin_journal(path), 1)
    with monkeypatch.context() as patched:
        patched.setattr(DiskStorage, "put_new", put_twice)
        rewrite(path)
    assert seqs(path) == [1]
    assert len(entries(path)) == take_snapshot(path).version + 1


def test_a_rewrite_that_was_refused_leaves_no_file_behind(path: Path) -> None:
    writer = begin_journal(path)
    for seq in (1, 2):
        commit(writer, seq)
    before, other = take_snapshot(path, "seq"), take_snapshot(path, "seq")
    late = Rewriter(before)
    rewrite(path, other)
    there = set(path.glob("*.parquet"))
    with pytest.raises(Overtaken):
        rewrite(path, before, late)
    assert set(path.glob("part-*.parquet")) <= there


def test_a_writer_that_is_always_quicker_ends_a_rewrite_not_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = begin_journal(path)
    commit(writer, 1)
    before = take_snapshot(path, "seq")
    put_new, seq = DiskStorage.put_new, iter(range(2, 100))

    class RacingCommitStorage(DiskStorage):
        def put_new(self, name: str, data: bytes) -> None:
            commit(writer, next(seq))
            put_new(self, name, data)

    monkeypatch.setattr(journal.log, "TRIES_MAX", 5)
    monkeypatch.setattr(journal.rewrite, "open_storage", RacingCommitStorage)
    with pytest.raises(NotCommitted, match="5 times"):
        rewrite(path, before)
    assert seqs(path) == [1, 2, 3, 4, 5, 6]


def test_an_append_only_table_keeps_every_row(path: Path) -> None:
    commit(begin_journal(path), 1)
    before = take_snapshot(path, "seq")
    with pytest.raises(Overtaken, match="append-only"):
        Rewriter(before).replace_files(before.files, [], NOW_MS, drops_rows=True)


def test_bodies_may_be_dropped_beside_their_writer(tmp_path: Path) -> None:
    bodies = BodyStore(str(tmp_path / "bodies"))
    for n in range(3):
        bodies.append([(sha(f"body {n}"), f"body {n}".encode())])
    before = take_snapshot(tmp_path / "bodies")
    first = min(before.files, key=lambda one: one.modified_ms)
    Rewriter(before).replace_files([first], [], NOW_MS, drops_rows=True)
    bodies.append([(sha("body 3"), b"body 3")])
    found = bodies.fetch([sha(f"body {n}") for n in range(4)])
    assert sorted(found.values()) == [b"body 1", b"body 2", b"body 3"]


def test_a_table_that_is_not_plain_is_left_alone(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), pa.schema([("n", pa.int64())]))
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    Path(tmp_path, "_delta_log", f"{1:020}.json").write_text(json.dumps(protocol), "utf-8")
    with pytest.raises(TableUnfit, match="deletion vectors"):
        take_snapshot(tmp_path)


def test_a_rewrite_says_that_no_row_changed_and_names_no_application(path: Path) -> None:
    """By an application id it would fence the writer off; a stream that reads the table would take rows twice."""
    commit(begin_journal(path), 1)
    rewrite(path)
    reported = [json.loads(line) for line in entries(path)[-1].read_text("utf-8").splitlines()]
    assert [next(iter(action)) for action in reported] == ["commitInfo", "remove", "add"]
    assert not reported[1]["remove"]["dataChange"] and not reported[2]["add"]["dataChange"]


# the whole table replaced


def replaced(path: Path, *numbers: int) -> int:
    file = path / "_staged.parquet"
    pq.write_table(numbered(*numbers), file)
    return replace_all(path, [file], AppTransaction("a", 9), {"payhook.mark": "9"}, NOW_MS)


def test_a_replacement_leaves_its_files_alone_and_moves_the_mark(tmp_path: Path) -> None:
    path = made(str(tmp_path / "table"))
    writer = Appender.open(path)
    for n in range(3):
        writer.append(numbered(n), AppTransaction("a", n))
    replaced(Path(path), 7, 8)
    assert (read(path), DeltaTable(path).transaction_version("a")) == ([7, 8], 9)
    with pytest.raises(Overtaken, match="concurrent transaction"):
        writer.append(numbered(3), AppTransaction("a", 3))


def test_what_is_committed_while_a_table_is_replaced_is_replaced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(str(tmp_path / "table"))
    writer, numbers = Appender.open(path), iter(range(3))

    class LateCommitStorage(DiskStorage):
        def put_new(self, name: str, data: bytes) -> None:
            for n in numbers:
                writer.append(numbered(n), AppTransaction("b", n))
            super().put_new(name, data)

    monkeypatch.setattr(journal.rewrite, "open_storage", LateCommitStorage)
    assert replaced(Path(path), 7) == 4
    assert read(path) == [7]


def test_a_replacement_whose_success_was_not_reported_names_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for somebody else's, its entry would be followed by another that removes its files and adds them again."""
    path = made(str(tmp_path / "table"))
    Appender.open(path).append(numbered(1))
    with monkeypatch.context() as patched:
        patched.setattr(DiskStorage, "put_new", put_twice)
        assert replaced(Path(path), 7) == 2
    assert (read(path), DeltaTable(path).version()) == ([7], 2)
