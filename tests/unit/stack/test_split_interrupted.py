"""A division that is interrupted or paused: the same command ends it, and it harms no journal of another's."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from core.clock import Clock, ManualClock
from core.routing import Shard
from journal.errors import Fenced
from journal.journals import ShardsChanged, check_shard, own_rows_after
from journal.lake import has_table
from journal.lease import LAPSES_S, Lease
from journal.reader import JournalReader
from journal.schema import JournalRow
from journal.state import JournalState
from journal.writer import JournalWriter, Tenure
from stack.backup.trees import DiskTree
from stack.maintenance import split as splitting
from stack.maintenance.split import LeaseLost, SplitRefused, split
from tests.divided_lake import LAST, POISON, DividedLake, entity
from tests.unit.journal.rows import TOPIC, row


@pytest.fixture
def lake(tmp_path: Path) -> DividedLake:
    return DividedLake(tmp_path)


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
        patch.setattr(splitting._StreamSplit, "_copy_table", dies_after(splitting._StreamSplit._copy_table))
        patch.setattr(JournalWriter, "divide_journal", dies_after(JournalWriter.divide_journal))
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


def test_a_processor_that_was_paused_writes_nothing_from_the_moment_that_anything_is_copied(
    lake: DividedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row would be in the shard that it ran, and not in the one that goes on with the row's partition."""
    split(lake.settings, 2, lake.clock)
    place = lake.place(1)
    paused = JournalWriter.create_or_open(str(place.journal), place.stream)
    paused.begin_epoch({})
    copy = splitting._StreamSplit._copy

    def then_wakes(stream: splitting._StreamSplit, number: int, *given: Any) -> None:
        copy(stream, number, *given)
        if number == 3:
            late = row(LAST + 1, 3, partition=3, entity_key=entity(3), history=2)
            with pytest.raises(Fenced):
                paused.commit([late], {TOPIC: {1: 4, 3: 4}}, 0)

    monkeypatch.setattr(splitting._StreamSplit, "_copy", then_wakes)
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
                assert not other.take_lease()
                clock.advance(LAPSES_S)
                assert other.take_lease()
                seen.append(lake.state(0))
            left -= 1
            return real(*given, **named)

        return call

    monkeypatch.setattr(Lease, "keep_renewing", lambda *_given: None)
    monkeypatch.setattr(splitting._StreamSplit, "_is_copied", pauses_at(splitting._StreamSplit._is_copied))
    monkeypatch.setattr(splitting._StreamSplit, "_copy_table", pauses_at(splitting._StreamSplit._copy_table))
    monkeypatch.setattr(JournalWriter, "divide_journal", pauses_at(JournalWriter.divide_journal))
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
    check, copy_table, made = splitting._check_leases, splitting._StreamSplit._copy_table, iter(range(9))

    class OnAnotherHost(Lease):
        def __init__(self, at: str, owner: str, clock: Clock, lock: Path) -> None:
            self.clock = ManualClock(clock.now())
            super().__init__(at, owner, self.clock, tmp_path / f"{lock.name} of another host")

        def take_lease(self) -> bool:
            taken = super().take_lease()
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
            there.setattr(splitting._StreamSplit, "_copy_table", copy_table)
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
    monkeypatch.setattr(splitting, "hold_maintenance_lock", lambda *_given: contextlib.nullcontext())
    monkeypatch.setattr(Lease, "keep_renewing", lambda *_given: None)
    monkeypatch.setattr(splitting, "_check_leases", checks)
    monkeypatch.setattr(splitting._StreamSplit, "_copy_table", copies)
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


def test_a_division_that_ends_while_this_one_waits_for_the_leases_is_the_only_one(
    lake: DividedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = splitting._hold_leases

    def waits_long(*given: Any) -> Any:
        monkeypatch.setattr(splitting, "_hold_leases", waits)
        split(lake.settings, 2, lake.clock)
        return waits(*given)

    # On another host, which has a lock of its own.
    monkeypatch.setattr(splitting, "hold_maintenance_lock", lambda *_given: contextlib.nullcontext())
    monkeypatch.setattr(splitting, "_hold_leases", waits_long)
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
    share, left = DiskTree.share_file, entries

    def fails(tree: DiskTree, path: str, other: str) -> bool:
        nonlocal left
        if "/journal/ledger.1/_delta_log/" in f"/{other}":
            if left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            left -= 1
        return share(tree, path, other)

    with monkeypatch.context() as patch:
        patch.setattr(DiskTree, "share_file", fails)
        with pytest.raises(OSError, match="No space left"):
            split(lake.settings, 2, lake.clock)
    split(lake.settings, 2, lake.clock)
    assert lake.open_items(2) == [{5, 7, 9, 11}, {6, 8, 10, 12, POISON}]
    assert len(list(JournalReader(str(lake.place(1).journal)).rows_of(range(1, LAST + 1)))) == LAST


def test_a_division_that_was_paused_before_it_began_can_be_ended(
    lake: DividedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host divided the journals meanwhile: this one says of a divided journal that it is being divided."""
    begin = splitting._StreamSplit.begin

    def pauses(stream: splitting._StreamSplit) -> None:
        monkeypatch.setattr(splitting._StreamSplit, "begin", begin)
        monkeypatch.setattr(splitting, "_check_leases", lambda _: None)
        monkeypatch.setattr(splitting, "_hold_leases", lambda *_given: contextlib.nullcontext(lambda: None))
        split(lake.settings, 2, lake.clock)
        begin(stream)

    monkeypatch.setattr(splitting, "hold_maintenance_lock", lambda *_given: contextlib.nullcontext())
    monkeypatch.setattr(splitting._StreamSplit, "begin", pauses)
    split(lake.settings, 2, lake.clock)
    split(lake.settings, 2, lake.clock)
    for shard in (0, 1):
        check_shard("ledger", Shard(shard, 2), lake.place(0).journal, lake.place(shard).journal)
    assert lake.open_items(2) == [{5, 7, 9, 11}, {6, 8, 10, 12, POISON}]
