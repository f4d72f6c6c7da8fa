"""Journals are divided whole or not at all: every item goes on in one shard, every key stays known."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.clock import ManualClock, SystemClock
from core.decision import Decision
from core.layout import StreamLayout
from core.routing import Shard
from journal.bodies import BodyStore
from journal.index import Index
from journal.lease import Lease
from journal.reader import JournalReader
from journal.shards import ShardsChanged, check_shard, own_rows_after
from journal.state import JournalState
from journal.writer import JournalWriter
from stack import split as splitting
from stack.settings import Settings
from stack.split import SplitRefused, split
from tests.unit.journal.rows import NOW, TOPIC, row, sha

PARTITIONS = 4
DEAD, PARKED, POISON = (5, 6, 7, 8), (9, 10, 11, 12), 13
LAST = 13


def entity(partition: int, number: int = 0) -> str:
    """An entity whose events are on a partition."""
    names = (f"stripe:acct:pi_{number}_{n}" for n in range(1_000))
    return next(name for name in names if Shard(partition, PARTITIONS).decides(name))


class Lake:
    """A ledger with a payment on each of four partitions, whose second event is dead and holds the third one back."""

    def __init__(self, root: Path) -> None:
        self.settings = Settings(data_dir=root)
        self.clock = ManualClock(NOW + timedelta(hours=1))
        places = self.place(0)
        writer = JournalWriter.create_or_open(str(places.journal), places.stream)
        writer.begin_epoch({TOPIC: dict.fromkeys(range(PARTITIONS), 0)})
        bodies = BodyStore(str(places.bodies))
        rows = [self._row(seq, (seq - 1) % 4, (seq - 1) // 4) for seq in range(1, LAST)]
        poison: dict[str, Any] = {"decision": Decision.DEAD, "event_key": None, "entity_key": None}
        rows.append(row(POISON, 3, partition=1, body_sha256=sha("poison"), **poison))
        bodies.append([(one.body_sha256 or "", b"body") for one in rows])
        writer.commit(rows, {TOPIC: {0: 3, 1: 4, 2: 3, 3: 3}}, LAST)

    def _row(self, seq: int, partition: int, turn: int) -> Any:
        decision = (Decision.APPLIED, Decision.DEAD, Decision.PARKED)[turn]
        held: dict[str, Any] = {"decision": decision, "blocking": decision is not Decision.APPLIED}
        key = f"stripe:evt_{seq}:charge.succeeded"
        return row(
            seq, turn, partition=partition, entity_key=entity(partition), event_key=key, body_sha256=sha(key), **held
        )

    def place(self, shard: int) -> StreamLayout:
        return self.settings.layout.ledger("live", shard)

    def state(self, shard: int) -> JournalState:
        return JournalReader(str(self.place(shard).journal)).state()

    @contextlib.contextmanager
    def index(self, shard: int, count: int) -> Iterator[Index]:
        """As a processor's start makes it."""
        place = self.place(shard)
        index = Index.open(place.index, self.state(shard).epoch)
        index.catch_up(JournalReader(str(place.journal)), BodyStore(str(place.bodies)))
        index.keep(Shard(shard, count))
        yield index
        index.close()

    def open_items(self, count: int) -> list[set[int]]:
        found = []
        for shard in range(count):
            with self.index(shard, count) as index:
                found.append({item.row.item_seq for item in index.open_items()})
                assert index.open_count() == len(found[-1])
        return found


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_each_partition_goes_on_in_one_shard_from_where_it_was(lake: Lake) -> None:
    (divided,) = split(lake.settings, 2, lake.clock)
    assert (divided.stream, divided.before, divided.journals) == ("ledger", 1, {"ledger": LAST, "ledger.1": LAST})
    assert [lake.state(shard).marks for shard in (0, 1)] == [{TOPIC: {0: 3, 2: 3}}, {TOPIC: {1: 4, 3: 3}}]
    for shard in (0, 1):
        ended = lake.state(shard).history(TOPIC).ended[-1]
        assert (ended.end, lake.state(shard).start) == ({0: 3, 1: 4, 2: 3, 3: 3}, lake.state(shard).marks)
    assert [own_rows_after(lake.place(shard).journal) for shard in (0, 1)] == [0, LAST]
    assert lake.state(0).lineage != lake.state(1).lineage


def test_each_open_item_is_in_one_shard_and_each_key_is_known_there(lake: Lake) -> None:
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


def test_a_copy_goes_on_by_itself_and_its_history_is_whole(lake: Lake) -> None:
    split(lake.settings, 2, lake.clock)
    place = lake.place(1)
    writer = JournalWriter.create_or_open(str(place.journal), place.stream)
    writer.begin_epoch({})
    late = row(LAST + 1, 3, partition=3, entity_key=entity(3), history=2)
    writer.commit([late], {TOPIC: {1: 4, 3: 4}}, 0)
    reader = JournalReader(str(place.journal))
    assert [one.seq for rows in reader.rows_after(0) for one in rows] == list(range(1, LAST + 2))
    assert lake.state(0).next_seq == LAST + 1, "the other one doesn't"


def test_what_is_divided_so_stays_and_fewer_or_uneven_shards_are_refused(lake: Lake) -> None:
    split(lake.settings, 2, lake.clock)
    assert split(lake.settings, 2, lake.clock) == []
    for shards, problem in ((3, "the shards must divide it"), (1, "can only be multiplied"), (8, "must divide it")):
        with pytest.raises(SplitRefused, match=problem):
            split(lake.settings, shards, lake.clock)


def test_a_processor_that_runs_is_not_disturbed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
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
    lake: Lake, steps: int, monkeypatch: pytest.MonkeyPatch
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


def test_another_number_than_the_journals_is_refused(lake: Lake) -> None:
    journal = lake.place(0).journal
    check_shard("ledger", Shard(), journal, journal)
    with pytest.raises(ShardsChanged, match="processor.shards is 2, and its journal is one of 1"):
        check_shard("ledger", Shard(0, 2), journal, journal)
    with pytest.raises(ShardsChanged, match="and its journal is one of 1"):
        check_shard("ledger.1", Shard(1, 2), journal, lake.place(1).journal)
    split(lake.settings, 2, lake.clock)
    with pytest.raises(ShardsChanged, match="processor.shards is 1, and its journal is one of 2. Set it to 2"):
        check_shard("ledger", Shard(), journal, journal)
