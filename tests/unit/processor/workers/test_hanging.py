"""A handler that hangs costs its event a timeout and its batch a short wait; nobody else is behind it."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from core.decision import ErrorKind
from core.work import Applied, Held, Outcome, WorkItem, calling
from processor.calls.budget import Budget, Budgets
from processor.errors.classify import Classifier, Failure
from processor.workers.deadlines import AbandonedCall, AbandonedCalls, Deadlines, OutSince, Patience
from processor.workers.worker import Chunk, ChunkAnswer, Task, run_chunk
from tests.unit.processor.fakes import run_groups

HANG_S_MAX = 30.0


class HangingHandler:
    """``hang`` until the test lets go, ``spin`` in Python code for ever, ``slow`` for 30 ms; all else is at once."""

    version = "test-1"

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.calls: list[int] = []
        self.under_way: set[str] = set()
        self.overlaps: list[str] = []
        self.peak = 0

    def __call__(self, item: WorkItem) -> Outcome:
        self.calls.append(item.item_seq)
        if item.entity_key in self.under_way:
            self.overlaps.append(item.entity_key)
        self.under_way.add(item.entity_key)
        self.peak = max(self.peak, len(self.under_way))
        try:
            return self.act(item)
        finally:
            self.under_way.discard(item.entity_key)

    def act(self, item: WorkItem) -> Outcome:
        match item.event_type:
            case "hang":
                self.let_go.wait(HANG_S_MAX)
            case "spin":
                while not self.let_go.is_set():
                    pass
            case "slow":
                time.sleep(0.03)
            case "exit":
                sys.exit("a library gave up")
            case "call":
                with calling("bank"):
                    self.let_go.wait(HANG_S_MAX)
        return Applied()


@pytest.fixture
def handler() -> Iterator[HangingHandler]:
    made = HangingHandler()
    yield made
    made.let_go.set()


def item(seq: int, kind: str = "fine", entity: str = "") -> WorkItem:
    return WorkItem(seq, f"key-{seq}", entity or f"entity-{seq}", "stripe", "acct", kind, b"{}", None, 0)


def task(call_s: float = 0.4, batch_s: float = 0.5, *, hasty: bool = False, **changes: object) -> Task:
    settings: dict[str, object] = {
        "stream": "test",
        "build_handler": HangingHandler,
        "classifier": Classifier(),
        "deadlines": Deadlines(call_s, batch_s, hasty),
        "concurrency": 1,
        "stop_on_dead": True,
    }
    return Task(**{**settings, **changes})  # type: ignore[arg-type]


def the_call(left: AbandonedCalls) -> AbandonedCall:
    [[call]] = left._calls.values()
    return call


def reported(results: list[tuple[int, Outcome | Failure]]) -> dict[int, object]:
    return {seq: r.error_class if isinstance(r, Failure) else type(r) for seq, r in results}


def chunk(
    handler: HangingHandler,
    left: AbandonedCalls,
    *items: WorkItem,
    call_s: float = 0.4,
    batch_s: float = 0.5,
    hasty: bool = False,
) -> ChunkAnswer:
    return run_chunk(task(call_s, batch_s, hasty=hasty), handler, Chunk([[one] for one in items]), left)


@pytest.mark.row("D1")
def test_entities_behind_those_that_hang_are_handled_although_only_one_thread_is_asked_for(handler: HangingHandler):
    groups = [[item(seq, "hang" if seq % 20 == 0 else "fine")] for seq in range(200)]
    results = reported(run_groups(task(), handler, groups))
    assert results == {seq: "HandlerTimeout" if seq % 20 == 0 else Applied for seq in range(200)}


def test_a_timeout_is_the_events_own_and_its_followers_did_not_run(handler: HangingHandler):
    results = run_groups(task(), handler, [[item(1, "hang", "e"), item(2, entity="e")], [item(3)]])
    assert reported(results) == {1: "HandlerTimeout", 3: Applied}
    assert handler.calls == [1, 3]
    [late] = [result for _, result in results if isinstance(result, Failure)]
    assert late.kind is ErrorKind.SNBE and "key-1" in late.message


def test_while_a_call_hangs_a_later_attempt_of_its_event_times_out_without_a_second_call(handler: HangingHandler):
    left = AbandonedCalls()
    chunk(handler, left, item(1, "hang"))
    again = chunk(handler, left, replace(item(1, "hang"), attempt=1))
    assert reported(again.results) == {1: "HandlerTimeout"}
    assert (handler.calls, again.hung, again.waited_s) == ([1], 1, 0.0)


def test_a_late_result_is_never_taken(handler: HangingHandler):
    left = AbandonedCalls()
    chunk(handler, left, item(1, "hang"))
    handler.let_go.set()
    assert the_call(left).back.wait(HANG_S_MAX)
    again = chunk(handler, left, item(1, "hang"))
    assert reported(again.results) == {1: Applied}
    assert (handler.calls, again.hung) == ([1, 1], 0)


def test_a_result_that_came_too_late_is_not_taken_although_nobody_had_looked_meanwhile(handler: HangingHandler):
    left = AbandonedCalls()
    chunk(handler, left, item(1, "hang"), call_s=30.0)
    the_call(left).began -= 31.0
    handler.let_go.set()
    assert the_call(left).back.wait(HANG_S_MAX)
    assert reported(chunk(handler, left, item(1, "hang")).results) == {1: Applied}
    assert handler.calls == [1, 1]


def test_a_call_that_takes_longer_than_its_batch_waits_is_not_lost(handler: HangingHandler):
    left = AbandonedCalls()
    first = chunk(handler, left, item(1, "hang"), item(2), call_s=30.0)
    assert reported(first.results) == {2: Applied} and 0.4 <= first.still_out[1].seconds < 30
    second = chunk(handler, left, item(1, "hang"), item(3), call_s=30.0)
    assert reported(second.results) == {3: Applied} and second.still_out.keys() == {1}
    assert second.waited_s == 0.0
    handler.let_go.set()
    assert the_call(left).back.wait(HANG_S_MAX)
    third = chunk(handler, left, item(1, "hang"), call_s=30.0)
    assert (reported(third.results), third.still_out, handler.calls) == ({1: Applied}, {}, [1, 2, 3])


def test_a_call_is_found_again_by_its_event_although_its_row_has_another_number(handler: HangingHandler):
    """New events are numbered before it is known how many rows come before theirs."""
    left = AbandonedCalls()
    chunk(handler, left, item(1, "hang"), call_s=30.0)
    renumbered = replace(item(1, "hang"), item_seq=3)
    other = replace(item(2), item_seq=1)
    second = chunk(handler, left, renumbered, other, call_s=30.0)
    assert reported(second.results) == {1: Applied}
    assert second.still_out.keys() == {3}
    handler.let_go.set()
    assert the_call(left).back.wait(HANG_S_MAX)
    third = chunk(handler, left, renumbered, call_s=30.0)
    assert reported(third.results) == {3: Applied}
    assert len(handler.calls) == 2


@pytest.mark.parametrize("later", [replace(item(1, "hang"), attempt=1), replace(item(1, "hang"), replays=1)])
def test_a_result_is_only_for_the_attempt_and_the_replay_that_it_came_of(handler: HangingHandler, later: WorkItem):
    left = AbandonedCalls()
    chunk(handler, left, item(1, "hang"), call_s=30.0)
    handler.let_go.set()
    assert the_call(left).back.wait(HANG_S_MAX)
    chunk(handler, left, later, call_s=30.0)
    assert handler.calls == [1, 1]


def test_a_result_is_taken_once(handler: HangingHandler):
    left = AbandonedCalls()
    chunk(handler, left, item(1, "hang"), call_s=30.0)
    handler.let_go.set()
    assert the_call(left).back.wait(HANG_S_MAX)
    for _ in range(2):
        assert reported(chunk(handler, left, item(1, "hang"), call_s=30.0).results) == {1: Applied}
    assert handler.calls == [1, 1]


def test_a_call_whose_time_runs_out_between_two_batches_is_a_timeout_in_the_second(handler: HangingHandler):
    left = AbandonedCalls()
    chunk(handler, left, item(1, "hang"), call_s=30.0)
    the_call(left).began -= 30.0
    assert reported(chunk(handler, left, item(1, "hang"), call_s=30.0).results) == {1: "HandlerTimeout"}
    assert handler.calls == [1]


def test_a_hasty_batch_leaves_a_call_behind_sooner(handler: HangingHandler):
    limits = {"call_s": 30.0, "batch_s": 10.0}
    hasty = chunk(handler, AbandonedCalls(), item(1, "hang"), item(2), hasty=True, **limits)
    assert reported(hasty.results) == {2: Applied}
    assert 1.0 <= hasty.still_out[1].seconds < 8.0


def test_a_batch_says_how_long_it_waited_for_nothing_but_calls_that_were_out(handler: HangingHandler):
    assert 0.0 < chunk(handler, AbandonedCalls(), item(1, "hang"), call_s=1.0, batch_s=10.0).waited_s < 8.0
    assert chunk(handler, AbandonedCalls(), item(2), item(3), call_s=30.0, batch_s=10.0).waited_s == 0.0


def test_no_more_threads_stay_than_may_and_what_was_not_begun_is_left_for_the_next_batch(
    handler: HangingHandler, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("processor.workers.worker.HUNG_CALLS_MAX", 5)
    left = AbandonedCalls()
    answer = chunk(handler, left, *(item(seq, "hang") for seq in range(40)))
    assert answer.hung == left.count() == 6
    assert reported(answer.results) == dict.fromkeys(handler.calls, "HandlerTimeout")
    assert len(handler.calls) == 6
    chunk(handler, left, item(100, "hang"), item(101))
    assert left.count() == 7


def test_a_call_that_spins_is_ended_once_it_has_timed_out(handler: HangingHandler):
    left = AbandonedCalls()
    assert reported(chunk(handler, left, item(1, "spin")).results) == {1: "HandlerTimeout"}
    the_call(left).thread.join(HANG_S_MAX)
    assert (left.count(), handler.let_go.is_set()) == (0, False)


def test_a_batch_whose_calls_come_back_is_not_cut_off_at_its_deadline(handler: HangingHandler):
    groups = [[item(seq, "slow")] for seq in range(20)]
    results = run_groups(task(batch_s=0.5, call_s=30.0), handler, groups)
    assert reported(results) == dict.fromkeys(range(20), Applied)


def test_a_batch_that_works_for_some_deadlines_leaves_the_rest_for_the_next_one(
    handler: HangingHandler, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("processor.workers.deadlines.WORK_DEADLINES", 0.1)
    group = [item(seq, "slow", "e") for seq in range(100)]
    results = reported(run_groups(task(batch_s=10.0, call_s=30.0), handler, [group]))
    assert results == dict.fromkeys(range(len(results)), Applied)
    assert 0 < len(results) < 40


def test_calls_that_take_their_usual_time_are_no_more_at_a_time_than_asked_for(
    handler: HangingHandler, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("processor.workers.worker_pool.SPARE_AFTER_USUAL", 100)
    groups = [[item(seq, "slow")] for seq in range(30)]
    run_groups(task(concurrency=4), handler, groups)
    assert handler.peak == 4
    left = AbandonedCalls()
    run_groups(task(), handler, groups, left)
    handler.peak = 0
    run_groups(task(), handler, groups, left)
    assert handler.peak == 1


def test_a_handler_that_ends_its_thread_is_a_bug_of_its_event_only(handler: HangingHandler):
    results = run_groups(task(), handler, [[item(1, "exit")], [item(2)]])
    assert reported(results) == {1: "SystemExit", 2: Applied}
    assert isinstance(results[0][1], Failure) and results[0][1].kind is ErrorKind.NRE


def test_an_entitys_events_run_one_after_the_other_whatever_hangs_and_overtakes(handler: HangingHandler):
    kinds = ["fine", "slow", "fine", "fine", "hang"]
    groups = [[item(100 * entity + n, kinds[(entity + n) % 5], f"e{entity}") for n in range(4)] for entity in range(30)]
    results = dict(run_groups(task(concurrency=2), handler, groups))
    assert handler.overlaps == []
    for group in groups:
        mine = [seq for seq in handler.calls if seq // 100 == group[0].item_seq // 100]
        assert mine == [one.item_seq for one in group][: len(mine)]
        hung = next((n for n, one in enumerate(group) if one.event_type == "hang"), 4)
        assert [one.item_seq in results for one in group] == [n <= hung for n in range(4)]


def test_a_try_that_waits_for_its_turn_to_call_is_no_timeout(handler: HangingHandler):
    budgets = Budgets({"bank": Budget(calls=10, retries=10, at_once=1, failures=10)})
    groups = [[item(1, "call")], [item(2, "call")], [item(3)]]
    answer = run_chunk(task(), handler, Chunk(groups, budgets), AbandonedCalls())
    assert reported(answer.results) == {1: "HandlerTimeout", 2: Held, 3: Applied}
    [late] = [result for _, result in answer.results if isinstance(result, Failure)]
    assert late.downstream == "bank"


def test_a_try_that_was_cut_short_while_it_waited_for_its_turn_is_made_in_the_next_batch(handler: HangingHandler):
    budgets, left = Budgets({"bank": Budget(calls=10, retries=10, at_once=1, failures=10)}), AbandonedCalls()
    first = run_chunk(task(hasty=True), handler, Chunk([[item(1, "call")], [item(2, "call")]], budgets), left)
    assert first.results == [] and first.still_out.keys() == {1}
    for call in [call for calls in left._calls.values() for call in calls]:
        if call.item.item_seq == 2:
            assert call.back.wait(HANG_S_MAX)
    handler.let_go.set()
    assert reported(run_chunk(task(), handler, Chunk([[item(2, "call")]]), left).results) == {2: Applied}
    assert handler.calls == [1, 2, 2]


def test_the_log_lines_of_a_failure_are_those_of_its_own_thread():
    both = threading.Barrier(2)

    class TalkingTogether(HangingHandler):
        def act(self, item: WorkItem) -> Outcome:
            both.wait(HANG_S_MAX)
            for n in range(20):
                logging.getLogger("handler").warning("%s says %d", item.event_key, n)
            both.wait(HANG_S_MAX)
            raise ValueError(item.event_key)

    results = run_groups(task(concurrency=2), TalkingTogether(), [[item(1)], [item(2)]])
    assert len(results) == 2
    for seq, result in results:
        assert isinstance(result, Failure) and result.log_lines is not None
        assert result.log_lines.split("\n") == [f"WARNING handler: key-{seq} says {n}" for n in range(20)]


def test_an_event_does_not_get_the_log_lines_of_the_one_before_it():
    class TalkingOnce(HangingHandler):
        def act(self, item: WorkItem) -> Outcome:
            if item.item_seq == 1:
                logging.getLogger("handler").warning("said of the first")
                return Applied()
            raise ValueError(item.event_key)

    results = dict(run_groups(task(), TalkingOnce(), [[item(1)], [item(2)]]))
    assert isinstance(results[2], Failure) and results[2].log_lines is None


@pytest.mark.parametrize("call_s", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("batch_s", [0.05, 0.5, 10.0])
def test_a_patient_batch_and_a_hasty_one_wait_less_than_the_batchs_deadline(call_s: float, batch_s: float):
    patient, hasty = Deadlines(call_s, batch_s), Deadlines(call_s, batch_s, hasty=True)
    assert 0 < hasty.patience_s <= patient.patience_s
    assert patient.patience_s + hasty.patience_s < batch_s


def test_no_batch_waits_longer_than_a_call_may_take():
    assert Deadlines(0.2, 0.5).patience_s == 0.2
    assert Deadlines(2.0, 0.5).patience_s == pytest.approx(0.4)


def test_a_batch_after_one_that_waited_is_hasty_and_the_next_one_is_not():
    patience = Patience(0.5)
    said = []
    for waited_s in (0.0, 0.04, 0.4, 0.4, 0.4, 0.1, 0.0, 0.0):
        said.append(patience.hasty)
        patience.note_waited(waited_s)
    assert said == [False, False, False, True, False, True, False, False]


def test_a_call_is_out_since_the_first_worker_began_it():
    out = OutSince(call_s=2.0)
    assert out.measure_call("7", seconds=0.4, now=10.0) == pytest.approx(0.4)
    assert out.measure_call("7", seconds=0.1, now=11.0) == pytest.approx(1.4)
    assert out.measure_call("8", seconds=0.1, now=11.0) == pytest.approx(0.1)


def test_the_next_attempts_call_is_another_one():
    out = OutSince(call_s=2.0)
    out.measure_call("7", seconds=0.4, now=10.0)
    out.measure_call("8", seconds=0.4, now=10.0)
    out.forget_calls({"7"}, now=11.0)
    assert out.measure_call("7", seconds=0.1, now=11.0) == pytest.approx(0.1)
    assert out.measure_call("8", seconds=0.1, now=11.0) == pytest.approx(1.4)
    out.forget_calls(set(), now=40.0)
    assert out.measure_call("8", seconds=0.1, now=40.0) == pytest.approx(0.1)


def test_a_call_that_is_out_is_asked_for_again_when_its_time_is_over_at_the_latest():
    out = OutSince(call_s=2.0)
    asked, seconds = [], 0.4
    while seconds < 2.0:
        asked.append(seconds)
        seconds += out.look_again_s(seconds)
    assert asked == pytest.approx([0.4, 0.8, 1.6]) and seconds == pytest.approx(2.0)
