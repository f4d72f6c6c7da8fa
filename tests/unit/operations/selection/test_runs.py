"""A run as its operators see it: begun once, followed by the journal, paused and cancelled while it is under way."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from core.clock import to_rfc3339
from dead_letters.listing import Filter
from operations.command import ReplayMode
from operations.commands import CommandNotSent
from operations.frozen import RunState
from operations.selection.model import RunRefused, RunRequest
from processor.settings import DeadHead
from tests.live_processes import processor_elsewhere
from tests.unit.operations.selection.bench import SelectionBench
from tests.unit.processor.fakes import Stuck


@pytest.mark.row("B4")
def test_a_run_replays_what_was_frozen_and_each_item_ends_in_a_state_that_is_shown(bench: SelectionBench) -> None:
    bench.dead(7)
    selection = bench.selections.freeze(Filter(), "ada", "the account was opened")
    assert (selection.number, selection.count) == (1, 7)
    assert bench.states(1) == ["unsent"] * 7
    bench.replay(1)
    bench.round(12)
    progress = bench.selections.progress(1)
    assert bench.states(1) == ["applied"] * 7
    assert (progress.finished, progress.share, progress.run.state) == (True, 1.0, RunState.SENT)
    assert progress.run.finished_at is not None
    assert bench.applied() == 7
    assert len(bench.sent) == 1, "one command begins it"
    assert [one.upto for one in bench.portions()] == [3, 6, 7, 7]


def test_another_process_sees_the_same_of_it(bench: SelectionBench) -> None:
    bench.dead(3)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.round(2)
    other, _ = bench.another()
    assert other.progress(1).counts == bench.selections.progress(1).counts
    bench.round(4)
    assert [one.state for one in other.items(1)] == [one.state for one in bench.selections.items(1)]
    assert [one.run.finished_at for one in other.list_kept() if one.run] != [None]


def test_what_dies_again_and_what_retries_is_reported_apart(bench: SelectionBench) -> None:
    bench.dead(1, times=1)
    bench.dead(1, times=2)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.round(4)
    assert bench.states(1) == ["applied", "dead_again"]
    last = bench.selections.items(1)[1]
    assert last.reason == "ZeroDivisionError: division by zero"
    assert bench.engine.journal.rows[(last.row_seq or 0) - 1].item_seq == last.target.item_seq


def test_what_becomes_of_an_item_after_its_run_is_another_story(bench: SelectionBench) -> None:
    bench.dead(1, times=2)
    for number in (1, 2):
        bench.selections.freeze(Filter(), "ada")
        bench.replay(number)
        bench.round(4)
    assert [bench.states(1), bench.states(2)] == [["dead_again"], ["applied"]]


def test_a_run_whose_items_retry_is_not_finished(bench: SelectionBench) -> None:
    [key] = bench.dead(1)
    bench.engine.handler.fails(key, Stuck("later"), times=1)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.round(2, seconds=0.1)
    progress = bench.selections.progress(1)
    assert (progress.run.state, progress.finished, progress.run.finished_at) == (RunState.SENT, False, None)
    assert bench.counts(1) == {"retry": 1}
    bench.round(4)
    assert bench.selections.progress(1).run.finished_at is not None


def test_an_item_that_moved_on_since_it_was_frozen_is_refused_with_its_reason(bench: SelectionBench) -> None:
    bench.dead(2, times=2)
    selection = bench.selections.freeze(Filter(), "ada")
    [first, _] = bench.selections.items(selection.number)
    bench.engine.command(first.target.item_seq, first.target.seen_seq)
    for _ in range(3):
        bench.decide()
    bench.replay(1)
    bench.round(4)
    assert bench.states(1) == ["refused", "dead_again"]
    assert bench.selections.items(1)[0].reason == "item 1 has moved on since row 1; look again"


def test_every_refusal_says_why_however_many_there_are(tmp_path: Path) -> None:
    bench = SelectionBench(tmp_path, portion=30)
    bench.dead(15)
    bench.selections.freeze(Filter(), "ada")
    bench.selections.freeze(Filter(), "bob")
    bench.replay(1)
    bench.round(4)
    bench.replay(2)
    bench.round(4)
    assert [one.reason for one in bench.selections.items(2)] == [f"item {item} is not open" for item in range(1, 16)]
    assert {one.state.value for one in bench.selections.items(2)} == {"refused"}
    assert bench.applied() == 15
    assert bench.selections.progress(2).finished


def test_a_second_start_of_the_same_run_says_so_and_another_run_of_the_set_is_refused(bench: SelectionBench) -> None:
    bench.dead(2)
    bench.selections.freeze(Filter(), "ada")
    run = RunRequest("replay", "mended")
    assert not bench.runs.start(1, run, "ada").again
    bench.round(4)
    assert bench.another()[1].start(1, run, "bob").again
    bench.round(4)
    assert len(bench.sent) == 1
    assert bench.applied() == 2
    with pytest.raises(RunRefused, match="it was already started as a replay by ada"):
        bench.runs.start(1, RunRequest("replay", "mended", ReplayMode.WITH_FOLLOWERS), "ada")


def test_of_two_who_begin_at_once_one_begins_and_the_other_is_reported(bench: SelectionBench) -> None:
    bench.dead(2)
    bench.selections.freeze(Filter(), "ada")
    _, other = bench.another()
    bench.kafka.first = lambda: bench.replay(1)
    with pytest.raises(RunRefused, match="it was already started as a replay by ada"):
        other.start(1, RunRequest("purge", "garbage"), "bob")
    bench.round(4)
    assert bench.states(1) == ["applied"] * 2


def test_kafka_down_is_said_and_the_same_start_goes_on_when_it_is_back(bench: SelectionBench) -> None:
    bench.dead(4)
    bench.selections.freeze(Filter(), "ada")
    bench.kafka.down = True
    with pytest.raises(CommandNotSent, match="broker down"):
        bench.replay(1)
    assert bench.acts.acts[-1].outcome.value == "failed"
    assert bench.selections.get(1).run is None
    bench.kafka.down = False
    bench.replay(1)
    bench.round(6)
    assert bench.states(1) == ["applied"] * 4


def test_why_a_run_waits_is_known_of_a_processor_on_another_machine(bench: SelectionBench) -> None:
    bench.dead(1)
    bench.selections.freeze(Filter(), "ada")
    said = {"at": to_rfc3339(bench.engine.clock.now()), "ready": False, "blocked": "Down: no disk"}
    with processor_elsewhere({bench.places.stream: said}) as url:
        bench.status_urls = [url]
        selections, runs = bench.another()
        runs._sleep = lambda _: None
        runs.start(1, RunRequest("replay", "mended"), "ada")
        assert selections.progress(1).run.problem == "waits: the stream is blocked: Down: no disk"


def test_what_the_processor_has_not_decided_yet_is_shown_as_it_was_ordered(bench: SelectionBench) -> None:
    bench.dead(4)
    bench.selections.freeze(Filter(), "ada")
    bench.runs._sleep = lambda _: None
    bench.replay(1)
    progress = bench.selections.progress(1)
    assert (progress.run.state, progress.run.actor, bench.counts(1)) == (RunState.RUNNING, "ada", {"unsent": 4})
    assert progress.run.problem == "no processor reports its status: see `payhook status`"
    assert bench.another()[0].get(1).run is None
    assert bench.runs.start(1, RunRequest("replay", "mended"), "ada").run.state is RunState.RUNNING
    with pytest.raises(RunRefused, match="it was already started as a replay by ada"):
        bench.runs.start(1, RunRequest("purge", "garbage"), "ada")
    bench.runs.cancel(1, "ada")
    assert bench.selections.get(1).run.state is RunState.CANCELLED  # type: ignore[union-attr]
    bench.round(3)
    assert bench.states(1) == ["unsent"] * 4
    assert bench.selections.progress(1).finished


def test_a_paused_run_takes_nothing_more_and_goes_on_when_it_is_resumed(bench: SelectionBench) -> None:
    bench.dead(9)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.round(1)
    paused = bench.runs.pause(1, "bob")
    assert (paused.state, paused.changed_by) == (RunState.PAUSED, "bob")
    bench.round(5)
    assert bench.counts(1) == {"applied": 3, "unsent": 6}
    assert bench.runs.resume(1, "bob").state is RunState.RUNNING
    bench.round(8)
    assert bench.counts(1) == {"applied": 9}


def test_a_cancelled_run_leaves_what_it_did_not_take_dead(bench: SelectionBench) -> None:
    bench.dead(9)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.round(1)
    bench.runs.cancel(1, "ada")
    bench.round(9, seconds=5)
    progress = bench.selections.progress(1)
    assert bench.counts(1) == {"applied": 3, "unsent": 6}
    assert progress.finished
    assert bench.selections.freeze(Filter(), "ada").count == 6
    with pytest.raises(RunRefused, match="cancelled"):
        bench.runs.resume(1, "ada")


def test_a_run_that_waits_says_what_for(bench: SelectionBench) -> None:
    bench.dead(5)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1, per_s=0.01)
    now = bench.engine.clock.now
    bench.status.parent.mkdir(parents=True, exist_ok=True)

    def problem(at: timedelta = timedelta(0), **said: object) -> str | None:
        bench.status.write_text(json.dumps({"at": to_rfc3339(now() - at), "ready": True, **said}))
        return bench.selections.progress(1).run.problem

    assert problem() is None
    assert problem(blocked="Down") == "waits: the stream is blocked: Down"
    assert problem(ready=False) == "waits: the processor isn't ready"
    for off in (timedelta(seconds=31), -timedelta(seconds=31)):
        assert problem(off) == f"waits: the processor's last status is of {to_rfc3339(now() - off)}"
    assert problem(batch_s=2.0, catch_up={"behind": True, "recover_s": 7.0}) == "slowed: live traffic waits 9.0 s"
    bench.status.write_text("[]")
    assert bench.selections.progress(1).run.problem == "no processor reports its status: see `payhook status`"


def test_the_speed_of_late_tells_how_long_it_takes_yet(bench: SelectionBench) -> None:
    bench.dead(9)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.round(2)
    reported = bench.selections.progress(1)
    assert reported.per_s is not None and reported.eta_s is not None
    assert reported.eta_s == pytest.approx((9 - reported.ended) / reported.per_s)


@pytest.mark.row("E10")
def test_a_replay_with_followers_takes_an_entity_at_once(tmp_path: Path) -> None:
    """Portions of three would part the entity's four items, and the processor takes all of it or none."""
    bench = SelectionBench(tmp_path, dead_head=DeadHead.CONTINUE)
    for number in range(4):
        bench.dead(1, entity="e")
        bench.dead(1, entity=f"other_{number}")
    assert bench.selections.freeze(Filter(), "ada").count == 8
    bench.replay(1, mode="with_followers")
    bench.round(14)
    assert bench.states(1) == ["applied"] * 8


def test_what_was_replayed_in_vain_too_often_is_refused_unless_it_is_forced(bench: SelectionBench) -> None:
    bench.dead(1, times=7)
    for number in range(1, 8):
        bench.selections.freeze(Filter(), "ada")
        bench.replay(number, force=number == 7)
        bench.round(4)
    assert [bench.states(number) for number in range(1, 8)] == [["dead_again"]] * 5 + [["refused"], ["dead_again"]]
    assert "replayed 5 times" in (bench.selections.items(6)[0].reason or "")


def test_items_are_paged_by_state_in_the_frozen_order(bench: SelectionBench) -> None:
    bench.dead(3, times=9)
    bench.dead(4)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.round(8)
    shown = bench.selections.items(1, [bench.selections.items(1)[0].state], after_place=0, limit=1)
    assert [(one.place, one.state.value) for one in shown] == [(1, "dead_again")]


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (RunRequest("replay", "mended"), ""),
        (RunRequest("replay", "mended", ReplayMode.WITH_FOLLOWERS, per_s=50.0), ", with_followers, 50 a second"),
        (RunRequest("replay", "mended", force=True), ", forced"),
        (RunRequest("purge", "never sent", propose=True), ", two people"),
    ],
)
def test_a_run_says_what_isnt_as_usual(run: RunRequest, said: str) -> None:
    assert run.options_text == said
