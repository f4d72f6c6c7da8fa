"""A dry run says of each item what a replay then does with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlq.acceptance import worn_out
from dlq.board import Filter
from dlq.commands import ReplayMode
from dlq.selection import Asked, DryRuns, FactFinder, Verdict
from tests.unit.dlq.selection.bench import SelectionBench


@pytest.fixture
def bench(tmp_path: Path) -> SelectionBench:
    return SelectionBench(tmp_path)


def dry_runs(bench: SelectionBench) -> DryRuns:
    finder = FactFinder(bench.folder / "board", bench.journal, bench.folder / "bodies")
    return DryRuns(bench.file, bench.board, finder, bench.engine.clock)


def test_what_runs_in_its_place_is_told_with_its_followers_and_so_it_is(bench: SelectionBench) -> None:
    bench.dead(1, entity="e")
    bench.engine.post("later_1", "e")
    bench.engine.post("later_2", "e")
    bench.decide()
    bench.selections.freeze(Filter(), "ada")
    told = dry_runs(bench)
    made = told.make(1, Asked())
    [one] = told.page(1)
    assert (one.verdict, one.followers, made.runs, made.followers) == (Verdict.IN_PLACE, 2, 1, 2)
    assert bench.kafka.sent == []
    bench.replay(1)
    bench.round(4)
    assert [row.item_seq for row in bench.engine.journal.rows if row.decision.value == "applied"] == [1, 2, 3]


def test_what_was_replayed_since_is_done_or_moved_and_the_processor_refuses_both(bench: SelectionBench) -> None:
    bench.dead(1)
    bench.dead(1, times=2)
    bench.selections.freeze(Filter(), "ada")
    bench.selections.freeze(Filter(), "bob")
    bench.replay(1)
    bench.round(4)
    told = dry_runs(bench)
    told.make(2, Asked())
    assert [one.verdict for one in told.each(2)] == [Verdict.DONE, Verdict.MOVED]
    assert "frozen at row 2" in told.page(2)[1].why
    bench.replay(2)
    bench.round(4)
    assert bench.states(2) == ["refused", "refused"]


def test_a_page_holds_one_verdict_alone_where_that_is_asked_for(bench: SelectionBench) -> None:
    bench.dead(5)
    bench.selections.freeze(Filter(), "ada")
    told = dry_runs(bench)
    assert told.kept(1) is None
    told.make(1, Asked(mode=ReplayMode.SUPERSEDED))
    assert [one.target.item_seq for one in told.page(1, [Verdict.REFUSED], after_seq=2, limit=2)] == [3, 4]
    assert told.page(1, [Verdict.IN_PLACE]) == []
    told.make(1, Asked())
    assert told.page(1, [Verdict.REFUSED]) == []


def test_what_the_loop_guard_refuses_is_told_in_its_words(bench: SelectionBench) -> None:
    bench.dead(1, times=10)
    for number in (1, 2, 3, 4, 5):
        bench.selections.freeze(Filter(), "ada")
        bench.replay(number)
        bench.round(4)
    bench.selections.freeze(Filter(), "ada")
    told = dry_runs(bench)
    told.make(6, Asked(loop=lambda entry: worn_out(entry.item_seq, entry.replays, 5)))
    [one] = told.page(6)
    assert (one.verdict, one.why) == (
        Verdict.LOOP,
        "item 1 was replayed 5 times and died each time: mend its cause, then force it",
    )
    bench.replay(6)
    bench.round(4)
    assert one.why in str(bench.engine.journal.rows[-1].reason)


def test_an_item_whose_body_is_gone_can_not_run(bench: SelectionBench) -> None:
    bench.dead(2)
    bench.bodies.drop(bench.engine.journal.rows[0].body_sha256 or "")
    bench.selections.freeze(Filter(), "ada")
    told = dry_runs(bench)
    made = told.make(1, Asked())
    assert dict(made.counts) == {Verdict.NO_BODY: 1, Verdict.IN_PLACE: 1}


def test_a_conflict_is_told_as_one(bench: SelectionBench) -> None:
    bench.engine.post("evt", "e")
    bench.engine.post("evt", "e", content="other")
    bench.decide()
    bench.selections.freeze(Filter(), "ada")
    told = dry_runs(bench)
    assert dict(told.make(1, Asked()).counts) == {Verdict.CONFLICT: 1}
