"""The fence and the table behind it, on real Delta."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from core.decision import Decision
from journal.append import Appender
from journal.errors import BatchInvalid, CommitUnknown, Fenced, JournalBroken, StorageDown
from journal.log import AppTransaction, Overtaken, entry_name, list_numbers
from journal.reader import JournalReader
from journal.schema import JOURNAL_SCHEMA, stamp_rows
from journal.state import JournalState, Marks
from journal.storage import open_storage
from journal.table import CONFIGURATION, CONSTRAINTS, create_table
from journal.writer import NOTES_CHARS_MAX, JournalWriter, Tenure
from tests.object_store.fixtures import EVERYWHERE, place_on
from tests.unit.journal.rows import STARTS, begin_journal, marks, row

CHECKOUT = Path(__file__).parents[2]
OTHERS_MIN = 10
COMMITS_MAX = 2_000
OVERTAKEN = 5
FENCE = AppTransaction("payhook-ledger", 1)


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return place_on(request, tmp_path)


def appender(writer: JournalWriter) -> Appender:
    assert writer._appender is not None
    return writer._appender


def seqs(path: str) -> list[int]:
    return [one.seq for rows in JournalReader(path).rows_after(0) for one in rows]


def actions(path: str, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in open_storage(path).read(entry_name(version)).splitlines()]


# the handle


def test_an_epoch_is_a_commit_of_metadata_and_the_application_id_alone(path: str) -> None:
    writer = JournalWriter.create_or_open(path, "ledger")
    version = writer.begin_epoch(STARTS).version
    info, txn = actions(path, version)
    assert txn["txn"]["appId"] == "payhook-ledger"
    assert info["commitInfo"]["payhook.epoch"] == "1"
    assert info["commitInfo"]["payhook.marks"] == '{"payments.events":{"0":0}}'


def test_one_appender_serves_the_epoch_and_every_commit_after_it(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is opened between the two may have seen the epoch of somebody else."""
    appenders: list[Appender] = []
    append = Appender.append

    def noted(one: Appender, *given: Any) -> int:
        appenders.append(one)
        return append(one, *given)

    monkeypatch.setattr(Appender, "append", noted)
    writer = begin_journal(path)
    for seq in (1, 2):
        writer.commit([row(seq)], marks(seq), 0)
    assert len(appenders) == 3 and all(one is appenders[0] for one in appenders)


def test_the_stale_appender_is_refused_each_time_it_is_tried(path: str) -> None:
    """Below the writer's own memory of having ended."""
    stale = begin_journal(path)
    stale.commit([row(1)], marks(1), 0)
    fresh = begin_journal(path)
    table = stamp_rows([row(2)], 1, 2)
    for _ in range(3):
        with pytest.raises(Overtaken):
            appender(stale).append(table, FENCE)
        assert appender(stale).version < appender(fresh).version
    fresh.commit([row(2)], marks(2), 0)
    with pytest.raises(Overtaken):
        appender(stale).append(table, FENCE)
    assert seqs(path) == [1, 2]


def test_after_each_commit_the_appender_stands_at_its_own_whatever_others_committed(path: str) -> None:
    """One that moved on to the newest version would have seen a later epoch."""
    writer = begin_journal(path)
    stop, tried = threading.Event(), threading.Semaphore(0)

    def maintain() -> None:
        while not stop.is_set():
            with contextlib.suppress(CommitFailedError):
                DeltaTable(path).optimize.compact()
            tried.release()

    with ThreadPoolExecutor(1) as pool:
        others = pool.submit(maintain)
        seq = 0
        try:
            while appender(writer).version < seq + OTHERS_MIN and seq < COMMITS_MAX:
                seq += 1
                assert seq % 3 or tried.acquire(timeout=60)
                committed = writer.commit([row(seq)], marks(seq), 0)
                info = next(one["commitInfo"] for one in actions(path, committed.version) if "commitInfo" in one)
                assert info["payhook.seq"] == str(seq)
                assert appender(writer).version == committed.version
        finally:
            stop.set()
        others.result()
    assert seqs(path) == list(range(1, seq + 1))
    assert seq < COMMITS_MAX, "nobody committed in between: the test showed nothing"


@EVERYWHERE
def test_a_writer_that_paused_for_longer_than_the_log_is_kept_is_refused(path: str) -> None:
    stale = begin_journal(path)
    stale.commit([row(1)], marks(1), 0)
    fresh = begin_journal(path)
    fresh.commit([row(2)], marks(2), 0)
    DeltaTable(path).create_checkpoint()
    for version in range(appender(fresh).version):
        open_storage(path).delete([entry_name(version)])
    for _ in range(2):
        with pytest.raises(CommitUnknown):
            stale.commit([row(2)], marks(2), 0)
    assert seqs(path) == [1, 2]
    fresh.commit([row(3)], marks(3), 0)


# more than one writer


@EVERYWHERE
def test_starters_that_race_get_an_epoch_each_and_one_of_them_commits(path: str) -> None:
    starters = 4
    writers = [JournalWriter.create_or_open(path, "ledger") for _ in range(starters)]
    together = threading.Barrier(starters)

    def start(writer: JournalWriter) -> int:
        together.wait()
        return writer.begin_epoch(STARTS).epoch

    with ThreadPoolExecutor(starters) as pool:
        epochs = list(pool.map(start, writers))
    assert sorted(epochs) == [1, 2, 3, 4]
    for epoch, writer in zip(epochs, writers, strict=True):
        if epoch == starters:
            writer.commit([row(1)], marks(1), 0)
        else:
            with pytest.raises(Fenced):
                writer.commit([row(1)], marks(1), 0)
    assert seqs(path) == [1]


@EVERYWHERE
def test_starters_that_race_for_a_table_that_is_not_there_yet_make_one(path: str) -> None:
    starters = 4
    together = threading.Barrier(starters)

    def make(_: int) -> None:
        together.wait()
        create_table(path, "ledger")

    with ThreadPoolExecutor(starters) as pool:
        list(pool.map(make, range(starters)))
    configuration = DeltaTable(path).metadata().configuration
    assert all(f"delta.constraints.{name}" in configuration for name in CONSTRAINTS)
    begin_journal(path).commit([row(1)], marks(1), 0)


@EVERYWHERE
def test_an_epoch_is_begun_beside_a_writer_that_goes_on_committing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first tries each read a state that a commit overtakes before they write."""
    live, other = begin_journal(path), JournalWriter.create_or_open(path, "ledger")
    next_epoch, committed = JournalWriter._next_epoch, [0]

    def overtaken(
        writer: JournalWriter, version: int, starts: Marks, tenure: Tenure | None, topic_ids: Mapping[str, str]
    ) -> JournalState:
        state = next_epoch(writer, version, starts, tenure, topic_ids)
        if len(committed) <= OVERTAKEN:
            seq = committed[-1] + 1
            live.commit([row(seq)], marks(seq), 0)
            committed.append(seq)
        return state

    monkeypatch.setattr(JournalWriter, "_next_epoch", overtaken)
    state = other.begin_epoch(STARTS)
    last = committed[-1]
    assert last == OVERTAKEN
    assert (state.next_seq, state.marks) == (last + 1, marks(last))
    with pytest.raises(Fenced):
        live.commit([row(last + 1)], marks(last + 1), 0)
    other.commit([row(last + 1)], marks(last + 1), 0)
    assert seqs(path) == list(range(1, last + 2))


PAUSED_WRITER = """
import sys
from journal.writer import NOTES_CHARS_MAX, JournalWriter
from tests.object_store.fixtures import EVERYWHERE, place_on
from tests.unit.journal.rows import begin_journal, STARTS, marks, row
writer = JournalWriter.create_or_open(sys.argv[1], "ledger")
writer.begin_epoch(STARTS)
writer.commit([row(1)], marks(1), 0)
for _ in range(2):
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        writer.commit([row(2)], marks(2), 0)
    except Exception as refused:
        print(type(refused).__name__, flush=True)
"""


@EVERYWHERE
def test_a_process_that_was_paused_and_wakes_after_its_successors_epoch_is_refused(path: str) -> None:
    command = [sys.executable, "-c", PAUSED_WRITER, path]
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as paused:
        assert paused.stdin is not None and paused.stdout is not None
        assert paused.stdout.readline() == "ready\n"
        os.kill(paused.pid, signal.SIGSTOP)
        successor = begin_journal(path)
        os.kill(paused.pid, signal.SIGCONT)
        answers, _ = paused.communicate("go\ngo\n", timeout=60)
    assert answers.split() == ["Fenced", "ready", "Fenced"]
    successor.commit([row(2)], marks(2), 0)
    assert seqs(path) == [1, 2]


# the table


def test_rows_can_be_neither_changed_nor_deleted(path: str) -> None:
    begin_journal(path).commit([row(1)], marks(1), 0)
    with pytest.raises(DeltaError):
        DeltaTable(path).delete("seq = 1")
    with pytest.raises(DeltaError):
        DeltaTable(path).update(updates={"decision": "'dead'"}, predicate="seq = 1")


def test_a_row_that_breaks_a_constraint_is_refused_and_the_writer_goes_on(path: str) -> None:
    writer = begin_journal(path)
    wrong = row(1)
    wrong.decision = "delivered"  # type: ignore[assignment]
    with pytest.raises(BatchInvalid):
        writer.commit([wrong], marks(1), 0)
    with pytest.raises(BatchInvalid):
        writer.commit([row(1, attempt=-1)], marks(1), 0)
    writer.commit([row(1, decision=Decision.DEAD)], marks(1), 0)
    assert seqs(path) == [1]


def test_a_note_that_is_too_large_or_would_hide_the_journals_own_state_is_refused(path: str) -> None:
    writer = begin_journal(path)
    for notes in ({"marks": "{}"}, {"Breakers": "{}"}, {"breakers": "x" * (NOTES_CHARS_MAX + 1)}):
        with pytest.raises(BatchInvalid):
            writer.commit([row(1)], marks(1), 0, notes)
    writer.commit([row(1)], marks(1), 0, {"breakers": "é" * 1_000})
    assert JournalReader(path).state().notes == {"breakers": "é" * 1_000}


def test_a_table_whose_maker_died_half_way_is_completed(path: str) -> None:
    DeltaTable.create(path, JOURNAL_SCHEMA, configuration=CONFIGURATION)
    begin_journal(path)
    configuration = DeltaTable(path).metadata().configuration
    assert all(f"delta.constraints.{name}" in configuration for name in CONSTRAINTS)


def test_another_table_in_its_place_is_refused(path: str) -> None:
    DeltaTable.create(path, JOURNAL_SCHEMA.remove(0))
    with pytest.raises(JournalBroken):
        JournalWriter.create_or_open(path, "ledger")


def test_a_failure_that_tells_nothing_ends_the_writer(path: str) -> None:
    writer = begin_journal(path)
    Path(path, "_delta_log").rename(Path(path, "gone"))
    with pytest.raises(CommitUnknown):
        writer.commit([row(1)], marks(1), 0)
    Path(path, "gone").rename(Path(path, "_delta_log"))
    with pytest.raises(CommitUnknown):
        writer.commit([row(1)], marks(1), 0)


def test_an_epoch_that_may_or_may_not_have_begun_is_no_sign_of_another_processor(path: str) -> None:
    writer = JournalWriter.create_or_open(path, "ledger")
    DeltaTable(path).create_checkpoint()
    last_checkpoint = Path(path, "_delta_log", "_last_checkpoint")
    reported = last_checkpoint.read_text("utf-8")
    appended = Appender.append

    def torn(one: Appender, *given: Any) -> int:
        last_checkpoint.write_text("{", "utf-8")
        return appended(one, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Appender, "append", torn)
        with pytest.raises(StorageDown, match="last checkpoint"):
            writer.begin_epoch(STARTS)
    last_checkpoint.write_text(reported, "utf-8")
    assert writer.begin_epoch(STARTS).epoch == 1


def test_the_state_can_be_read_from_the_rows_when_the_log_no_longer_has_it(path: str) -> None:
    writer = begin_journal(path)
    writer.commit([row(1), row(2)], marks(2), 0)
    writer.commit([row(3)], marks(3), 0)
    reported = JournalReader(path).state()
    DeltaTable(path).create_checkpoint()
    for number in list_numbers(open_storage(path)):
        open_storage(path).delete([entry_name(number)])
    rebuilt = JournalReader(path).state()
    assert (rebuilt.epoch, rebuilt.marks, rebuilt.start) == (reported.epoch, reported.marks, reported.start)
    assert (rebuilt.next_seq, rebuilt.chain) == (reported.next_seq, reported.chain)


def test_a_state_is_that_of_its_version_and_no_later_one(path: str) -> None:
    writer = begin_journal(path)
    committed = writer.commit([row(1)], marks(1), 0)
    writer.commit([row(2)], marks(2), 0)
    assert JournalReader(path, committed.version).state().marks == marks(1)
