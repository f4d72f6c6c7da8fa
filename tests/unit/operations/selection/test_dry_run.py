"""A dry run says of each item what a replay then does with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dead_letters.listing import Filter
from operations.command import ReplayMode
from operations.selection import dry_run
from operations.selection.dry_run import DryRuns, ForecastRequest, Verdict
from operations.selection.model import RunRequest
from processor.settings import DeadHead
from tests.unit.operations.selection.bench import SelectionBench


def dry_runs(bench: SelectionBench) -> DryRuns:
    return bench.dry_runs


def test_what_runs_in_its_place_is_reported_with_its_followers_and_so_it_is(bench: SelectionBench) -> None:
    bench.dead(1, entity="e")
    bench.engine.post("later_1", "e")
    bench.engine.post("later_2", "e")
    bench.decide()
    bench.selections.freeze(Filter(), "ada")
    reported = dry_runs(bench)
    made = reported.make(1, ForecastRequest())
    [one] = reported.page(1)
    assert (one.verdict, one.followers, made.runnable_count, made.followers) == (Verdict.IN_PLACE, 2, 1, 2)
    assert bench.sent == []
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
    reported = dry_runs(bench)
    reported.make(2, ForecastRequest())
    assert [one.verdict for one in reported.iterate_forecasts(2)] == [Verdict.DONE, Verdict.MOVED]
    assert "frozen at row 2" in reported.page(2)[1].why
    bench.replay(2)
    bench.round(4)
    assert bench.states(2) == ["refused", "refused"]


def test_a_page_holds_one_verdict_alone_where_that_is_asked_for(bench: SelectionBench) -> None:
    bench.dead(5)
    bench.selections.freeze(Filter(), "ada")
    reported = dry_runs(bench)
    assert reported.find_latest(1) is None
    reported.make(1, ForecastRequest(replays_max=0))
    assert [one.target.item_seq for one in reported.page(1, [Verdict.LOOP], after_seq=2, limit=2)] == [3, 4]
    assert reported.page(1, [Verdict.IN_PLACE]) == []
    reported.make(1, ForecastRequest())
    assert reported.page(1, [Verdict.LOOP]) == []


def test_what_the_loop_guard_refuses_is_reported_in_its_words(bench: SelectionBench) -> None:
    bench.dead(1, times=10)
    for number in (1, 2, 3, 4, 5):
        bench.selections.freeze(Filter(), "ada")
        bench.replay(number)
        bench.round(4)
    bench.selections.freeze(Filter(), "ada")
    reported = dry_runs(bench)
    reported.make(6, ForecastRequest(replays_max=5))
    [one] = reported.page(6)
    assert (one.verdict, one.why) == (
        Verdict.LOOP,
        "item 1 was replayed 5 times and died each time: fix its cause, then replay it with force",
    )
    bench.replay(6)
    bench.round(4)
    assert bench.selections.items(6)[0].reason == one.why


def test_an_item_whose_body_is_gone_can_not_run(bench: SelectionBench) -> None:
    bench.dead(2)
    bench.bodies.drop(bench.engine.journal.rows[0].body_sha256 or "")
    bench.selections.freeze(Filter(), "ada")
    reported = dry_runs(bench)
    made = reported.make(1, ForecastRequest())
    assert dict(made.counts) == {Verdict.NO_BODY: 1, Verdict.IN_PLACE: 1}


def test_a_conflict_is_reported_as_one(bench: SelectionBench) -> None:
    bench.engine.post("evt", "e")
    bench.engine.post("evt", "e", content="other")
    bench.decide()
    bench.selections.freeze(Filter(), "ada")
    reported = dry_runs(bench)
    assert dict(reported.make(1, ForecastRequest()).counts) == {Verdict.CONFLICT: 1}


def test_other_content_runs_once_the_copy_that_held_its_key_is_purged(bench: SelectionBench) -> None:
    bench.dead(1, entity="e")
    bench.engine.post("evt_0_0", "e", content="other")
    bench.decide()
    bench.selections.freeze(Filter(items=(1,)), "ada")
    bench.runs.start(1, RunRequest("purge", "garbage"), "ada")
    bench.round(2)
    bench.selections.freeze(Filter(), "ada")
    reported = dry_runs(bench)
    assert dict(reported.make(2, ForecastRequest()).counts) == {Verdict.IN_PLACE: 1}
    bench.replay(2)
    bench.round(4)
    assert bench.states(2) == ["applied"]


def test_a_replay_with_followers_is_refused_whole_where_one_of_them_is_not_selected(tmp_path: Path) -> None:
    bench = SelectionBench(tmp_path, dead_head=DeadHead.CONTINUE)
    bench.dead(1, entity="e")
    bench.selections.freeze(Filter(), "ada")
    bench.dead(1, entity="e")
    reported = dry_runs(bench)
    reported.make(1, ForecastRequest(ReplayMode.WITH_FOLLOWERS, "continue"))
    [one] = reported.page(1)
    assert (one.verdict, one.why) == (
        Verdict.REFUSED,
        "item 1 goes with its followers: item 2 is dead behind it and isn't named; look again",
    )
    bench.replay(1, mode="with_followers")
    bench.round(4)
    assert bench.selections.items(1)[0].reason == one.why


def test_followers_are_looked_at_with_their_head_however_many_a_look_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_run, "ITEMS_PER_LOOK", 1)
    bench = SelectionBench(tmp_path, dead_head=DeadHead.CONTINUE)
    bench.dead(1, entity="e")
    bench.dead(1)
    bench.dead(1, entity="e")
    bench.selections.freeze(Filter(), "ada")
    reported = dry_runs(bench)
    assert dict(reported.make(1, ForecastRequest(ReplayMode.WITH_FOLLOWERS, "continue")).counts) == {
        Verdict.IN_PLACE: 3
    }


def test_what_lost_its_place_is_reported_with_what_it_runs_behind_and_the_processor_agrees(tmp_path: Path) -> None:
    bench = SelectionBench(tmp_path, dead_head=DeadHead.CONTINUE)
    bench.dead(1, entity="e")
    bench.engine.post("later", "e")
    bench.decide()
    bench.selections.freeze(Filter(), "ada")
    reported = dry_runs(bench)
    reported.make(1, ForecastRequest(dead_head="continue"))
    [one] = reported.page(1)
    assert (one.verdict, one.why) == (Verdict.BEHIND, "a later event was applied: it runs after item 2")
    bench.replay(1)
    bench.round(4)
    assert bench.states(1) == ["applied"]
    assert [row.out_of_order for row in bench.engine.journal.rows if row.item_seq == 1] == [False, True, True]


def test_the_loop_guard_is_reported(bench: SelectionBench) -> None:
    bench.dead(1, times=3)
    for number in (1, 2):
        bench.selections.freeze(Filter(), "ada")
        bench.replay(number)
        bench.round(4)
    bench.selections.freeze(Filter(), "ada")
    reported = dry_runs(bench)
    assert dict(reported.make(3, ForecastRequest(replays_max=2)).counts) == {Verdict.LOOP: 1}
    assert dict(reported.make(3, ForecastRequest(replays_max=2, force=True)).counts) == {Verdict.IN_PLACE: 1}
