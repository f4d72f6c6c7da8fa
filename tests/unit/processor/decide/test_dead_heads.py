"""What a dead event does to those behind it, under each policy, and what the handler learns of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.work import MissingPredecessor, Outcome, PreviousEvent, PreviousEventDead, WorkItem
from processor.settings import DeadHead, RetrySettings
from tests.unit.processor.fakes import Stuck, booked
from tests.unit.processor.harness import CONTROL, POLICY, Engine
from tests.unit.processor.ordering import close

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


def gives_up(item: WorkItem) -> Outcome:
    """A handler's own rule: nothing takes effect after an earlier event of the entity died."""
    if item.previous is not None:
        raise PreviousEventDead(item)
    return booked()


@pytest.mark.parametrize("together", [True, False])
def test_a_follower_that_does_not_go_on_without_its_dead_head_leads_to_it_and_holds_back_nobody(
    tmp_path: Path, *, together: bool
) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.CONTINUE)
    head = engine.post("evt_1")
    engine.handler.fails(head, BUG)
    if not together:
        engine.batch()
        engine.start()
    follower, later = engine.post("evt_2"), engine.post("evt_3")
    engine.handler.script[follower] = gives_up
    engine.batch()
    rows = {row.event_key: row for row in engine.journal.rows}
    row = rows[follower]
    assert (row.decision.value, row.error_class, row.attempt, row.blocking) == ("dead", "PreviousEventDead", 0, False)
    assert row.cause_seq == rows[head].seq
    assert f"{head}, an earlier event of its entity, is dead" in (row.error_message or "")
    assert last(engine, later) == ("applied", False)
    assert [row.event_key for row in engine.dead_letters.published] == [head, follower]


def test_followers_that_waited_for_a_person_learn_what_became_of_their_head(tmp_path: Path) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.WAIT)
    head, follower = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(head, BUG)
    engine.handler.script[follower] = gives_up
    engine.batch()
    close(engine, "purge", head)
    engine.start()
    engine.advance(0)
    rows = {row.event_key: row for row in engine.journal.rows}
    assert rows[head].decision.value == "purged"
    assert (rows[follower].decision.value, rows[follower].cause_seq) == ("dead", rows[head].seq)
    assert "an earlier event of its entity, is purged" in (rows[follower].error_message or "")


@pytest.mark.row("E7")
@pytest.mark.parametrize("keeps_index", [True, False])
def test_the_previous_event_is_reported_with_its_key_its_decision_and_its_route(
    tmp_path: Path, keeps_index: bool
) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.CONTINUE)
    seen: list[PreviousEvent | None] = []

    def looks(item: WorkItem) -> Outcome:
        seen.append(item.previous)
        return booked()

    head, beside = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(head, BUG)
    engine.handler.script[beside] = looks
    engine.batch()
    seq = next(row.seq for row in engine.journal.rows if row.event_key == head)
    engine.start(keeps_index=keeps_index)
    engine.handler.script[engine.post("evt_3")] = looks
    engine.batch()
    assert seen == [PreviousEvent(head, "dead", POLICY), PreviousEvent(head, "dead", POLICY, seq)]


def test_without_a_dead_predecessor_it_is_the_handlers_bug(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    key = engine.post("evt_1")

    def always(item: WorkItem) -> Outcome:
        raise PreviousEventDead(item)

    engine.handler.script[key] = always
    [row] = engine.batch()
    assert (row.decision.value, row.error_class, row.cause_seq) == ("dead", "AssertionError", None)


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
    engine.configure(retry=RetrySettings(default="fixed(1s x2)"))
    engine.start()
    engine.advance(2)
    assert engine.handler.calls == [head, head, head]
    for delay in (4, 8):
        engine.advance(delay)
    assert [last(engine, key) for key in (head, follower)] == [("applied", False)] * 2
