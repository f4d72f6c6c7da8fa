"""Replays with followers in order, at a rate, of what was passed meanwhile, again; and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from core.decision import Decision
from core.work import MissingPredecessor, Outcome, WorkItem
from journal.target import ItemTarget
from operations import acceptance
from operations.acceptance import judge_replay
from operations.command import ReplayMode
from processor.settings import DeadHead
from tests.unit.processor.fakes import Stuck
from tests.unit.processor.harness import CONTROL, Engine
from tests.unit.processor.ordering import (
    BUG,
    close,
    command,
    decided,
    decided_run,
    dying,
    last,
    mended,
    order,
    passing,
    run_order,
    send_run,
    target,
)


@pytest.mark.row("E10")
def test_followers_run_after_their_head_in_kafkas_order(tmp_path: Path) -> None:
    engine = passing(tmp_path)
    keys = dying(engine, "evt_1", "evt_2", "evt_3")
    mended(engine)
    decided = close(engine, "replay", keys[2], keys[0], keys[1], mode=ReplayMode.WITH_FOLLOWERS)
    engine.advance(0)
    assert decided.refusals == ""
    assert engine.handler.calls == keys
    assert not any(row.out_of_order for row in engine.journal.rows)


def test_a_handler_sees_how_often_its_event_was_replayed(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    replays: list[int] = []

    def act(item: WorkItem) -> Outcome:
        replays.append(item.replays)
        raise ZeroDivisionError

    key = engine.post("evt_1")
    engine.handler.script[key] = act
    engine.batch()
    for number in range(2):
        engine.command(1, last(engine, key).seq, f"c{number}")
        engine.batch()
        engine.advance(0)
    assert replays == [0, 1, 2]


def test_a_follower_that_died_since_keeps_the_whole_entity_back_and_no_other(tmp_path: Path) -> None:
    engine = passing(tmp_path)
    keys = dying(engine, "evt_1", "evt_2")
    [other] = dying(engine, "evt_9", entity="e2")
    [late] = dying(engine, "evt_3")
    decided = close(engine, "replay", *keys, other, mode=ReplayMode.WITH_FOLLOWERS)
    number = last(engine, late).item_seq
    assert decided.refusals == (
        f"item 1 goes with its followers: item {number} is dead behind it and isn't named; "
        f"look again; item 2 goes with its followers: item {number} is dead behind it and isn't named; look again"
    )
    assert [engine.decisions(key)[-1] for key in (*keys, late, other)] == ["dead"] * 3 + ["replayed"]


def test_a_follower_that_dies_in_the_batch_of_the_order_counts_too(tmp_path: Path) -> None:
    engine = passing(tmp_path)
    keys = dying(engine, "evt_1", "evt_2")
    run = send_run(engine, "replay", *(target(engine, key) for key in keys), mode=ReplayMode.WITH_FOLLOWERS)
    engine.batch()
    engine.handler.fails(engine.post("evt_3"), BUG)
    assert decided_run(engine, run).refusals.count("isn't named") == 2
    assert [engine.decisions(key) for key in keys] == [["dead"]] * 2


def test_of_an_entity_with_one_that_moved_on_none_is_replayed(tmp_path: Path) -> None:
    engine = passing(tmp_path)
    head, follower = dying(engine, "evt_1", "evt_2")
    targets = [target(engine, head), target(engine, follower)]
    order(engine, "replay", follower)
    engine.advance(0)
    decided = run_order(engine, "replay", *targets, mode=ReplayMode.WITH_FOLLOWERS)
    moved = "item 2 has moved on since row 2; look again"
    assert decided.refusals == f"item 1 goes with its followers: {moved}; {moved}"
    assert engine.decisions(head) == ["dead"]


def test_what_a_person_closed_is_no_follower_any_more(tmp_path: Path) -> None:
    engine = passing(tmp_path)
    head, follower = dying(engine, "evt_1", "evt_2")
    targets = [target(engine, head), target(engine, follower)]
    close(engine, "resolve", follower)
    assert run_order(engine, "replay", *targets, mode=ReplayMode.WITH_FOLLOWERS).refusals == "item 2 is not open"
    assert engine.decisions(head) == ["dead", "replayed"]


def test_a_conflict_is_nobodys_follower(tmp_path: Path) -> None:
    engine = passing(tmp_path)
    dying(engine, "evt_1")
    engine.post("evt_1", content="changed")
    engine.batch()
    assert run_order(engine, "replay", engine.target(1, 1), mode=ReplayMode.WITH_FOLLOWERS).refusals == ""


def test_an_entity_with_too_many_open_events_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(tmp_path)
    [head] = dying(engine, "evt_1")
    engine.post("evt_2")
    engine.batch()
    monkeypatch.setattr(acceptance, "ENTITY_ITEMS_MAX", 1)
    refusals = close(engine, "replay", head, mode=ReplayMode.WITH_FOLLOWERS).refusals
    assert "more than 1 events of its entity are open: replay them alone" in refusals


def test_what_waits_or_was_never_there_is_not_replayed(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    [head] = dying(engine, "evt_1")
    behind = engine.post("evt_2")
    engine.batch()
    command(engine, "replay", target(engine, behind), engine.target(4_000, 4_000))
    number = last(engine, behind).item_seq
    row = decided(engine)
    assert row.reason == f"0 of 2 accepted; refused: item {number} is parked, not dead; item 4000 is not open"
    assert engine.decisions(head) == ["dead"]


def test_a_rate_gives_each_accepted_item_its_own_time(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    keys = [dying(engine, f"evt_{number}", entity=f"e{number}")[0] for number in range(4)]
    seen = [target(engine, key) for key in keys]
    close(engine, "resolve", keys[1])
    mended(engine)
    send_run(engine, "replay", *seen, per_s=4.0)
    engine.batch()
    engine.advance(1)
    decided_at = engine.clock.now()
    due = [last(engine, key).due_at for key in (keys[0], keys[2], keys[3])]
    assert due == [decided_at + timedelta(seconds=0.25) * number for number in range(3)]
    engine.advance(0)
    assert engine.handler.calls == [keys[0]]
    live = engine.post("evt_9", "e9")
    engine.advance(0.1)
    assert engine.handler.calls == [keys[0], live]
    engine.advance(0.2)
    engine.advance(0.25)
    assert engine.handler.calls == [keys[0], live, keys[2], keys[3]]


def test_a_large_command_leaves_room_for_live_events_in_each_batch(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.rules = replace(engine.rules, due_per_batch_max=40)
    engine.start()
    for number in range(100):
        key = engine.post(f"evt_{number}", f"e{number}")
        engine.handler.script[key] = lambda _: [][0]
    engine.batch()
    engine.handler.script.clear()
    command(engine, "replay", *(engine.target(number, number) for number in range(1, 101)))
    assert len(engine.batch()) == 101
    for taken, left in ((40, 60), (40, 20), (20, 0)):
        live = engine.post(f"live_{left}", "live")
        assert len(engine.advance(0)) == taken + 1
        assert engine.decisions(live) == ["applied"]
        assert engine.index.open_count() == left


@pytest.mark.row("B4")
def test_a_full_new_round_of_tries_follows_a_replay(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    key = engine.post("evt_1")
    engine.handler.fails(key, Stuck("no answer"))
    engine.batch()
    for delay in (1, 2, 4, 8, 16):
        engine.advance(delay)
    order(engine, "replay", key)
    for delay in (0, 1, 2, 4, 8, 16):
        engine.advance(delay)
    attempts = [row.attempt for row in engine.journal.rows if row.event_key == key and row.topic != CONTROL]
    assert attempts == [1, 2, 3, 4, 5, 5, 0, 1, 2, 3, 4, 5, 5]


def replayed_in_vain(engine: Engine, key: str, times: int) -> None:
    for _ in range(times):
        assert order(engine, "replay", key).reason == "1 of 1 accepted"
        engine.advance(0)


@pytest.mark.parametrize("restart", ["", "index kept", "index lost"])
def test_what_died_after_every_replay_is_replayed_only_by_force(tmp_path: Path, restart: str) -> None:
    engine = Engine(tmp_path)
    [key] = dying(engine, "evt_1")
    replayed_in_vain(engine, key, 5)
    if restart:
        engine.start(keeps_index=restart == "index kept")
    assert order(engine, "replay", key).reason == (
        "0 of 1 accepted; refused: item 1 was replayed 5 times and died each time: "
        "fix its cause, then replay it with force"
    )
    mended(engine)
    assert close(engine, "replay", key, force=True).refusals == ""
    engine.advance(0)
    assert engine.decisions(key)[-1] == "applied"


def test_force_overrules_the_loop_guard_alone(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    dying(engine, "evt_1")
    engine.post("evt_1", content="changed")
    engine.batch()
    decided = run_order(engine, "replay", ItemTarget.of_row(engine.journal.rows[-1]), force=True)
    assert "another content under a key that is held" in decided.refusals


def test_the_same_set_replayed_twice_takes_effect_once(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    keys = [dying(engine, f"evt_{number}", entity=f"e{number}")[0] for number in range(3)]
    targets = [target(engine, key) for key in keys]
    mended(engine)
    command(engine, "replay", *targets)
    decided(engine)
    command(engine, "replay", *targets, actor="bob")
    assert "0 of 3 accepted; refused: item 1 has moved on" in str(decided(engine).reason)
    command(engine, "replay", *targets, actor="eve")
    assert "0 of 3 accepted; refused: item 1 is not open" in str(decided(engine).reason)
    assert [engine.decisions(key) for key in keys] == [["dead", "replayed", "applied"]] * 3
    assert engine.handler.calls == keys


def test_a_replayed_event_whose_fact_was_booked_meanwhile_says_which(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    first = engine.post("evt_1", "e1", fact="stripe:re_1:refund")
    engine.handler.fails(first, BUG)
    engine.batch()
    engine.post("evt_2", "e2", fact="stripe:re_1:refund")
    engine.batch()
    mended(engine)
    order(engine, "replay", first)
    engine.advance(0)
    row = last(engine, first)
    assert (row.decision, row.reason) == (
        Decision.DUPLICATE_FACT,
        "stripe:re_1:refund was applied under another event key",
    )
    assert engine.handler.calls == []


def test_what_was_passed_runs_behind_and_says_so(tmp_path: Path) -> None:
    engine = passing(tmp_path)
    [late] = dying(engine, "evt_1")
    engine.post("evt_2")
    engine.batch()
    mended(engine)
    row = order(engine, "replay", late)
    engine.advance(0)
    assert row.reason == "1 of 1 accepted"
    assert engine.decisions(late) == ["dead", "replayed", "applied"]
    assert last(engine, late).out_of_order


@pytest.mark.parametrize("policy", list(DeadHead))
@pytest.mark.parametrize("passed", [False, True])
def test_a_forecast_by_the_index_is_what_happens(tmp_path: Path, policy: DeadHead, *, passed: bool) -> None:
    engine = Engine(tmp_path, dead_head=policy)
    [key] = dying(engine, "evt_1")
    if passed:
        engine.post("evt_2")
        engine.batch()
    given = command(engine, "replay", target(engine, key))
    rows = len(engine.journal.rows)
    [reported] = judge_replay(given, engine.index, 5)
    assert len(engine.journal.rows) == rows
    mended(engine)
    decided(engine)
    engine.advance(0)
    assert reported.refusal is None
    assert reported.in_place == (not last(engine, key).out_of_order)


def test_a_place_is_lost_to_later_ones_also_by_what_missed_its_predecessor(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    key = engine.post("evt_1")
    engine.handler.fails(key, MissingPredecessor(key, "its capture"))
    engine.post("evt_2")
    engine.batch()
    for delay in (1, 2, 4, 8, 16):
        engine.advance(delay)
    assert last(engine, key).decision is Decision.DEAD
    mended(engine)
    assert order(engine, "replay", key).reason == "1 of 1 accepted"
    engine.advance(0)
    assert (last(engine, key).decision, last(engine, key).out_of_order) == (Decision.APPLIED, True)
