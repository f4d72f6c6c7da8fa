"""Delta fails under a running stream: it pauses, says why, and goes on by itself with nothing lost or twice."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from core.clock import ManualClock, SystemClock
from journal.errors import Fenced
from journal.lease import LAPSES_S
from journal.reader import JournalReader
from journal.writer import OWNER_NOTE, Tenure
from load.client import wait_for
from processor import application
from processor.application import StreamLoop
from tests.integration.processor.stored import Stored, StoredStream, lease_of

pytestmark = pytest.mark.more(reason="storage that is away for seconds of real time")

CHECKOUT = Path(__file__).parents[3]
GOES_ON_S = 60.0


class Running:
    """The stream's loop, on its thread."""

    def __init__(self, stored: Stored) -> None:
        self.stream = StoredStream(stored)
        self.outages = self.stream.outages
        self.loop = StreamLoop(self.stream, self.stream, SystemClock(), lambda _: False)
        self.loop.start()

    def stop(self) -> None:
        self.loop.stop()
        self.loop.join(GOES_ON_S)
        assert not self.loop.is_alive


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    made = Stored(tmp_path)
    for event_id in ("a", "b", "dead-c"):
        made.kafka.post(event_id)
    made.decide_all()
    return made


@pytest.fixture
def running(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(application, "OUTAGE_S_FIRST", 0.05)
    monkeypatch.setattr(application, "OUTAGE_S_MAX", 0.2)
    made = Running(stored)
    yield made
    made.stop()


def decided(stored: Stored, count: int) -> bool:
    return wait_for(lambda: len(stored.rows()) >= count, GOES_ON_S)


def log_moved_away(table: Path) -> Callable[[], None]:
    """The disk with the table isn't there. Returns what brings it back."""
    log, gone = table / "_delta_log", table / "gone"
    shutil.move(log, gone)

    def bring_back() -> None:
        shutil.move(gone, log)

    return bring_back


def next_commit_barred(table: Path) -> Callable[[], None]:
    """The log's next entry can't be written. Returns what mends that."""
    entry = table / "_delta_log" / f"{DeltaTable(str(table)).version() + 1:020}.json"
    entry.mkdir()
    return entry.rmdir


@pytest.mark.parametrize(
    ("table", "fail", "named"),
    [
        ("journal", log_moved_away, "CommitUnknown"),
        ("bodies", log_moved_away, "StorageDown"),
        ("postings", next_commit_barred, "PostingsRefused"),
    ],
)
def test_a_table_that_cannot_be_committed_to_pauses_the_stream_until_it_can(
    stored: Stored, running: Running, table: str, fail: Callable[[Path], Callable[[], None]], named: str
) -> None:
    stored.kafka.post("d")
    assert decided(stored, 4)
    epoch = JournalReader(str(stored.journal)).state().epoch
    mend = fail(stored.folder / "lake" / table)
    for event_id in ("e", "a", "dead-f"):
        stored.kafka.post(event_id)
    assert wait_for(lambda: len(running.outages) > 3, GOES_ON_S), "it says that it pauses"
    assert running.outages[0].startswith(named)
    assert running.loop.is_alive
    mend()
    assert decided(stored, 7)
    assert wait_for(stored.is_booked, GOES_ON_S), "the postings follow"
    running.stop()
    assert running.loop.failure is None
    assert running.stream.failures == []
    stored.check()
    wanted = {name: ["applied"] for name in "bde"} | {"a": ["applied", "duplicate"]}
    assert stored.decisions() == wanted | {"dead-c": ["dead"], "dead-f": ["dead"]}
    assert JournalReader(str(stored.journal)).state().epoch > epoch


def test_a_journal_that_another_process_took_during_the_outage_is_left_to_it(stored: Stored, running: Running) -> None:
    stored.kafka.post("d")
    assert decided(stored, 4)
    log = stored.journal / "_delta_log"
    shutil.move(log, log.with_name("gone"))
    stored.kafka.post("e")
    assert wait_for(lambda: bool(running.outages), GOES_ON_S)
    clock = ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
    lease = lease_of(stored, "theirs", clock)
    while not lease.take_lease():
        clock.advance(LAPSES_S)
    copy = stored.folder / "taken"
    shutil.copytree(stored.journal, copy)
    shutil.move(copy / "gone", copy / "_delta_log")
    taker = Stored(stored.folder)
    taker.journal, taker.index = copy, stored.folder / "index-of-taker"
    taker.open(Tenure("theirs")).close()
    shutil.move(copy / "_delta_log", log)
    assert wait_for(lambda: bool(running.stream.holders), GOES_ON_S)
    assert running.stream.holders[0].owner == "theirs"
    assert running.loop.is_alive and not running.loop.runs, "it stands by"
    assert all(isinstance(failure, Fenced) for failure in running.stream.failures)
    state = JournalReader(str(stored.journal)).state()
    assert state.notes[OWNER_NOTE] == "theirs"
    lease.release()
    assert decided(stored, 5)


def test_a_writer_that_was_fenced_by_another_process_begins_no_epoch_without_its_lease(
    stored: Stored, running: Running
) -> None:
    """The fence alone is what keeps the journal safe: the other one is seen before the lease is."""
    stored.kafka.post("d")
    assert decided(stored, 4)
    taker = Stored(stored.folder)
    taker.index = stored.folder / "index-of-taker"
    taker.open(Tenure("theirs")).close()
    stored.kafka.post("e")
    assert wait_for(lambda: bool(running.stream.failures), GOES_ON_S)
    [failure] = running.stream.failures
    assert isinstance(failure, Fenced)
    assert decided(stored, 5), "no other process has the lease: it goes on"


def test_every_write_is_refused_for_a_while_and_the_stream_goes_on_by_itself(tmp_path: Path) -> None:
    """As on a full disk: journal, bodies, postings, index, notes, all at once. `make test-faults` has real ones."""
    command = [sys.executable, "-m", "tests.integration.processor.on_a_small_disk", str(tmp_path), "limit"]
    ran = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=150, check=False)
    assert ran.returncode == 0, ran.stderr[-3_000:]
    assert any("File too large" in reason for reason in json.loads(ran.stdout)), ran.stdout
