"""A run sends each item once, in its own time, through crashes, second starts and a Kafka that is down."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from dlq.commands import ReplayMode
from dlq.index import Filter
from dlq.selection import Run, RunState, SelectionSettings
from processor.settings import DeadHead
from tests.unit.dlq.selection.bench import SETTINGS, SelectionBench


@pytest.fixture
def bench(tmp_path: Path) -> SelectionBench:
    return SelectionBench(tmp_path)


def test_a_run_replays_what_was_frozen_and_each_item_ends_in_a_state_that_is_shown(bench: SelectionBench) -> None:
    bench.dead(7)
    selection = bench.selections.freeze(Filter(), "ada", "the account was opened")
    assert (selection.number, selection.count) == (1, 7)
    bench.replay(1)
    assert bench.states(1) == ["unsent"] * 7
    bench.round(12)
    progress = bench.selections.progress(1)
    assert bench.states(1) == ["applied"] * 7
    assert (progress.finished, progress.share, progress.run.state) == (True, 1.0, RunState.SENT)
    assert progress.run.finished_at is not None
    assert bench.applied() == 7
    assert [len(command.targets) for command in bench.kafka.sent] == [3, 3, 1]


def test_what_dies_again_and_what_retries_is_told_apart(bench: SelectionBench) -> None:
    bench.dead(1, times=1)
    bench.dead(1, times=2)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.round(4)
    assert bench.states(1) == ["applied", "dead_again"]
    last = bench.selections.items(1)[1]
    assert last.reason == "ZeroDivisionError: division by zero"
    assert bench.engine.journal.rows[(last.row_seq or 0) - 1].item_seq == last.target.item_seq


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
    assert "has moved on since row 1" in (bench.selections.items(1)[0].reason or "")


def test_every_refusal_says_why_also_beyond_those_that_the_commands_row_names(tmp_path: Path) -> None:
    bench = SelectionBench(tmp_path, SelectionSettings(command_items_max=30))
    bench.dead(15)
    bench.selections.freeze(Filter(), "ada")
    bench.selections.freeze(Filter(), "bob")
    bench.replay(1)
    bench.round(4)
    bench.replay(2)
    bench.round(4)
    shown = bench.selections.items(2)
    assert {one.state.value for one in shown} == {"refused"}
    assert all(f"{one.target.item_seq}" in (one.reason or "") or "(applied)" in (one.reason or "") for one in shown)
    assert bench.applied() == 15


def test_a_second_start_of_the_same_run_says_so_and_another_run_of_the_set_is_refused(bench: SelectionBench) -> None:
    bench.dead(2)
    bench.selections.freeze(Filter(), "ada")
    run = Run("replay", "mended")
    assert not bench.selections.start(1, run, "ada").again
    bench.round(4)
    assert bench.selections.start(1, run, "bob").again
    bench.round(4)
    assert len(bench.kafka.sent) == 1
    assert bench.applied() == 2
    with pytest.raises(Exception, match="it was begun as a replay by ada"):
        bench.selections.start(1, Run("replay", "mended", ReplayMode.SUPERSEDED), "ada")


def test_two_consoles_and_one_run_send_each_command_once(bench: SelectionBench) -> None:
    bench.dead(9)
    other = bench.another("console-2")
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    for _ in range(8):
        bench.runner.step()
        other.step()
        bench.decide()
        bench.engine.clock.advance(1.0)
    assert len(bench.kafka.sent) == 3
    assert bench.selections.progress(1).held == "console-1"
    assert bench.states(1) == ["applied"] * 9


def test_a_console_that_dies_leaves_its_run_to_another_after_the_lease(bench: SelectionBench) -> None:
    bench.dead(6)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.runner.step()
    other = bench.another("console-2")
    bench.round(3, runner=other)
    assert len(bench.kafka.sent) == 1
    bench.round(4, seconds=SETTINGS.lease_s, runner=other)
    assert len(bench.kafka.sent) == 2
    assert bench.states(1) == ["applied"] * 6


def test_an_orderly_end_lets_another_console_go_on_at_once(bench: SelectionBench) -> None:
    bench.dead(6)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.runner.step()
    bench.runner.release()
    bench.round(6, runner=bench.another("console-2"))
    assert bench.states(1) == ["applied"] * 6


def test_a_command_that_nobody_acknowledged_is_sent_again_as_it_was_and_has_one_effect(bench: SelectionBench) -> None:
    """As after a crash between sending a command and writing down that Kafka has it."""
    bench.dead(4)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.kafka.loses = True
    bench.runner.step()
    bench.kafka.loses = False
    bench.engine.clock.advance(SETTINGS.lease_s)
    bench.round(8, runner=bench.another("console-2"))
    first, copy, rest = bench.kafka.sent
    assert first == copy
    assert rest.command_id != first.command_id
    assert bench.states(1) == ["applied"] * 4
    control = [row.decision.value for row in bench.engine.journal.rows if row.topic == "payments.control" and row.first]
    assert control == ["replayed", "duplicate", "replayed"]


def test_kafka_down_is_said_and_the_run_goes_on_when_it_is_back(bench: SelectionBench) -> None:
    bench.dead(4)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.kafka.down = True
    bench.round(3)
    told = bench.selections.progress(1)
    assert "broker down" in (told.run.problem or "")
    assert bench.kafka.sent == []
    bench.kafka.down = False
    bench.round(10, seconds=5)
    told = bench.selections.progress(1)
    assert (told.run.problem, told.finished) == (None, True)
    assert bench.states(1) == ["applied"] * 4


def test_a_real_producer_without_a_broker_leaves_the_run_waiting(bench: SelectionBench) -> None:
    bench.dead(2)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    settings: dict[str, str | int] = {"bootstrap.servers": "127.0.0.1:9", "message.timeout.ms": 300, "log_level": 0}
    bench.another("console-2", Producer(settings)).step()
    told = bench.selections.progress(1)
    assert "wasn't acknowledged" in (told.run.problem or "")
    assert bench.counts(1) == {"sent": 2}
    bench.engine.clock.advance(SETTINGS.lease_s)
    bench.round(4)
    assert bench.counts(1) == {"applied": 2}


def test_a_paused_run_sends_nothing_more_and_goes_on_when_it_is_resumed(bench: SelectionBench) -> None:
    bench.dead(9)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.round(1)
    assert bench.selections.pause(1, "bob").changed_by == "bob"
    bench.round(5)
    assert bench.counts(1) == {"applied": 3, "unsent": 6}
    bench.selections.resume(1, "bob")
    bench.round(8)
    assert bench.counts(1) == {"applied": 9}


def test_a_cancelled_run_leaves_what_it_did_not_send_dead(bench: SelectionBench) -> None:
    bench.dead(9)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.round(1)
    bench.selections.cancel(1, "ada")
    bench.round(9, seconds=5)
    progress = bench.selections.progress(1)
    assert bench.counts(1) == {"applied": 3, "unsent": 6}
    assert progress.finished
    assert bench.selections.freeze(Filter(), "ada").count == 6
    with pytest.raises(Exception, match="cancelled"):
        bench.selections.resume(1, "ada")


def test_a_rate_is_kept_and_holds_within_a_command_too(bench: SelectionBench) -> None:
    bench.dead(8)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1, per_s=1.0)
    bench.round(4)
    assert [len(command.targets) for command in bench.kafka.sent] == [2, 2]
    assert {command.interval_us for command in bench.kafka.sent} == {1_000_000}
    bench.round(10)
    assert bench.counts(1) == {"applied": 8}


def test_while_the_stream_is_stopped_nothing_is_sent_and_the_run_says_why(bench: SelectionBench) -> None:
    bench.dead(3)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.load.stopped = "the stream is blocked: Down"
    bench.round(3)
    assert bench.kafka.sent == []
    assert bench.selections.progress(1).run.problem == "waits: the stream is blocked: Down"
    bench.load.stopped = None
    bench.round(4)
    assert bench.states(1) == ["applied"] * 3


def test_live_traffic_that_waits_makes_the_run_slower_and_it_recovers(tmp_path: Path) -> None:
    bench = SelectionBench(tmp_path, SelectionSettings(command_items_max=400, on_their_way_max=800))
    bench.dead(1_200)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    bench.load.behind_s = 9.0
    for _ in range(4):
        bench.runner.step()
        bench.engine.clock.advance(1.0)
    assert [len(command.targets) for command in bench.kafka.sent] == [200]
    told = bench.selections.progress(1)
    assert told.run.problem == "slowed: live traffic waits 9.0 s"
    bench.load.behind_s = 0.1
    bench.round(20)
    assert bench.counts(1) == {"applied": 1_200}
    assert max(len(command.targets) for command in bench.kafka.sent) > 300


def test_a_replay_with_followers_names_an_entity_in_one_command(tmp_path: Path) -> None:
    """Commands of three would part the entity's four items, and the processor takes all of it or none."""
    bench = SelectionBench(tmp_path, dead_head=DeadHead.CONTINUE)
    for number in range(4):
        bench.dead(1, entity="e")
        bench.dead(1, entity=f"other_{number}")
    selection = bench.selections.freeze(Filter(), "ada")
    assert selection.count == 8
    bench.replay(1, mode="with_followers")
    bench.round(14)
    mine = {row.item_seq for row in bench.engine.journal.rows if row.entity_key == "e" and row.first}
    named = [mine & {target.item_seq for target in command.targets} for command in bench.kafka.sent]
    assert [one for one in named if one] == [mine]
    assert bench.states(1) == ["applied"] * 8


def test_what_was_replayed_in_vain_too_often_is_refused_unless_it_is_forced(bench: SelectionBench) -> None:
    bench.dead(1, times=7)
    for number in range(1, 8):
        bench.selections.freeze(Filter(), "ada")
        bench.replay(number, force=number == 7)
        bench.round(4)
    assert [bench.states(number) for number in range(1, 8)] == [["dead_again"]] * 5 + [["refused"], ["dead_again"]]
    assert "replayed 5 times" in (bench.selections.items(6)[0].reason or "")
