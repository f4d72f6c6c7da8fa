"""What is frozen stays as it is, under a name that is its hash; no more is kept than there is room for."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from core.layout import Layout
from dead_letters.listing import Filter
from operations.acceptance import ENTITY_ITEMS_MAX
from operations.command import ReplayMode
from operations.frozen import (
    SCHEMA,
    FrozenSelection,
    ItemOrder,
    Selection,
    SelectionBroken,
    SelectionFiles,
    SelectionUnknown,
    each_line,
)
from operations.selection import selections
from operations.selection.model import SelectionEmpty, SelectionsFull, SelectionTooLarge
from tests.unit.operations.selection.bench import SelectionBench
from tests.unit.processor.harness import LINEAGE, NOW


def frozen(entities: list[str | None], actor: str = "ada") -> FrozenSelection:
    """Items 1, 2, … of these entities."""
    seqs = range(1, len(entities) + 1)
    columns = [list(seqs), list(seqs), [2**64 - seq for seq in seqs], list(each_line(entities))]
    table = pa.table([pa.array(one, field.type) for one, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    return FrozenSelection(Selection("ledger", NOW, actor, "", "{}", len(entities), 9, LINEAGE, {"EUR": 500}, 2), table)


def test_a_selection_is_what_was_dead_then_and_nothing_that_died_later(tmp_path: Path) -> None:
    bench = SelectionBench(tmp_path)
    bench.dead(2)
    first = bench.selections.freeze(Filter(), "ada", "two")
    bench.dead(1)
    second = bench.selections.freeze(Filter(), "ada")
    assert [one.target.item_seq for one in bench.selections.items(first.number)] == [1, 2]
    assert second.count == 3
    assert [one.selection.number for one in bench.selections.list_kept()] == [2, 1]
    assert bench.selections.list_kept(before=2)[0].selection == first


def test_its_file_is_named_by_its_hash_and_holds_all_that_is_known_of_it(tmp_path: Path) -> None:
    files = SelectionFiles(tmp_path / "selections")
    made = files.put(frozen(["e", None, "e"]))
    raw = (tmp_path / "selections" / f"{made.digest}.parquet").read_bytes()
    assert hashlib.sha256(raw).hexdigest() == made.digest
    read = files.read(made.digest)
    assert files.get(1) == made
    assert read.selection.amounts == {"EUR": 500}
    assert read.pick_targets([2, 0])[0].text == "3.3.fffffffffffffffd"
    assert read.table["line"].to_pylist() == [0, 1, 0]


def test_two_that_freeze_at_once_get_two_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = SelectionFiles(tmp_path)
    files.put(frozen(["e"]))
    monkeypatch.setattr(SelectionFiles, "list_numbers", lambda _: [])
    assert files.put(frozen(["e"], "bob")).number == 2


def test_too_much_and_nothing_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "ITEMS_MAX", 2)
    bench = SelectionBench(tmp_path)
    with pytest.raises(SelectionEmpty):
        bench.selections.freeze(Filter(), "ada")
    bench.dead(3)
    with pytest.raises(SelectionTooLarge, match="more than 2 items"):
        bench.selections.freeze(Filter(), "ada")
    with pytest.raises(SelectionUnknown):
        bench.selections.get(1)


def test_the_oldest_leave_but_never_one_that_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "KEPT_MAX", 2)
    bench = SelectionBench(tmp_path)
    bench.dead(4)
    for _ in range(3):
        bench.selections.freeze(Filter(), "ada")
    assert [one.selection.number for one in bench.selections.list_kept()] == [3, 2]
    assert len(list((tmp_path / "lake" / "selections" / "ledger").glob("*.parquet"))) == 2
    bench.replay(2, per_s=0.01)
    bench.replay(3, propose=True)
    with pytest.raises(SelectionsFull):
        bench.selections.freeze(Filter(), "ada")
    bench.runs.cancel(3, "ada")
    assert bench.selections.freeze(Filter(items=(4,)), "ada").number == 4
    assert [one.selection.number for one in bench.selections.list_kept()] == [4, 2]


def test_items_go_too_where_all_of_them_together_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "KEPT_ITEMS_MAX", 5)
    bench = SelectionBench(tmp_path)
    bench.dead(2)
    for _ in range(3):
        bench.selections.freeze(Filter(), "ada")
    assert [one.selection.number for one in bench.selections.list_kept()] == [3, 2]


def test_a_selection_that_was_changed_is_not_run(tmp_path: Path) -> None:
    bench = SelectionBench(tmp_path)
    bench.dead(4)
    made = bench.selections.freeze(Filter(items=(1, 2)), "ada")
    file = Path(str(Layout(tmp_path).ledger().selections)) / f"{made.digest}.parquet"
    file.write_bytes(file.read_bytes()[:-9] + bytes(9))
    with pytest.raises(SelectionBroken):
        bench.selections.files.read(made.digest)
    with pytest.raises(Exception, match="isn't what was frozen"):
        bench.replay(1)
    bench.round(3)
    assert bench.applied() == 0
    assert bench.selections.get(1).run is None


@pytest.mark.parametrize("more", [0, 5])
def test_portions_are_cut_between_lines_and_no_line_makes_one_too_large(more: int) -> None:
    count = 5 + ENTITY_ITEMS_MAX + more
    of = frozen(["short" if number < 5 else "long" for number in range(count)])
    alone, together = (ItemOrder(of, mode) for mode in (ReplayMode.ALONE, ReplayMode.WITH_FOLLOWERS))
    assert [alone.end(0, 3), alone.end(count - 2, 7)] == [3, count]
    assert [together.end(0, 3), together.end(0, 7), together.end(5, 7)] == [5, 5, 5 + ENTITY_ITEMS_MAX]
    assert together.end(5 + ENTITY_ITEMS_MAX, 5) == count


def test_an_entitys_items_stand_together_in_a_run_with_followers() -> None:
    of = frozen(["a", "b", "a", None, "b", None])
    turns = ItemOrder(of, ReplayMode.WITH_FOLLOWERS)
    assert [target.item_seq for target in turns.pick_targets(0, 6)] == [1, 3, 2, 5, 4, 6]
    assert np.array_equal(ItemOrder(of, ReplayMode.ALONE).places, np.arange(6))
