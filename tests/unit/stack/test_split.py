"""Journals are divided whole or not at all: every item goes on in one shard, every key stays known."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.routing import Shard
from journal import snapshots
from journal.errors import StreamRefused
from journal.index import Index
from journal.journals import ShardMissing, ShardsChanged, check_shard, own_rows_after
from journal.lease import Lease
from journal.reader import JournalReader
from journal.storage import open_storage
from journal.writer import JournalWriter
from processor.history.check import PARTITIONS_NOTE
from processor.history.losses import Acceptance, Findings, Parted, Parting
from stack.maintenance import split as splitting
from stack.maintenance.recovery import StreamComparison, accept_stream_losses
from stack.maintenance.split import PlaceTaken, SplitRefused, split
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
    assert running.take_lease()
    before = lake.state(0)
    with pytest.raises(SplitRefused, match="a processor decides ledger on .*: stop all processors first"):
        split(lake.settings, 2, SystemClock())
    assert lake.state(0) == before
    running.release()
    split(lake.settings, 2, SystemClock())


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
        accept_stream_losses(looks, Acceptance("ada", "Kafka's disk died", lake.clock.now()))
        assert lake.state(shard).generation == before + 1


def test_partitions_that_agree_are_compared_after_a_loss_as_before(lake: DividedLake) -> None:
    state, place = lake.state(0), lake.place(0)
    partings = [Parting(TOPIC, number, until, 0, until, until) for number, until in state.marks[TOPIC].items()]
    partings[0] = replace(partings[0], high=0, begins=0)
    findings = Findings(place.stream, LAST, state.epoch, (), (Parted(TOPIC, "", tuple(partings)),))
    accept_stream_losses(
        [StreamComparison(place, state, findings, 0)], Acceptance("ada", "Kafka's disk died", lake.clock.now())
    )
    assert lake.state(0).lasts == {TOPIC: {1: POISON, 2: 11, 3: 12}}


def found(lake: DividedLake, shard: int, *, is_lost: bool) -> StreamComparison:
    """What `look` finds of a shard, of whose partitions Kafka has lost everything."""
    state, place = lake.state(shard), lake.place(shard)
    partings = [Parting(TOPIC, number, until, 0, 0, 0) for number, until in state.marks[TOPIC].items()]
    parted = (Parted(TOPIC, "", tuple(partings)),) if is_lost else ()
    return StreamComparison(place, state, Findings(place.stream, state.next_seq - 1, state.epoch, (), parted), 0)


def test_the_journal_of_another_shard_is_refused(lake: DividedLake) -> None:
    split(lake.settings, 2, lake.clock)
    with pytest.raises(
        StreamRefused, match="/journal/ledger is the journal of shard 0/2, and that of 1/2 belongs there"
    ):
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


def interrupted(lake: DividedLake, patched: Any, name: str, shards: int = 2) -> None:
    """A division that ends where it comes to a step."""

    def dies(*_given: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patched, name, dies)
        with pytest.raises(KeyboardInterrupt):
            split(lake.settings, shards, lake.clock)


class TestSnapshots:
    """A shard's processor begins with the index of the one that it comes from."""

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(snapshots, "ROWS_MIN", 1)

    @pytest.fixture
    def place(self, lake: DividedLake) -> str:
        place = str(lake.place(0).snapshots_folder)
        with lake.index(0, 1) as index:
            assert snapshots.save_snapshot(index, place, lake.clock) == LAST
        return place

    def begun_with(self, lake: DividedLake) -> int | None:
        """The row of the snapshot that the second shard's processor begins with."""
        place = lake.place(1)
        index = Index.open(place.index, 1)
        try:
            return snapshots.load_newest(index, str(place.snapshots_folder), JournalReader(str(place.journal)))
        finally:
            index.close()

    def test_one_goes_along(self, lake: DividedLake, place: str) -> None:
        split(lake.settings, 2, lake.clock)
        assert self.begun_with(lake) == LAST

    def test_one_that_was_copied_before_an_interruption_is_copied_again(self, lake: DividedLake, place: str) -> None:
        interrupted(lake, splitting._StreamSplit, "_copy_table")
        assert list(open_storage(lake.place(1).snapshots_folder / "files").files())
        split(lake.settings, 2, lake.clock)
        assert self.begun_with(lake) == LAST

    def test_a_file_that_was_cut_short_is_copied_again(self, lake: DividedLake, place: str) -> None:
        interrupted(lake, splitting._StreamSplit, "_copy_table")
        folder = Path(str(lake.place(1).snapshots_folder)) / "files"
        torn = max(folder.iterdir(), key=lambda one: one.stat().st_size)
        torn.write_bytes(torn.read_bytes()[:-1])
        split(lake.settings, 2, lake.clock)
        assert self.begun_with(lake) == LAST

    def test_one_that_lacks_a_file_is_passed_over(
        self, lake: DividedLake, place: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        newest = snapshots._read_manifests(place)[0][1]
        broken = snapshots._encode_manifest(replace(newest, files={**newest.files, "gone.sst": "00" * 32}))
        open_storage(place).put_new(f"{2:020}.json", broken)
        split(lake.settings, 2, lake.clock)
        assert "the index's snapshot 2 isn't copied" in caplog.text
        assert self.begun_with(lake) == LAST, "the one before it is whole"

    def test_without_any_that_is_whole_the_journals_are_divided(self, lake: DividedLake, place: str) -> None:
        shutil.rmtree(Path(place) / "files")
        split(lake.settings, 2, lake.clock)
        assert self.begun_with(lake) is None
        assert lake.open_items(2) == [{5, 7, 9, 11}, {6, 8, 10, 12, POISON}]
