"""A purge or a resolve of much needs another person; the processor holds both to it too."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dlq.commands import ReplayMode
from dlq.index import Filter
from dlq.limits import AloneLimits, Volume
from dlq.selection import Run, RunRefused, RunState, SecondPersonWanted
from dlq.selection.model import Selection
from dlq.selection.selections import why_two_people
from tests.unit.dlq.selection.bench import SelectionBench

PURGE = Run("purge", "test payments of our own")


@pytest.fixture
def bench(tmp_path: Path) -> SelectionBench:
    return SelectionBench(tmp_path)


def test_one_person_closes_a_few(bench: SelectionBench) -> None:
    bench.dead(4)
    bench.selections.freeze(Filter(), "ada")
    assert bench.selections.start(1, Run("resolve", "booked by hand"), "ada").run.state is RunState.RUNNING
    bench.round(5)
    assert bench.states(1) == ["resolved"] * 4
    assert bench.applied() == 0


def test_more_is_proposed_first_and_nothing_is_closed_until_somebody_else_approves(bench: SelectionBench) -> None:
    bench.dead(7)
    bench.selections.freeze(Filter(), "ada")
    assert bench.selections.start(1, PURGE, "ada").run.state is RunState.PROPOSED
    bench.round(6)
    assert {command.action for command in bench.kafka.sent} == {"propose_purge"}
    assert bench.states(1) == ["unsent"] * 7
    [waiting] = bench.selections.proposals()
    assert waiting.selection.number == 1
    with pytest.raises(SecondPersonWanted):
        bench.selections.approve(1, "ADA ", "looked myself")
    bench.selections.approve(1, "bob", "compared with the report")
    bench.round(10)
    assert bench.states(1) == ["purged"] * 7
    assert bench.selections.proposals() == []
    acts = [command for command in bench.kafka.sent if command.action == "purge"]
    assert [(one.actor, one.proposal.actor if one.proposal else None) for one in acts] == [("bob", "ada")] * 3
    with pytest.raises(RunRefused, match="nothing waits"):
        bench.selections.approve(1, "bob", "again")


def test_an_approval_that_comes_before_its_proposals_were_sent_waits_for_them(bench: SelectionBench) -> None:
    bench.dead(7)
    bench.selections.freeze(Filter(), "ada")
    bench.selections.start(1, PURGE, "ada")
    bench.selections.approve(1, "bob", "compared with the report")
    bench.round(16)
    assert [command.action for command in bench.kafka.sent] == ["propose_purge"] * 3 + ["purge"] * 3
    assert bench.states(1) == ["purged"] * 7


def test_what_moved_between_proposal_and_approval_is_refused_by_itself(bench: SelectionBench) -> None:
    bench.dead(5)
    selection = bench.selections.freeze(Filter(), "ada")
    bench.selections.start(1, PURGE, "ada")
    bench.round(4)
    bench.engine.command(1, 1, "another")
    bench.round(2)
    bench.selections.approve(selection.number, "bob", "looked")
    bench.round(8)
    assert bench.states(1) == ["refused", *["purged"] * 4]
    assert "item 1 is not open" in (bench.selections.items(1)[0].reason or "")


def test_a_proposal_that_is_taken_back_closes_nothing(bench: SelectionBench) -> None:
    bench.dead(5)
    bench.selections.freeze(Filter(), "ada")
    bench.selections.start(1, PURGE, "ada")
    bench.round(3)
    bench.selections.cancel(1, "ada")
    bench.round(3)
    assert bench.states(1) == ["unsent"] * 5
    assert bench.selections.progress(1).run.finished_at is not None
    with pytest.raises(RunRefused):
        bench.selections.approve(1, "bob", "too late")


def test_a_replay_is_proposed_and_approved_as_it_was_asked_for(bench: SelectionBench) -> None:
    bench.dead(7)
    bench.selections.freeze(Filter(), "ada")
    run = Run("replay", "mended", ReplayMode.WITH_FOLLOWERS, per_s=100.0, force=True, propose=True)
    assert bench.selections.start(1, run, "ada").run.state is RunState.PROPOSED
    bench.round(6)
    assert {one.action for one in bench.kafka.sent} == {"propose_replay"}
    assert bench.states(1) == ["unsent"] * 7
    bench.selections.approve(1, "bob", "looked")
    bench.round(14)
    assert bench.states(1) == ["applied"] * 7
    acts = [one for one in bench.kafka.sent if one.action == "replay"]
    assert {(one.actor, one.mode, one.force) for one in acts} == {("bob", ReplayMode.WITH_FOLLOWERS, True)}


def test_replays_of_a_day_count_together_and_apart_from_purges(bench: SelectionBench) -> None:
    bench.dead(8)
    bench.selections.freeze(Filter(), "ada")
    limits = AloneLimits(items_max=4, replay_items_max=10, replay_amounts_minor_max={"EUR": 5_000})
    selection = replace(bench.selections.get(1).selection, count=8, amounts={"EUR": 4_000})
    replay, before = Run("replay", "mended"), Volume(2, Counter(EUR=1_000))
    assert why_two_people(selection, replay, limits, before) is None
    assert "above 10 a day" in str(why_two_people(selection, replay, limits, Volume(3)))
    assert "5,001 minor units of EUR" in str(why_two_people(selection, replay, limits, Volume(1, Counter(EUR=1_001))))
    assert "above 4 a day" in str(why_two_people(selection, PURGE, limits, Volume()))


def test_money_above_the_limit_needs_a_second_person_too() -> None:
    limits = AloneLimits(100, {"*": 1_000, "EUR": 5_000})
    some: dict[str, object] = {
        "note": "",
        "filter": "{}",
        "journal_seq": 1,
        "lineage": "",
        "digest": "",
        "actor": "ada",
    }

    before = Volume()

    def why(run: Run = PURGE, **amounts: int) -> str | None:
        selection = Selection(number=1, frozen_at=None, count=3, amounts=amounts, **some)  # type: ignore[arg-type]
        return why_two_people(selection, run, limits, before)

    assert why(EUR=5_000, USD=1_000) is None
    assert "5,001 minor units of EUR" in (why(EUR=5_001) or "")
    assert "of USD" in (why(USD=1_001) or "")
    assert why(Run("replay", "mended"), EUR=10**9) is None
    assert why(Run("purge", "x", propose=True)) is not None
    before = Volume(2, Counter({"EUR": 1}))
    assert "5,001 minor units of EUR with the 2 of the last 24 hours" in (why(EUR=5_000) or "")
    before = Volume(98)
    assert "it is 3 items with the 98 of the last 24 hours, and above 100 a day" in (why(EUR=1) or "")


def test_modes_that_are_not_of_the_action_are_refused(bench: SelectionBench) -> None:
    bench.dead(1)
    bench.selections.freeze(Filter(), "ada")
    for wrong in (
        Run("purge", "x", per_s=1.0),
        Run("replay", "x", per_s=0.0),
        Run("reverse", "x"),
    ):
        with pytest.raises(RunRefused):
            bench.selections.start(1, wrong, "ada")
    assert bench.selections.get(1).run is None
