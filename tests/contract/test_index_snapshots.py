"""Snapshots of the index: a processor without one begins with the newest that fits its journal, and reads the rest."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rocksdict import WriteBatch

from core.clock import ManualClock
from core.decision import Decision
from journal import snapshots
from journal.bodies import BodyStore
from journal.index import Index
from journal.reader import JournalReader
from journal.rocksdb_store import RocksDbStore
from journal.schema import JournalRow
from journal.snapshots import GRACE, StopSignal, load_newest, save_snapshot
from journal.storage import open_storage
from journal.writer import JournalWriter
from tests.unit.journal.rows import STARTS, marks, row, sha

BODY = b"a body that no snapshot holds"
NOW = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "ROWS_MIN", 5)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC))


class JournalWithSnapshots:
    """A journal, the index that follows it, and where its snapshots are."""

    def __init__(self, folder: Path, place: str) -> None:
        self.place, self._folder = place, folder
        self.journal = str(folder / "journal")
        self.bodies = BodyStore(str(folder / "bodies"))
        self.bodies.append([(sha("the body"), BODY)])
        self.writer = JournalWriter.create_or_open(self.journal, "ledger")
        self.writer.begin_epoch(STARTS)
        self.rows = 0
        self.index = Index.open(folder / "index", 1)
        self.index.catch_up(self.reader(), self.bodies)

    def decide(self, count: int) -> None:
        """So many rows more; each third one waits."""
        rows = [self._row(seq) for seq in range(self.rows + 1, self.rows + count + 1)]
        self.rows += count
        self.writer.commit(rows, marks(self.rows), 0)
        self.index.apply_rows(rows, {sha("the body"): BODY})

    def _row(self, seq: int) -> JournalRow:
        if seq % 3:
            return row(seq, fact_key=f"fact-{seq}", fact_sha256="ab" * 32)
        return row(seq, decision=Decision.PARKED, blocking=True, entity_key=f"e-{seq}", body_sha256=sha("the body"))

    def reader(self) -> JournalReader:
        return JournalReader(self.journal)

    def fresh(self) -> Index:
        """An index on an empty disk."""
        shutil.rmtree(self._folder / "fresh", ignore_errors=True)
        return Index.open(self._folder / "fresh", 2)

    def files(self) -> set[str]:
        return {one.name for one in open_storage(f"{self.place}/files").files()}

    def manifests(self) -> list[str]:
        return sorted(one.name for one in open_storage(self.place).files())


@pytest.fixture
def site(tmp_path: Path, place: str) -> Iterator[JournalWithSnapshots]:
    made = JournalWithSnapshots(tmp_path, place)
    yield made
    made.index.close()


def assert_same(index: Index, other: Index) -> None:
    assert (index.position, index.open_count(), index.dead_count()) == (
        other.position,
        other.open_count(),
        other.dead_count(),
    )
    assert list(index.event_entries()) == list(other.event_entries())
    assert list(index.open_items()) == list(other.open_items())
    assert list(index.read_places()) == list(other.read_places())


@pytest.mark.row("F5")
def test_an_empty_disk_begins_with_the_snapshot_and_catches_up_to_the_same_index(
    site: JournalWithSnapshots, clock: ManualClock
) -> None:
    site.decide(30)
    assert save_snapshot(site.index, site.place, clock) == 30
    site.decide(7)
    index = site.fresh()
    assert load_newest(index, site.place, site.reader()) == 30
    index.catch_up(site.reader(), site.bodies)
    site.index.catch_up(site.reader(), site.bodies)
    assert_same(index, site.index)
    head = next(index.queue("e-3"))
    assert head.body == BODY
    index.close()


def test_no_file_of_a_snapshot_holds_a_body(site: JournalWithSnapshots, clock: ManualClock) -> None:
    site.decide(30)
    save_snapshot(site.index, site.place, clock)
    storage = open_storage(f"{site.place}/files")
    assert site.files()
    assert not [name for name in site.files() if BODY in storage.read(name)]
    assert any(b"e-3" in storage.read(name) for name in site.files()), "what waits is in it"


def test_a_further_snapshot_puts_only_the_files_that_came_since(
    site: JournalWithSnapshots, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.decide(30)
    save_snapshot(site.index, site.place, clock)
    before = site.files()
    hashed: list[str] = []
    hash_of = snapshots._hash_of

    def recording(file: Path) -> str:
        hashed.append(file.name)
        return hash_of(file)

    monkeypatch.setattr(snapshots, "_hash_of", recording)
    site.decide(30)
    assert save_snapshot(site.index, site.place, clock) == 60
    assert {name for name in before if name in site.files()} == before
    known = [name for name in hashed if name.endswith(".sst")]
    assert len(known) == 1, "the file that came since; what the first one hashed isn't read again"


def test_a_snapshot_with_nearly_as_many_rows_is_enough(site: JournalWithSnapshots, clock: ManualClock) -> None:
    site.decide(30)
    assert save_snapshot(site.index, site.place, clock) == 30
    site.decide(4)
    assert save_snapshot(site.index, site.place, clock) is None
    site.decide(1)
    assert save_snapshot(site.index, site.place, clock) == 35


def test_one_goes_with_its_files_a_while_after_two_newer_ones_came(
    site: JournalWithSnapshots, clock: ManualClock
) -> None:
    for _ in range(4):
        site.decide(30)
        save_snapshot(site.index, site.place, clock)
    assert [name.lstrip("0") for name in site.manifests()] == ["1.json", "2.json", "3.json", "4.json"]
    many = site.files()
    clock.advance(GRACE.total_seconds() + 60)
    site.decide(30)
    save_snapshot(site.index, site.place, clock)
    assert [name.lstrip("0") for name in site.manifests()] == ["4.json", "5.json"]
    assert len(site.files()) < len(many)
    index = site.fresh()
    assert load_newest(index, site.place, site.reader()) == 150
    index.close()


def test_who_reads_one_finds_its_files_though_newer_ones_come(tmp_path: Path, clock: ManualClock) -> None:
    """A large index is read for minutes, and most of its files were written long before."""
    site = JournalWithSnapshots(tmp_path, str(tmp_path / "snapshots"))
    site.decide(30)
    save_snapshot(site.index, site.place, clock)
    [(_, read)] = snapshots._read_manifests(site.place)
    long_before = (clock.now() - 2 * GRACE).timestamp()
    for file in (tmp_path / "snapshots").rglob("*"):
        os.utime(file, (long_before, long_before))
    for _ in range(3):
        site.decide(30)
        save_snapshot(site.index, site.place, clock)
    assert set(read.files.values()) <= site.files()
    site.index.close()


def test_an_index_that_is_nearly_there_is_left(site: JournalWithSnapshots, clock: ManualClock) -> None:
    site.decide(30)
    save_snapshot(site.index, site.place, clock)
    index = site.fresh()
    index.catch_up(site.reader(), site.bodies)
    site.decide(20)
    assert load_newest(index, site.place, site.reader()) is None
    assert index.seq == 30
    index.close()


def unfit(site: JournalWithSnapshots, change: dict[str, object]) -> None:
    [(number, manifest)] = snapshots._read_manifests(site.place)
    changed = replace(manifest, **change)  # type: ignore[arg-type]
    open_storage(site.place).put_new(f"{number + 1:020}.json", snapshots._encode_manifest(changed))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"lineage": "another"}, "it is of another lineage"),
        ({"table": "5:another"}, "it is of another table"),
        ({"seq": 31}, "it is ahead of the journal"),
        ({"row_hash": "00" * 32}, "the journal holds another row there"),
        ({"files": {"CURRENT": "00" * 32}}, "can't be used"),
    ],
)
def test_one_that_does_not_fit_the_journal_is_passed_over_with_its_reason(
    site: JournalWithSnapshots,
    clock: ManualClock,
    change: dict[str, object],
    why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    site.decide(30)
    save_snapshot(site.index, site.place, clock)
    unfit(site, change)
    index = site.fresh()
    assert load_newest(index, site.place, site.reader()) == 30, "the one before it fits"
    assert why in caplog.text
    index.catch_up(site.reader(), site.bodies)
    assert index.seq == 30
    index.close()


def test_a_restored_journal_has_no_use_for_the_snapshots_of_before(
    site: JournalWithSnapshots, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    site.decide(30)
    save_snapshot(site.index, site.place, clock)
    JournalWriter.create_or_open(site.journal, "ledger").renew_lineage(NOW, "an older copy")
    index = site.fresh()
    assert load_newest(index, site.place, site.reader()) is None
    assert "the journal was restored since" in caplog.text
    index.catch_up(site.reader(), site.bodies)
    assert index.seq == 30
    assert save_snapshot(index, site.place, clock) == 30, "a new one is made, with as many rows"
    index.close()


def test_a_damaged_file_is_found_out_and_the_index_is_made_from_the_journal(
    site: JournalWithSnapshots, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    site.decide(30)
    save_snapshot(site.index, site.place, clock)
    storage = open_storage(f"{site.place}/files")
    name = max(site.files(), key=lambda one: len(storage.read(one)))
    data = storage.read(name)
    storage.delete([name])
    storage.put_new(name, data[:-1] + bytes([data[-1] ^ 1]))
    index = site.fresh()
    assert load_newest(index, site.place, site.reader()) is None
    assert "isn't what its name says" in caplog.text
    index.catch_up(site.reader(), site.bodies)
    site.index.catch_up(site.reader(), site.bodies)
    assert_same(index, site.index)
    index.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from journal import snapshots
from journal.index import Index
from journal.reader import JournalReader
from journal.rocksdb_store import RocksDbStore
snapshots.ROWS_MIN = 5
index = Index.open(Path(sys.argv[1]), 2)
RocksDbStore.write = lambda self, batch: os.kill(os.getpid(), signal.SIGKILL)
snapshots.load_newest(index, sys.argv[2], JournalReader(sys.argv[3]))
"""


def test_who_is_killed_before_the_index_knows_which_bodies_it_lacks_begins_with_the_snapshot_again(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Every file of the snapshot is there by then, and the index would count as one that has all bodies."""
    site = JournalWithSnapshots(tmp_path, str(tmp_path / "snapshots"))
    site.decide(30)
    save_snapshot(site.index, site.place, clock)
    folder = tmp_path / "other machine"
    command = [sys.executable, "-c", KILLED, str(folder), site.place, site.journal]
    assert subprocess.run(command, cwd=Path(__file__).parents[2]).returncode == -signal.SIGKILL
    index = Index.open(folder, 3)
    assert load_newest(index, site.place, site.reader()) == 30
    index.catch_up(site.reader(), site.bodies)
    assert next(index.queue("e-3")).body == BODY
    assert_same(index, site.index)
    index.close()
    site.index.close()


def test_where_the_disk_is_full_before_the_index_knows_which_bodies_it_lacks_it_is_made_from_the_journal(
    site: JournalWithSnapshots, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site.decide(30)
    save_snapshot(site.index, site.place, clock)
    index, write = site.fresh(), RocksDbStore.write

    def full(store: RocksDbStore, batch: WriteBatch) -> None:
        monkeypatch.setattr(RocksDbStore, "write", write)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            write(store, batch)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    monkeypatch.setattr(RocksDbStore, "write", full)
    assert load_newest(index, site.place, site.reader()) is None
    assert "File too large" in caplog.text
    assert (index.seq, list(index.open_items())) == (0, [])
    index.catch_up(site.reader(), site.bodies)
    assert next(index.queue("e-3")).body == BODY
    assert_same(index, site.index)
    index.close()


def test_one_that_is_given_up_half_way_names_nothing(site: JournalWithSnapshots, clock: ManualClock) -> None:
    site.decide(30)
    going = StopSignal()
    going.end()
    assert save_snapshot(site.index, site.place, clock, going) is None
    assert site.manifests() == []
    assert not (site.index.folder / "copy").exists()


def test_a_place_that_cannot_be_written_costs_no_more_than_the_snapshot(tmp_path: Path, clock: ManualClock) -> None:
    place = tmp_path / "place"
    place.write_text("in the way")
    site = JournalWithSnapshots(tmp_path, str(place))
    site.decide(30)
    with pytest.raises(OSError):
        save_snapshot(site.index, site.place, clock)
    assert load_newest(site.index, site.place, site.reader()) is None
    site.decide(5)
    site.index.close()
    again = Index.open(tmp_path / "index", 3)
    assert again.seq == 35
    again.close()
