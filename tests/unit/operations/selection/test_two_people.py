"""A purge, a resolve or a replay of much needs another person; the processor holds both to it too."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dead_letters.listing import Filter
from operations.command import ReplayMode
from operations.frozen import RunState, Selection
from operations.limits import AloneLimits, Volume
from operations.selection.model import RunRefused, RunRequest, SecondPersonWanted
from operations.selection.runs import why_two_people
from processor.decide.two_people import HAVE_IT_APPROVED
from tests.unit.operations.selection.bench import SelectionBench
from tests.unit.processor.harness import NOW

PURGE = RunRequest("purge", "test payments of our own")


def test_one_person_closes_a_few(bench: SelectionBench) -> None:
    bench.dead(4)
    bench.selections.freeze(Filter(), "ada")
    assert bench.runs.start(1, RunRequest("resolve", "booked by hand"), "ada").run.state is RunState.RUNNING
    bench.round(5)
    assert bench.states(1) == ["resolved"] * 4
    assert bench.applied() == 0


def test_more_is_proposed_first_and_nothing_is_closed_until_somebody_else_approves(bench: SelectionBench) -> None:
    bench.dead(7)
    bench.selections.freeze(Filter(), "ada")
    assert bench.runs.start(1, PURGE, "ada").run.state is RunState.PROPOSED
    bench.round(6)
    assert [command.action for command in bench.sent] == ["propose_run_selection"]
    assert bench.states(1) == ["unsent"] * 7
    [waiting] = bench.selections.proposals()
    assert waiting.selection.number == 1
    with pytest.raises(SecondPersonWanted):
        bench.runs.approve(1, "ADA ", "looked myself")
    approved = bench.runs.approve(1, "bob", "compared with the report")
    assert (approved.state, approved.actor) == (RunState.RUNNING, "ada")
    assert approved.approval is not None and approved.approval.actor == "bob"
    bench.round(10)
    assert bench.states(1) == ["purged"] * 7
    assert bench.selections.proposals() == []
    closed = [row for row in bench.engine.journal.rows if row.decision.value == "purged" and not row.first]
    assert {(row.actor, row.reason) for row in closed} == {("bob", "compared with the report")}
    with pytest.raises(RunRefused, match="no proposal waits"):
        bench.runs.approve(1, "bob", "again")


def test_an_approval_waits_until_the_processor_has_decided_the_proposal(bench: SelectionBench) -> None:
    bench.dead(7)
    bench.selections.freeze(Filter(), "ada")
    bench.runs._sleep = lambda _: None
    bench.runs.start(1, PURGE, "ada")
    with pytest.raises(SecondPersonWanted):
        bench.runs.approve(1, "ada", "looked myself")
    with pytest.raises(RunRefused, match="hasn't decided its proposal yet"):
        bench.runs.approve(1, "bob", "compared with the report")
    bench.round(1)
    assert bench.runs.approve(1, "bob", "compared with the report").state is RunState.RUNNING
    bench.round(8)
    assert bench.states(1) == ["purged"] * 7


def test_what_moved_between_proposal_and_approval_is_refused_by_itself(bench: SelectionBench) -> None:
    bench.dead(5)
    selection = bench.selections.freeze(Filter(), "ada")
    bench.runs.start(1, PURGE, "ada")
    bench.round(4)
    bench.engine.command(1, 1, "another")
    bench.round(2)
    bench.runs.approve(selection.number, "bob", "looked")
    bench.round(8)
    assert bench.states(1) == ["refused", *["purged"] * 4]
    assert "item 1 is not open" in (bench.selections.items(1)[0].reason or "")


def test_a_proposal_that_is_taken_back_closes_nothing(bench: SelectionBench) -> None:
    bench.dead(5)
    bench.selections.freeze(Filter(), "ada")
    bench.runs.start(1, PURGE, "ada")
    bench.round(3)
    bench.runs.cancel(1, "ada")
    bench.round(3)
    assert bench.states(1) == ["unsent"] * 5
    run = bench.selections.progress(1).run
    assert (run.state, run.finished_at is not None, run.changed_by) == (RunState.CANCELLED, True, "ada")
    with pytest.raises(RunRefused):
        bench.runs.approve(1, "bob", "too late")


def test_a_replay_is_proposed_and_approved_as_it_was_asked_for(bench: SelectionBench) -> None:
    bench.dead(7)
    bench.selections.freeze(Filter(), "ada")
    run = RunRequest("replay", "mended", ReplayMode.WITH_FOLLOWERS, per_s=100.0, force=True, propose=True)
    assert bench.runs.start(1, run, "ada").run.state is RunState.PROPOSED
    bench.round(6)
    assert bench.states(1) == ["unsent"] * 7
    bench.runs.approve(1, "bob", "looked")
    bench.round(14)
    assert bench.states(1) == ["applied"] * 7
    proposed, given = bench.sent
    assert (proposed.actor, given.actor, given.mode, given.per_s, given.force) == (
        *("ada", "bob", ReplayMode.WITH_FOLLOWERS, 100.0),
        True,
    )
    shown = bench.selections.get(1).run
    assert shown is not None and shown.run == replace(run, propose=False)


def test_what_the_operators_side_did_not_see_the_processor_refuses(bench: SelectionBench) -> None:
    """As where the index knows no amounts, or another console's limits were not yet what the processor's are."""
    bench.dead(6)
    bench.selections.freeze(Filter(), "ada")
    bench.engine.limit_one_person(AloneLimits(replay_items_max=5))
    bench.engine.start()
    with pytest.raises(RunRefused, match=re.escape(f"(limit 5 a day): {HAVE_IT_APPROVED}")):
        bench.replay(1)
    assert bench.selections.get(1).run is None
    assert bench.acts.acts[-1].outcome.value == "refused"
    bench.replay(1, propose=True)
    bench.runs.approve(1, "bob", "looked")
    bench.round(8)
    assert bench.states(1) == ["applied"] * 6


def test_the_forecast_counts_what_the_processor_counts(tmp_path: Path) -> None:
    """A day is an account's: ada's is spent, bob has another."""
    bench = SelectionBench(tmp_path)
    bench.engine.limit_one_person(bench.alone)
    bench.engine.start()
    bench.dead(7)
    items = [item.row.item_seq for item in bench.engine.index.open_items()]
    for number, some in enumerate((items[:3], items[3:5], items[3:5]), start=1):
        bench.selections.freeze(Filter(items=tuple(some)), "ada", str(number))
    assert bench.runs.start(1, PURGE, "ada").run.state is RunState.RUNNING
    bench.round(3)
    for actor in ("ada", " ADA "):
        assert "2 items after 3 closed in the last 24 hours" in str(bench.runs.why_two_people(2, PURGE, actor))
    assert bench.runs.why_two_people(2, PURGE, "bob") is None
    bench.alone = AloneLimits(items_max=100)
    _, unaware = bench.another()
    with pytest.raises(RunRefused, match="2 items after 3 closed in the last 24 hours"):
        unaware.start(2, PURGE, "ada")
    assert bench.runs.start(3, PURGE, "bob").run.state is RunState.RUNNING
    bench.round(3)
    assert bench.states(3) == ["purged"] * 2


def test_replays_of_a_day_count_together_and_apart_from_purges(bench: SelectionBench) -> None:
    bench.dead(8)
    bench.selections.freeze(Filter(), "ada")
    limits = AloneLimits(items_max=4, replay_items_max=10, replay_amounts_minor_max={"EUR": 5_000})
    selection = replace(bench.selections.get(1).selection, count=8, amounts={"EUR": 4_000})
    replay, before = RunRequest("replay", "mended"), Volume(2, Counter(EUR=1_000))
    assert why_two_people(selection, replay, limits, before) is None
    assert "(limit 10 a day)" in str(why_two_people(selection, replay, limits, Volume(3)))
    assert "5,001 minor units of EUR" in str(why_two_people(selection, replay, limits, Volume(1, Counter(EUR=1_001))))
    assert "(limit 4 a day)" in str(why_two_people(selection, PURGE, limits, Volume()))


def test_money_above_the_limit_needs_a_second_person_too() -> None:
    limits = AloneLimits(100, {"*": 1_000, "EUR": 5_000})
    before = Volume()

    def why(run: RunRequest = PURGE, **amounts: int) -> str | None:
        return why_two_people(Selection("ledger", NOW, "ada", "", "{}", 3, 1, "", amounts), run, limits, before)

    assert why(EUR=5_000, USD=1_000) is None
    assert "5,001 minor units of EUR" in (why(EUR=5_001) or "")
    assert "of USD" in (why(USD=1_001) or "")
    assert why(RunRequest("replay", "mended"), EUR=10**9) is None
    assert why(RunRequest("purge", "x", propose=True)) is not None
    before = Volume(2, Counter({"EUR": 1}))
    assert "5,001 minor units of EUR closed in the last 24 hours, with these" in (why(EUR=5_000) or "")
    before = Volume(98)
    assert "3 items after 98 closed in the last 24 hours (limit 100 a day)" in (why(EUR=1) or "")


def test_modes_that_are_not_of_the_action_are_refused(bench: SelectionBench) -> None:
    bench.dead(1)
    bench.selections.freeze(Filter(), "ada")
    for wrong in (
        RunRequest("purge", "x", per_s=1.0),
        RunRequest("replay", "x", per_s=0.0),
        RunRequest("reverse", "x"),
    ):
        with pytest.raises(RunRefused):
            bench.runs.start(1, wrong, "ada")
    assert bench.selections.get(1).run is None
