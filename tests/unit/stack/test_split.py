"""Journals are divided whole or not at all: every item goes on in one shard, every key stays known."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from core.clock import Clock, ManualClock, SystemClock
from core.routing import Shard
from journal import snapshots
from journal.errors import Fenced, Refused
from journal.index import Index
from journal.lake import has_table
from journal.lease import LAPSES_S, Lease
from journal.reader import JournalReader
from journal.schema import JournalRow
from journal.shards import ShardMissing, ShardsChanged, check_shard, own_rows_after
from journal.state import JournalState
from journal.storage import open_storage
from journal.writer import JournalWriter, Tenure
from processor.history.check import PARTITIONS_NOTE
from processor.history.losses import Acceptance, Findings, Parted, Parting
from stack import split as splitting
from stack.backup.trees import DiskTree
from stack.recovery import Look, decide
from stack.split import LeaseLost, PlaceTaken, SplitRefused, split
from tests.divided_lake import DEAD, LAST, PARKED, POISON, DividedLake, entity
from tests.unit.journal.rows import TOPIC, row


@pytest.fixture
def lake(tmp_path: Path) -> DividedLake:
    return DividedLake(tmp_path)


def test_each_partition_goes_on_in_one_shard_from_where_it_was(lake: DividedLake) -> None:
    (divided,) = split(lake.settings, 2, lake.clock)
    assert (divided.stream, divided.before, divided.journals) == ("ledger", 1, {"ledger": LAST, "ledger.1": LAST})
    assert [lake.state(shard).marks for shard in (0, 1)] == [{TOPIC: {0: 3, 2: 3}}, {TOPIC: {1: 4, 3: 3}}]
    for shard in (0, 1):
        ended = lake.state(shard).history(TOPIC).ended[-1]
        assert (ended.end, lake.state(shard).start) == ({0: 3, 1: 4, 2: 3, 3: 3}, lake.state(shard).marks)
    assert [own_rows_after(lake.place(shard).journal) for shard in (0, 1)] == [0, LAST]
    assert lake.state(0).lineage != lake.state(1).lineage


def test_each_open_item_is_in_one_shard_and_each_key_is_known_there(lake: DividedLake) -> None:
    (before,) = lake.open_items(1)
    assert before == {*DEAD, *PARKED, POISON}
    split(lake.settings, 2, lake.clock)
    assert lake.open_items(2) == [{5, 7, 9, 11}, {6, 8, 10, 12, POISON}]
    split(lake.settings, 4, lake.clock)
    assert lake.open_items(4) == [{5, 9}, {6, 10, POISON}, {7, 11}, {8, 12}]
    with lake.index(3, 4) as index:
        assert [item.row.item_seq for item in index.queue(entity(3))] == [8, 12], "in their order"
        assert index.open_item(8) is not None
        assert index.known_event("stripe:evt_4:charge.succeeded") is not None


def test_a_copy_goes_on_by_itself_and_its_history_is_whole(lake: DividedLake) -> None:
    split(lake.settings, 2, lake.clock)
    place = lake.place(1)
    writer = JournalWriter.create_or_open(str(place.journal), place.stream)
    writer.begin_epoch({})
    late = row(LAST + 1, 3, partition=3, entity_key=entity(3), history=2)
    writer.commit([late], {TOPIC: {1: 4, 3: 4}}, 0)
    reader = JournalReader(str(place.journal))
    assert [one.seq for rows in reader.rows_after(0) for one in rows] == list(range(1, LAST + 2))
    assert lake.state(0).next_seq == LAST + 1, "the other one doesn't"


def test_what_is_divided_so_stays_and_fewer_or_uneven_shards_are_refused(lake: DividedLake) -> None:
    split(lake.settings, 2, lake.clock)
    assert split(lake.settings, 2, lake.clock) == []
    for shards, problem in ((3, "the shards must divide it"), (1, "can only be multiplied"), (8, "must divide it")):
        with pytest.raises(SplitRefused, match=problem):
            split(lake.settings, shards, lake.clock)


def test_events_that_were_published_by_an_uneven_number_of_partitions_are_decided_first(lake: DividedLake) -> None:
    """The partition that such an event is on may be another shard's than its entity is."""
    writer = JournalWriter.create_or_open(str(lake.place(0).journal), "ledger")
    writer.begin_epoch({}, notes={PARTITIONS_NOTE: "3"})
    with pytest.raises(SplitRefused, match="decided by 3 partitions last, which 2 shards don't divide"):
        split(lake.settings, 2, lake.clock)
    assert lake.state(0).marks == {TOPIC: {0: 3, 1: 4, 2: 3, 3: 3}}
    writer = JournalWriter.create_or_open(str(lake.place(0).journal), "ledger")
    writer.begin_epoch({}, notes={PARTITIONS_NOTE: "6"})
    split(lake.settings, 2, lake.clock)


def test_a_processor_that_runs_is_not_disturbed(lake: DividedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "LAPSES_S", 0.0)
    monkeypatch.setattr(splitting, "LOOK_S", 0.05)
    place = lake.place(0)
    running = Lease(str(place.lease), "another", SystemClock(), place.lease_lock)
    assert running.take()
    before = lake.state(0)
    with pytest.raises(SplitRefused, match="a processor decides ledger on .*: stop all processors first"):
        split(lake.settings, 2, SystemClock())
    assert lake.state(0) == before
    running.release()
    split(lake.settings, 2, SystemClock())


@pytest.mark.parametrize("steps", range(8))
def test_interrupted_anywhere_nothing_starts_and_the_same_command_ends_it(
    lake: DividedLake, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    split(lake.settings, 2, lake.clock)
    left = steps

    def dies_after(real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            return real(*given, **named)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(splitting._Stream, "_copy_table", dies_after(splitting._Stream._copy_table))
        patch.setattr(JournalWriter, "divide", dies_after(JournalWriter.divide))
        with pytest.raises(KeyboardInterrupt):
            split(lake.settings, 4, lake.clock)
    for count in (2, 4):
        for shard in range(count):
            with pytest.raises(ShardsChanged, match="Run `payhook split 4` to its end"):
                check_shard("ledger", Shard(shard, count), lake.place(0).journal, lake.place(shard).journal)
    with pytest.raises(SplitRefused, match="is being divided among 4 shards: finish that first"):
        split(lake.settings, 2, lake.clock)
    split(lake.settings, 4, lake.clock)
    for shard in range(4):
        check_shard("ledger", Shard(shard, 4), lake.place(0).journal, lake.place(shard).journal)
    assert lake.open_items(4) == [{5, 9}, {6, 10, POISON}, {7, 11}, {8, 12}]
    marks = [lake.state(shard).marks[TOPIC] for shard in range(4)]
    assert marks == [{0: 3}, {1: 4}, {2: 3}, {3: 3}]


def test_another_number_than_the_journals_is_refused(lake: DividedLake) -> None:
    journal = lake.place(0).journal
    check_shard("ledger", Shard(), journal, journal)
    with pytest.raises(ShardsChanged, match="processor.shards is 2, and its journal is one of 1"):
        check_shard("ledger", Shard(0, 2), journal, journal)
    with pytest.raises(ShardsChanged, match="and its journal is one of 1"):
        check_shard("ledger.1", Shard(1, 2), journal, lake.place(1).journal)
    split(lake.settings, 2, lake.clock)
    with pytest.raises(ShardsChanged, match="processor.shards is 1, and its journal is one of 2. Set it to 2"):
        check_shard("ledger", Shard(), journal, journal)


def interrupted(lake: DividedLake, patched: Any, name: str, shards: int = 2) -> None:
    """A division that ends where it comes to a step."""

    def dies(*_given: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patched, name, dies)
        with pytest.raises(KeyboardInterrupt):
            split(lake.settings, shards, lake.clock)


def test_a_processor_that_was_paused_writes_nothing_from_the_moment_that_anything_is_copied(
    lake: DividedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row would be in the shard that it ran, and not in the one that goes on with the row's partition."""
    split(lake.settings, 2, lake.clock)
    place = lake.place(1)
    paused = JournalWriter.create_or_open(str(place.journal), place.stream)
    paused.begin_epoch({})
    copy = splitting._Stream._copy

    def then_wakes(stream: splitting._Stream, number: int, *given: Any) -> None:
        copy(stream, number, *given)
        if number == 3:
            late = row(LAST + 1, 3, partition=3, entity_key=entity(3), history=2)
            with pytest.raises(Fenced):
                paused.commit([late], {TOPIC: {1: 4, 3: 4}}, 0)

    monkeypatch.setattr(splitting._Stream, "_copy", then_wakes)
    split(lake.settings, 4, lake.clock)
    assert [lake.state(shard).next_seq for shard in range(4)] == [LAST + 1] * 4


@pytest.mark.parametrize("steps", range(4))
def test_a_division_that_was_paused_changes_nothing_beside_another_process(
    lake: DividedLake, tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host may have ended the division meanwhile, and its processors may have begun."""
    place, clock, left = lake.place(0), ManualClock(lake.clock.now()), steps
    other = Lease(str(place.lease), "another", clock, tmp_path / "lock of another host")
    seen: list[JournalState] = []

    def pauses_at(real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                assert not other.take()
                clock.advance(LAPSES_S)
                assert other.take()
                seen.append(lake.state(0))
            left -= 1
            return real(*given, **named)

        return call

    monkeypatch.setattr(Lease, "keep", lambda *_given: None)
    monkeypatch.setattr(splitting._Stream, "_is_copied", pauses_at(splitting._Stream._is_copied))
    monkeypatch.setattr(splitting._Stream, "_copy_table", pauses_at(splitting._Stream._copy_table))
    monkeypatch.setattr(JournalWriter, "divide", pauses_at(JournalWriter.divide))
    with pytest.raises(LeaseLost, match="another process has taken the lease of ledger meanwhile: stop it"):
        split(lake.settings, 2, lake.clock)
    assert [lake.state(0)] == seen
    assert has_table(str(lake.place(1).journal)) == (steps > 2)
    other.release()
    split(lake.settings, 2, lake.clock)


@pytest.mark.parametrize("steps", range(6))
def test_a_division_that_was_paused_harms_no_journal_that_another_one_has_made(
    lake: DividedLake, tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it found the leases its own, or before it copies: another host ended the division meanwhile, and its
    processors decided events of both shards.
    """
    check, copy_table, made = splitting._check_leases, splitting._Stream._copy_table, iter(range(9))

    class OnAnotherHost(Lease):
        def __init__(self, at: str, owner: str, clock: Clock, lock: Path) -> None:
            self.clock = ManualClock(clock.now())
            super().__init__(at, owner, self.clock, tmp_path / f"{lock.name} of another host")

        def take(self) -> bool:
            taken = super().take()
            self.clock.advance(LAPSES_S)
            return taken

    def checks(leases: Mapping[str, Lease]) -> None:
        check(leases)
        pauses()

    def copies(*given: Any) -> None:
        pauses()
        copy_table(*given)

    def pauses() -> None:
        if next(made) != steps:
            return
        with monkeypatch.context() as there:
            there.setattr(splitting, "_check_leases", check)
            there.setattr(splitting._Stream, "_copy_table", copy_table)
            there.setattr(splitting, "Lease", OnAnotherHost)
            there.setattr(splitting, "LOOK_S", 0.01)
            split(lake.settings, 2, lake.clock)
        commit(0, row(LAST + 1, 3, partition=0, entity_key=entity(0), history=2), {0: 4, 2: 3})
        commit(1, row(LAST + 1, 4, partition=1, entity_key=entity(1), history=2), {1: 5, 3: 3})
        states.extend(map(lake.state, (0, 1)))

    def commit(shard: int, one: JournalRow, marks: dict[int, int]) -> None:
        place = lake.place(shard)
        writer = JournalWriter.create_or_open(str(place.journal), place.stream)
        writer.begin_epoch({})
        writer.commit([one], {TOPIC: marks}, 0)

    states: list[JournalState] = []
    monkeypatch.setattr(splitting, "sole_maintenance", lambda *_given: contextlib.nullcontext())
    monkeypatch.setattr(Lease, "keep", lambda *_given: None)
    monkeypatch.setattr(splitting, "_check_leases", checks)
    monkeypatch.setattr(splitting._Stream, "_copy_table", copies)
    with pytest.raises((LeaseLost, Fenced)):
        split(lake.settings, 2, lake.clock)
    assert [lake.state(0), lake.state(1)] == states
    assert [own_rows_after(lake.place(shard).journal) for shard in (0, 1)] == [0, LAST]
    for shard in (0, 1):
        reader = JournalReader(str(lake.place(shard).journal))
        assert [one.seq for rows in reader.rows_after(0) for one in rows] == list(range(1, LAST + 2))


def test_a_processor_that_was_paused_before_its_epoch_takes_back_no_divided_journal(lake: DividedLake) -> None:
    """It had begun epochs before; the division's is no epoch of its own."""
    journal = str(lake.place(0).journal)
    tenure = Tenure("a processor")
    tenure.follow(journal)
    JournalWriter.create_or_open(journal, "ledger", tenure).begin_epoch({}, tenure)
    split(lake.settings, 2, lake.clock)
    marks = lake.state(0).marks
    with pytest.raises(Fenced, match="was begun by a command"):
        JournalWriter.create_or_open(journal, "ledger", tenure).begin_epoch({TOPIC: {1: 0, 3: 0}}, tenure)
    assert lake.state(0).marks == marks == {TOPIC: {0: 3, 2: 3}}


def test_what_kafka_held_before_the_division_is_compared_after_it(lake: DividedLake) -> None:
    split(lake.settings, 2, lake.clock)
    lasts = [lake.state(shard).lasts[TOPIC] for shard in (0, 1)]
    assert lasts == [{0: 9, 2: 11}, {1: POISON, 3: 12}]


def test_a_loss_of_one_shard_voids_the_claims_of_all(lake: DividedLake) -> None:
    """Receivers claim in the highest generation of all shards."""
    split(lake.settings, 2, lake.clock)
    for shard, lost in ((0, 0), (1, 1), (1, 1)):
        looks = [found(lake, number, is_lost=number == lost) for number in (0, 1)]
        before = max(lake.state(number).generation for number in (0, 1))
        decide(looks, Acceptance("ada", "Kafka's disk died", lake.clock.now()))
        assert lake.state(shard).generation == before + 1


def test_partitions_that_agree_are_compared_after_a_loss_as_before(lake: DividedLake) -> None:
    state, place = lake.state(0), lake.place(0)
    partings = [Parting(TOPIC, number, until, 0, until, until) for number, until in state.marks[TOPIC].items()]
    partings[0] = replace(partings[0], high=0, begins=0)
    findings = Findings(place.stream, LAST, state.epoch, (), (Parted(TOPIC, "", tuple(partings)),))
    decide([Look(place, state, findings, 0)], Acceptance("ada", "Kafka's disk died", lake.clock.now()))
    assert lake.state(0).lasts == {TOPIC: {1: POISON, 2: 11, 3: 12}}


def found(lake: DividedLake, shard: int, *, is_lost: bool) -> Look:
    """What `look` finds of a shard, of whose partitions Kafka has lost everything."""
    state, place = lake.state(shard), lake.place(shard)
    partings = [Parting(TOPIC, number, until, 0, 0, 0) for number, until in state.marks[TOPIC].items()]
    parted = (Parted(TOPIC, "", tuple(partings)),) if is_lost else ()
    return Look(place, state, Findings(place.stream, state.next_seq - 1, state.epoch, (), parted), 0)


def test_the_journal_of_another_shard_is_refused(lake: DividedLake) -> None:
    split(lake.settings, 2, lake.clock)
    with pytest.raises(Refused, match="/journal/ledger is the journal of shard 0/2, and that of 1/2 belongs there"):
        check_shard("ledger.1", Shard(1, 2), lake.place(0).journal, lake.place(0).journal)


def test_a_first_start_beside_journals_of_another_number_is_refused(lake: DividedLake) -> None:
    places = [lake.place(number).journal for number in range(4)]
    split(lake.settings, 2, lake.clock)
    shutil.rmtree(str(places[0]))
    with pytest.raises(ShardsChanged, match="processor.shards is 1, and its journal is one of 2"):
        check_shard("ledger", Shard(), places[0], places[0], places)
    check_shard("ledger", Shard(0, 2), places[0], places[0], places)


def test_a_shard_that_never_began_is_found_before_anything_is_changed(lake: DividedLake) -> None:
    split(lake.settings, 2, lake.clock)
    shutil.rmtree(str(lake.place(1).journal))
    before = lake.state(0)
    with pytest.raises(ShardMissing, match="shard 1 has no journal. If it is new, start its processor once"):
        split(lake.settings, 4, lake.clock)
    assert lake.state(0) == before
    assert split(lake.settings, 2, lake.clock) == []


def test_a_division_that_ends_while_this_one_waits_for_the_leases_is_the_only_one(
    lake: DividedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = splitting._no_processor

    def waits_long(*given: Any) -> Any:
        monkeypatch.setattr(splitting, "_no_processor", waits)
        split(lake.settings, 2, lake.clock)
        return waits(*given)

    # On another host, which has a lock of its own.
    monkeypatch.setattr(splitting, "sole_maintenance", lambda *_given: contextlib.nullcontext())
    monkeypatch.setattr(splitting, "_no_processor", waits_long)
    with pytest.raises(SplitRefused, match="divided meanwhile"):
        split(lake.settings, 2, lake.clock)
    for shard in (0, 1):
        check_shard("ledger", Shard(shard, 2), lake.place(0).journal, lake.place(shard).journal)


@pytest.mark.parametrize("entries", range(3))
def test_a_copy_whose_log_ends_half_way_is_completed(
    lake: DividedLake, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a full disk or a loss of power leaves it."""
    DeltaTable(str(lake.place(0).journal)).create_checkpoint()
    writer = JournalWriter.create_or_open(str(lake.place(0).journal), "ledger")
    writer.begin_epoch({})
    share, left = DiskTree.share, entries

    def fails(tree: DiskTree, path: str, other: str) -> bool:
        nonlocal left
        if "/journal/ledger.1/_delta_log/" in f"/{other}":
            if left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            left -= 1
        return share(tree, path, other)

    with monkeypatch.context() as patch:
        patch.setattr(DiskTree, "share", fails)
        with pytest.raises(OSError, match="No space left"):
            split(lake.settings, 2, lake.clock)
    split(lake.settings, 2, lake.clock)
    assert lake.open_items(2) == [{5, 7, 9, 11}, {6, 8, 10, 12, POISON}]
    assert len(list(JournalReader(str(lake.place(1).journal)).rows_of(range(1, LAST + 1)))) == LAST


def test_a_division_that_was_paused_before_it_began_can_be_ended(
    lake: DividedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host divided the journals meanwhile: this one says of a divided journal that it is being divided."""
    begin = splitting._Stream.begin

    def pauses(stream: splitting._Stream) -> None:
        monkeypatch.setattr(splitting._Stream, "begin", begin)
        monkeypatch.setattr(splitting, "_check_leases", lambda _: None)
        monkeypatch.setattr(splitting, "_no_processor", lambda *_given: contextlib.nullcontext(lambda: None))
        split(lake.settings, 2, lake.clock)
        begin(stream)

    monkeypatch.setattr(splitting, "sole_maintenance", lambda *_given: contextlib.nullcontext())
    monkeypatch.setattr(splitting._Stream, "begin", pauses)
    split(lake.settings, 2, lake.clock)
    split(lake.settings, 2, lake.clock)
    for shard in (0, 1):
        check_shard("ledger", Shard(shard, 2), lake.place(0).journal, lake.place(shard).journal)
    assert lake.open_items(2) == [{5, 7, 9, 11}, {6, 8, 10, 12, POISON}]


def test_what_is_no_copy_of_the_journal_is_not_touched(lake: DividedLake, tmp_path: Path) -> None:
    """A journal of an earlier installation, say."""
    place = lake.place(1)
    writer = JournalWriter.create_or_open(str(place.journal), place.stream)
    before = writer.begin_epoch({TOPIC: {1: 7}})
    with pytest.raises(PlaceTaken, match="/journal/ledger.1 is no copy of .*: move it away, then run this again"):
        split(lake.settings, 2, lake.clock)
    assert lake.state(1) == before
    shutil.move(str(place.journal), tmp_path / "moved away")
    split(lake.settings, 2, lake.clock)
    assert lake.open_items(2) == [{5, 7, 9, 11}, {6, 8, 10, 12, POISON}]


class TestSnapshots:
    """A shard's processor begins with the index of the one that it comes from."""

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(snapshots, "ROWS_MIN", 1)

    @pytest.fixture
    def place(self, lake: DividedLake) -> str:
        place = str(lake.place(0).snapshots)
        with lake.index(0, 1) as index:
            assert snapshots.save(index, place, lake.clock) == LAST
        return place

    def begun_with(self, lake: DividedLake) -> int | None:
        """The row of the snapshot that the second shard's processor begins with."""
        place = lake.place(1)
        index = Index.open(place.index, 1)
        try:
            return snapshots.load_newest(index, str(place.snapshots), JournalReader(str(place.journal)))
        finally:
            index.close()

    def test_one_goes_along(self, lake: DividedLake, place: str) -> None:
        split(lake.settings, 2, lake.clock)
        assert self.begun_with(lake) == LAST

    def test_one_that_was_copied_before_an_interruption_is_copied_again(self, lake: DividedLake, place: str) -> None:
        interrupted(lake, splitting._Stream, "_copy_table")
        assert list(open_storage(lake.place(1).snapshots / "files").files())
        split(lake.settings, 2, lake.clock)
        assert self.begun_with(lake) == LAST

    def test_a_file_that_was_cut_short_is_copied_again(self, lake: DividedLake, place: str) -> None:
        interrupted(lake, splitting._Stream, "_copy_table")
        folder = Path(str(lake.place(1).snapshots)) / "files"
        torn = max(folder.iterdir(), key=lambda one: one.stat().st_size)
        torn.write_bytes(torn.read_bytes()[:-1])
        split(lake.settings, 2, lake.clock)
        assert self.begun_with(lake) == LAST

    def test_one_that_lacks_a_file_is_passed_over(
        self, lake: DividedLake, place: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        newest = snapshots._manifests(place)[0][1]
        broken = snapshots._encoded(replace(newest, files={**newest.files, "gone.sst": "00" * 32}))
        open_storage(place).put_new(f"{2:020}.json", broken)
        split(lake.settings, 2, lake.clock)
        assert "the index's snapshot 2 isn't copied" in caplog.text
        assert self.begun_with(lake) == LAST, "the one before it is whole"

    def test_without_any_that_is_whole_the_journals_are_divided(self, lake: DividedLake, place: str) -> None:
        shutil.rmtree(Path(place) / "files")
        split(lake.settings, 2, lake.clock)
        assert self.begun_with(lake) is None
        assert lake.open_items(2) == [{5, 7, 9, 11}, {6, 8, 10, 12, POISON}]
