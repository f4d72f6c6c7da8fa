"""What is frozen stays as it is, and no more is kept than is set."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from dlq.commands import TARGETS_MAX, Target
from dlq.index import Filter
from dlq.selection import (
    RunState,
    SelectionEmpty,
    SelectionFile,
    SelectionSettings,
    SelectionsFull,
    SelectionTooLarge,
    SelectionUnknown,
    runs,
    store,
)
from dlq.selection.lines import lined_up
from tests.unit.dlq.selection.bench import SelectionBench
from tests.unit.processor.harness import LINEAGE, NOW


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


def test_commands_are_cut_between_lines_and_no_line_makes_one_too_large(tmp_path: Path) -> None:
    file = SelectionFile(tmp_path / "selections.sqlite3")
    items = range(1, TARGETS_MAX + 11)
    entities = {seq: "short" if seq <= 5 else "long" for seq in items}
    with file.writing() as db:
        number = store.insert(db, NOW, "ada", "", "{}", 0, LINEAGE)
        store.add(db, number, 0, [Target(seq, seq, "0" * 16) for seq in items])
        assert runs.whole_lines(db, number, 0, 3) == 3
        runs.line_up(db, number, lined_up(items, entities))
        assert runs.whole_lines(db, number, 0, 3) == 5
        assert runs.whole_lines(db, number, 0, 7) == 5
        assert runs.whole_lines(db, number, 5, 7) == TARGETS_MAX
        assert runs.whole_lines(db, number, 5 + TARGETS_MAX, 5) == 5
