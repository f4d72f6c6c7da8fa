"""What is frozen stays as it is, and no more is kept than is set."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from dlq.board import Filter
from dlq.selection import (
    RunState,
    SelectionEmpty,
    SelectionSettings,
    SelectionsFull,
    SelectionTooLarge,
    SelectionUnknown,
)
from tests.unit.dlq.selection.bench import SelectionBench


def test_a_selection_is_what_was_dead_then_and_nothing_that_died_later(tmp_path: Path) -> None:
    bench = SelectionBench(tmp_path)
    bench.dead(2)
    first = bench.selections.freeze(Filter(), "ada", "two")
    bench.dead(1)
    second = bench.selections.freeze(Filter(), "ada")
    assert [one.target.item_seq for one in bench.selections.items(first.number)] == [1, 2]
    assert second.count == 3
    assert [one.selection.number for one in bench.selections.kept()] == [2, 1]
    assert bench.selections.kept(before=2)[0].selection == first


def test_too_much_and_nothing_are_refused(tmp_path: Path) -> None:
    bench = SelectionBench(tmp_path, SelectionSettings(items_max=2))
    with pytest.raises(SelectionEmpty):
        bench.selections.freeze(Filter(), "ada")
    bench.dead(3)
    with pytest.raises(SelectionTooLarge, match="more than 2 items"):
        bench.selections.freeze(Filter(), "ada")
    with pytest.raises(SelectionUnknown):
        bench.selections.get(1)


def test_the_oldest_leave_but_never_one_that_is_under_way(tmp_path: Path) -> None:
    bench = SelectionBench(tmp_path, SelectionSettings(kept_max=2))
    bench.dead(2)
    for _ in range(3):
        bench.selections.freeze(Filter(), "ada")
    assert [one.selection.number for one in bench.selections.kept()] == [3, 2]
    bench.replay(2)
    bench.replay(3)
    with pytest.raises(SelectionsFull):
        bench.selections.freeze(Filter(), "ada")


def test_a_selection_that_somebody_changed_is_not_run(tmp_path: Path) -> None:
    bench = SelectionBench(tmp_path)
    bench.dead(4)
    bench.selections.freeze(Filter(items=(1, 2)), "ada")
    with sqlite3.connect(tmp_path / "selections" / "ledger.sqlite3") as db:
        db.execute("UPDATE items SET item_seq = 4, seen_seq = 4 WHERE place = 1")
    bench.replay(1)
    bench.round(3)
    assert bench.kafka.sent == []
    run = bench.selections.progress(1).run
    assert (run.state, "isn't what was frozen" in (run.problem or "")) == (RunState.CANCELLED, True)
