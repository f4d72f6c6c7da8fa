"""What the engine decides, batch by batch."""

from datetime import timedelta

import pytest

from core.event import Dedupe, poison_event, to_headers
from core.work import DownstreamHeld
from processor.decide.arrivals import OffsetHole
from processor.decide.commit import IndexBehind
from tests.unit.processor.fakes import Stuck, ignored
from tests.unit.processor.harness import CONTROL, EVENTS, Engine


@pytest.fixture
def engine(tmp_path):
    return Engine(tmp_path)


def test_an_event_is_applied_once_however_often_it_is_delivered(engine):
    key = engine.post("evt_1")
    engine.post("evt_1")
    engine.batch()
    engine.post("evt_1")
    engine.batch()
    assert engine.decisions(key) == ["applied", "duplicate", "duplicate"]
    assert engine.handler.calls == [key]


def test_same_key_with_other_content_dies_beside_its_entity_and_its_redelivery_is_a_duplicate(engine):
    key = engine.post("evt_1")
    engine.post("evt_1", content="changed")
    later = engine.post("evt_2")
    engine.batch()
    engine.post("evt_1", content="changed")
    engine.batch()
    assert engine.decisions(key) == ["applied", "dead", "duplicate"]
    assert engine.decisions(later) == ["applied"]
    [dead] = engine.dead_letters.published
    assert (dead.error_class, dead.blocking) == ("EventConflict", False)


@pytest.mark.row("A4")
def test_a_failing_event_is_tried_after_1_2_4_8_16_seconds_and_then_dies(engine):
    key = engine.post("evt_1")
    engine.handler.fails(key, Stuck("no answer"))
    engine.batch()
    for delay in (1, 2, 4, 8, 16):
        assert engine.advance(delay - 0.01) == []
        assert len(engine.advance(0.01)) == 1
    assert engine.decisions(key) == ["retry"] * 5 + ["dead"]
    assert [row.attempt for row in engine.journal.rows] == [1, 2, 3, 4, 5, 5]
    assert len(engine.handler.calls) == 6


@pytest.mark.row("A5")
@pytest.mark.row("B1")
@pytest.mark.row("E5")
def test_followers_park_behind_a_failing_head_and_drain_in_order_while_others_flow(engine):
    head, other = engine.post("evt_1"), engine.post("evt_9", entity="e2")
    second = engine.post("evt_2")
    engine.handler.fails(head, Stuck("no answer"), times=1)
    engine.batch()
    third = engine.post("evt_3")
    engine.batch()
    assert engine.decisions(other) == ["applied"]
    assert engine.decisions(second) == engine.decisions(third) == ["parked"]
    fourth = engine.post("evt_4")
    engine.advance(1)
    assert engine.handler.calls == [head, other, head, second, third, fourth]
    assert [engine.decisions(key)[-1] for key in (head, second, third, fourth)] == ["applied"] * 4


@pytest.mark.row("B3")
def test_a_bug_in_the_handler_kills_its_event_at_once_and_its_followers_wait_for_a_person(engine):
    head, follower = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(head, ZeroDivisionError("division by zero"), times=1)
    engine.batch()
    assert engine.decisions(head) == ["dead"]
    assert engine.decisions(follower) == ["parked"]
    engine.advance(3600)
    assert engine.decisions(follower) == ["parked"]


def test_a_replay_takes_its_old_place_and_its_followers_follow(engine):
    head, follower = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(head, ZeroDivisionError("division by zero"), times=1)
    engine.batch()
    engine.command(item_seq=1, seen_seq=1)
    engine.batch()
    engine.advance(0)
    assert engine.decisions(head) == ["dead", "replayed", "applied"]
    assert engine.decisions(follower) == ["parked", "applied"]


def test_a_command_delivered_twice_or_raced_by_another_has_one_effect(engine):
    head = engine.post("evt_1")
    engine.handler.fails(head, ZeroDivisionError("division by zero"))
    engine.batch()
    engine.command(1, 1, "c1")
    engine.command(1, 1, "c1")
    engine.command(1, 1, "c2")
    engine.batch()
    control = [row.decision.value for row in engine.journal.rows if row.topic == CONTROL and row.first]
    assert control == ["replayed", "duplicate", "ignored"]
    assert engine.decisions(head) == ["dead", "replayed"]
    engine.advance(0)
    engine.command(1, 1, "c3")
    engine.batch()
    assert engine.decisions(head) == ["dead", "replayed", "dead"]


def test_replayed_poison_dies_again_and_is_never_handled(engine):
    poison = poison_event("stripe", b"{", "live", "no JSON")
    engine.send(EVENTS, poison.body, to_headers(poison, engine.clock.now(), Dedupe.CLAIMED))
    engine.batch()
    engine.command(1, 1)
    engine.batch()
    engine.advance(0)
    assert engine.decisions(poison.event_key) == ["dead", "replayed", "dead"]
    assert engine.handler.calls == []


def test_a_conflict_is_not_replayed_while_the_first_content_holds_the_key(engine):
    key = engine.post("evt_1")
    engine.post("evt_1", content="changed")
    engine.batch()
    engine.command(2, 2)
    row = engine.batch()[-1]
    engine.advance(0)
    assert "if the first copy is dead, discard that" in row.reason
    assert engine.decisions(key) == ["applied", "dead"]
    assert engine.handler.calls == [key]


def test_a_malformed_command_dies_and_moves_nothing(engine):
    engine.send(CONTROL, b"{", [])
    [row] = engine.batch()
    assert (row.decision.value, row.topic, row.error_class) == ("dead", CONTROL, "CommandInvalid")


@pytest.mark.row("A13")
def test_one_fact_under_two_event_keys_is_applied_once(engine):
    first = engine.post("evt_1", entity="e1", fact="stripe:re_1:refund")
    second = engine.post("evt_2", entity="e2", fact="stripe:re_1:refund")
    engine.batch()
    third = engine.post("evt_3", entity="e3", fact="stripe:re_1:refund")
    other = engine.post("evt_4", entity="e4", fact="stripe:re_1:refund", fact_sha256="bb" * 32)
    engine.batch()
    assert engine.decisions(first) == ["applied"]
    assert engine.decisions(second) == engine.decisions(third) == ["duplicate_fact"]
    assert engine.decisions(other) == ["dead"]
    assert engine.handler.calls == [first, second]


@pytest.mark.parametrize("batches", [1, 2])
def test_a_fact_reported_again_with_another_amount_dies_beside_its_entity(engine, batches):
    """Whether both reports come in one batch or in two."""
    first = engine.post("evt_1", entity="e1", fact="stripe:re_1:refund")
    if batches == 2:
        engine.batch()
    other = engine.post("evt_2", entity="e2", fact="stripe:re_1:refund", fact_sha256="bb" * 32)
    after = engine.post("evt_3", entity="e2")
    engine.batch()
    assert engine.decisions(first) == engine.decisions(after) == ["applied"]
    [dead] = engine.dead_letters.published
    assert (dead.event_key, dead.error_class, dead.postings) == (other, "FactConflict", None)
    assert not dead.blocking


def test_a_fact_applied_by_another_entity_between_two_tries_is_not_applied_again(engine):
    slow = engine.post("evt_1", entity="e1", fact="stripe:re_1:refund")
    engine.handler.fails(slow, Stuck("no answer"), times=1)
    engine.batch()
    quick = engine.post("evt_2", entity="e2", fact="stripe:re_1:refund")
    engine.batch()
    engine.advance(1)
    assert engine.decisions(quick) == ["applied"]
    assert engine.decisions(slow) == ["retry", "duplicate_fact"]


def test_a_type_that_nobody_handles_is_ignored_and_says_so(engine):
    key = engine.post("evt_1")
    engine.handler.script[key] = ignored
    [row] = engine.batch()
    assert (row.decision.value, row.reason) == ("ignored", "nobody handles it")


@pytest.mark.row("A7")
def test_a_record_that_the_receiver_did_not_write_dies_by_itself(engine):
    engine.send(EVENTS, b"hello", [])
    [row] = engine.batch()
    assert (row.decision.value, row.error_class, row.event_key) == ("dead", "Unparseable", None)


def test_offsets_below_the_marks_are_dropped_and_a_hole_stops_the_stream(engine):
    engine.post("evt_1")
    again = dict(engine._pending[0])
    engine.batch()
    engine._pending.append(again)
    assert engine.batch() == []
    engine._offsets[EVENTS] = 5
    engine.post("evt_2")
    with pytest.raises(OffsetHole) as hole:
        engine.batch()
    assert (hole.value.wanted, hole.value.got) == (1, 5)


def test_an_entity_with_more_waiting_events_than_a_batch_takes_is_drained_over_several(tmp_path):
    engine = Engine(tmp_path, drain_per_entity_max=2)
    keys = [engine.post(f"evt_{n}") for n in range(6)]
    engine.handler.fails(keys[0], Stuck("no answer"), times=1)
    engine.batch()
    engine.advance(1)
    late = engine.post("evt_late")
    for _ in range(4):
        engine.advance(0)
    assert engine.handler.calls == [keys[0], *keys, late]
    assert all(engine.decisions(key)[-1] == "applied" for key in [*keys, late])


def test_a_batch_is_refused_while_the_index_lacks_the_last_commit(engine, monkeypatch):
    engine.post("evt_1")
    with monkeypatch.context() as lost:
        lost.setattr(engine.index, "apply_rows", lambda rows, bodies: None)
        engine.batch()
    engine.post("evt_1")
    with pytest.raises(IndexBehind) as behind:
        engine.batch()
    assert (behind.value.index_seq, behind.value.journal_seq) == (0, 1)
    assert len(engine.journal.rows) == 1


def test_a_restart_between_two_tries_forgets_nothing(engine):
    head, follower = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(head, Stuck("no answer"), times=1)
    engine.batch()
    engine.start()
    assert engine.advance(0.5) == []
    engine.advance(0.5)
    assert engine.decisions(head) == ["retry", "applied"]
    assert engine.decisions(follower) == ["parked", "applied"]


@pytest.mark.row("D4")
def test_an_event_whose_downstream_is_held_waits_without_an_attempt_and_its_follower_behind_it(engine: Engine) -> None:
    first, second = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(first, DownstreamHeld("merchants", 7.0), times=1)
    held, follower = engine.batch()
    assert (held.decision.value, held.attempt, held.due_at) == ("parked", 0, engine.clock.now() + timedelta(seconds=7))
    assert held.reason == "merchants isn't called now"
    assert (follower.decision.value, follower.due_at) == ("parked", None)
    assert engine.advance(6.9) == []
    assert [row.event_key for row in engine.advance(0.2)] == [first, second]
    assert engine.decisions(second) == ["parked", "applied"]


def test_a_retry_is_not_before_the_time_that_the_downstream_asks_for(engine: Engine) -> None:
    class Throttled(Stuck):
        retry_after_s = 90.0

    key = engine.post("evt_1")
    engine.handler.fails(key, Throttled("later"), times=1)
    [row] = engine.batch()
    assert (row.decision.value, row.attempt, row.due_at) == ("retry", 1, engine.clock.now() + timedelta(seconds=90))
