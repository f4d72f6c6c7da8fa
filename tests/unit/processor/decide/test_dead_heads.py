"""What a dead event does to those behind it, under each policy, and what the handler learns of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.work import MissingPredecessor, Outcome, WorkItem
from processor.judge.retry import parse_policy
from processor.settings import DeadHead
from tests.unit.processor.harness import CONTROL, Engine, Stuck, booked

BUG = ZeroDivisionError("division by zero")


def missing(key: str) -> MissingPredecessor:
    return MissingPredecessor(key, "its capture")


def last(engine: Engine, key: str) -> tuple[str, bool]:
    row = [row for row in engine.journal.rows if row.event_key == key][-1]
    return row.decision.value, row.out_of_order


def replay(engine: Engine, *keys: str) -> str:
    """Orders a replay of what is dead, lets it be decided and run; what the command's row says."""
    rows = {row.event_key: row for row in engine.journal.rows}
    engine.replay([(rows[key].item_seq, rows[key].seq) for key in keys], f"c{len(engine.journal.rows)}")
    engine.batch()
    engine.advance(0)
    return next(row.reason or "" for row in reversed(engine.journal.rows) if row.topic == CONTROL)


def test_followers_that_wait_die_with_their_head_and_so_do_later_arrivals(tmp_path: Path) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.DIE_WITH_IT)
    head, waiting, other = engine.post("evt_1"), engine.post("evt_2"), engine.post("evt_3", "e2")
    engine.handler.fails(head, Stuck("no answer"), times=6)
    engine.batch()
    for delay in (1, 2, 4, 8, 16):
        engine.advance(delay)
    late = engine.post("evt_4")
    engine.batch()
    rows = {row.event_key: row for row in engine.journal.rows}
    assert [rows[key].decision.value for key in (head, waiting, late, other)] == ["dead", "dead", "dead", "applied"]
    assert engine.handler.calls == [head, other] + [head] * 5
    for key in (waiting, late):
        assert (rows[key].error_class, rows[key].cause_seq, rows[key].blocking) == ("HeadDead", rows[head].seq, False)
        assert head in (rows[key].error_message or "")
    assert [row.event_key for row in engine.dead_letters.published] == [head, waiting, late]


def test_a_replayed_head_frees_later_arrivals_and_they_see_that_an_earlier_event_is_dead(tmp_path: Path) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.DIE_WITH_IT)
    head, follower = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(head, BUG, times=1)
    engine.batch()
    replay(engine, head)
    late = engine.post("evt_3")
    engine.batch()
    assert (last(engine, head), last(engine, late)) == (("applied", False), ("applied", False))
    assert [(call.event_key, call.previous_dead) for call in engine.handler.log[1:]] == [(head, False), (late, True)]
    replay(engine, follower)
    assert last(engine, follower) == ("applied", True)


def test_a_head_replayed_with_its_followers_is_first_whatever_order_they_are_named_in(tmp_path: Path) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.DIE_WITH_IT)
    keys = [engine.post(f"evt_{n}") for n in range(3)]
    engine.handler.fails(keys[0], BUG, times=1)
    engine.batch()
    assert replay(engine, keys[2], keys[1], keys[0]) == "3 of 3 accepted"
    assert engine.handler.calls[1:] == keys
    assert [last(engine, key) for key in keys] == [("applied", False)] * 3
    assert not any(call.previous_dead for call in engine.handler.log)


def test_a_follower_is_not_replayed_while_its_head_is_dead(tmp_path: Path) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.DIE_WITH_IT)
    head, follower = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(head, BUG)
    engine.batch()
    said = replay(engine, follower)
    assert said.startswith("0 of 1 accepted") and "would die with item 1" in said
    assert engine.decisions(follower) == ["dead"]


def test_more_followers_than_a_batch_takes_die_over_several(tmp_path: Path) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.DIE_WITH_IT, drain_per_entity_max=2)
    head, *followers = [engine.post(f"evt_{n}") for n in range(8)]
    engine.handler.fails(head, Stuck("no answer"), times=6)
    engine.batch()
    for delay in (1, 2, 4, 8, 16):
        engine.advance(delay)
    for _ in range(4):
        engine.advance(0)
    assert [last(engine, key)[0] for key in (head, *followers)] == ["dead"] * 8
    assert engine.handler.calls == [head] * 6


@pytest.mark.parametrize("keeps_index", [True, False])
def test_previous_dead_is_known_after_a_restart_until_the_dead_one_is_settled(
    tmp_path: Path, keeps_index: bool
) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.CONTINUE)
    dead = engine.post("evt_1")
    engine.handler.fails(dead, BUG, times=1)
    engine.batch()
    engine.start(keeps_index=keeps_index)
    engine.post("evt_2")
    engine.post("evt_9", "e2")
    engine.batch()
    replay(engine, dead)
    engine.post("evt_3")
    engine.batch()
    assert last(engine, dead) == ("applied", True)
    assert [call.previous_dead for call in engine.handler.log] == [False, True, False, False, False]


def test_a_follower_in_the_same_batch_sees_that_the_one_before_it_died(tmp_path: Path) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.CONTINUE)
    first, second, third = (engine.post(f"evt_{n}") for n in range(3))
    engine.handler.fails(second, BUG)
    engine.batch()
    assert [(call.event_key, call.previous_dead) for call in engine.handler.log] == [
        (first, False),
        (second, False),
        (third, True),
    ]


def test_a_conflict_is_nobodys_dead_predecessor(tmp_path: Path) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.CONTINUE)
    engine.post("evt_1")
    engine.post("evt_1", content="changed")
    engine.post("evt_2")
    engine.batch()
    engine.post("evt_3")
    engine.batch()
    assert [call.previous_dead for call in engine.handler.log] == [False, False, False]


@pytest.mark.parametrize("policy", list(DeadHead))
def test_what_misses_a_predecessor_lets_it_pass_and_is_applied_after_it(tmp_path: Path, policy: DeadHead) -> None:
    engine = Engine(tmp_path, dead_head=policy)
    refund = engine.post("refund")
    seen: list[str] = []

    def needs_capture(_: WorkItem) -> Outcome:
        if not seen:
            raise missing(refund)
        return booked()

    def captures(_: WorkItem) -> Outcome:
        seen.append("capture")
        return booked()

    engine.handler.script[refund] = needs_capture
    engine.batch()
    capture = engine.post("capture")
    engine.handler.script[capture] = captures
    engine.batch()
    engine.advance(1)
    assert engine.decisions(capture) == ["applied"]
    assert engine.decisions(refund) == ["retry", "applied"]
    assert last(engine, refund) == ("applied", True)


@pytest.mark.parametrize("policy", list(DeadHead))
def test_dead_of_a_missing_predecessor_it_holds_nobody_back(tmp_path: Path, policy: DeadHead) -> None:
    engine = Engine(tmp_path, dead_head=policy)
    refund = engine.post("refund")
    engine.handler.fails(refund, missing(refund), times=6)
    engine.batch()
    for delay in (1, 2, 4, 8, 16):
        engine.advance(delay)
    capture = engine.post("capture")
    engine.batch()
    assert (last(engine, refund), last(engine, capture)) == (("dead", False), ("applied", False))
    assert engine.handler.log[-1].previous_dead
    replay(engine, refund)
    assert last(engine, refund) == ("applied", True)


def test_a_dead_event_that_nothing_has_passed_is_replayed_in_its_old_place(tmp_path: Path) -> None:
    """Its follower waits for a retry: the replay goes before it, and nothing is out of order."""
    engine = Engine(tmp_path, dead_head=DeadHead.CONTINUE)
    dead, follower = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(dead, BUG, times=1)
    engine.handler.fails(follower, Stuck("no answer"), times=1)
    engine.batch()
    replay(engine, dead)
    assert last(engine, dead) == ("applied", False)
    engine.advance(1)
    assert last(engine, follower) == ("applied", False)
    assert engine.handler.calls == [dead, follower, dead, follower]


def test_whether_a_try_is_the_last_is_asked_of_the_policy_that_the_event_began_with(tmp_path: Path) -> None:
    """By the policy of today its third try would be its last, and its follower would run past it."""
    engine = Engine(tmp_path, dead_head=DeadHead.CONTINUE)
    head, follower = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(head, Stuck("no answer"), times=4)
    engine.batch()
    engine.advance(1)
    engine.rules = replace(engine.rules, policy=parse_policy("fixed(1s x2)"))
    engine.start()
    engine.advance(2)
    assert engine.handler.calls == [head, head, head]
    for delay in (4, 8):
        engine.advance(delay)
    assert [last(engine, key) for key in (head, follower)] == [("applied", False)] * 2
