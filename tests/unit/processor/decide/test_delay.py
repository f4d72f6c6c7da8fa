"""A stream's delay: no event is handled before it is over, an entity's order stays, and only what isn't due waits."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from core.work import Outcome, WorkItem
from processor.errors.retry import parse_delay
from tests.unit.processor.fakes import Stuck, booked
from tests.unit.processor.harness import NOW, Engine


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(tmp_path)
    engine.configure(delay="30s")
    engine.start()
    return engine


def test_an_event_is_handled_once_its_delay_is_over_and_not_before(engine: Engine) -> None:
    key = engine.post("evt_1")
    [parked] = engine.batch()
    assert (parked.decision.value, parked.due_at, parked.attempt) == ("parked", NOW + timedelta(seconds=30), 0)
    assert parked.reason == "the stream's delay isn't over"
    assert engine.advance(29) == []
    assert engine.handler.calls == []
    assert [row.decision.value for row in engine.advance(1)] == ["applied"]
    assert engine.handler.calls == [key]


def test_each_event_of_an_entity_waits_its_own_time_in_their_order_and_others_don_t_wait(engine: Engine) -> None:
    first = engine.post("evt_1", "e1")
    engine.batch()
    engine.clock.advance(10)
    second, other = engine.post("evt_2", "e1"), engine.post("evt_3", "e2")
    engine.batch()
    engine.advance(20)
    assert engine.handler.calls == [first]
    engine.advance(9)
    assert engine.handler.calls == [first]
    engine.advance(1)
    assert engine.handler.calls == [first, second, other]


def test_what_waited_in_kafka_for_longer_doesn_t_wait_again(engine: Engine) -> None:
    engine.post("evt_1")
    engine.clock.advance(31)
    assert [row.decision.value for row in engine.batch()] == ["applied"]


@pytest.mark.row("A9")
def test_one_whose_sender_s_clock_is_behind_doesn_t_pass_the_one_before_it(engine: Engine) -> None:
    """Its own delay is over, that of the event before it isn't."""
    engine.clock.advance(60)
    first = engine.post("evt_1")
    engine.clock.advance(-60)
    second = engine.post("evt_2")
    engine.clock.advance(60)
    engine.batch()
    assert engine.handler.calls == []
    engine.advance(30)
    assert engine.handler.calls == [first, second]


@pytest.mark.row("A9")
def test_a_receipt_from_a_clock_that_runs_ahead_waits_no_longer_than_the_delay(engine: Engine) -> None:
    engine.clock.advance(3_600)
    engine.post("evt_1")
    engine.clock.advance(-3_600)
    [parked] = engine.batch()
    assert parked.due_at == NOW + timedelta(seconds=30)


def test_a_retry_waits_by_its_policy_alone(engine: Engine) -> None:
    key = engine.post("evt_1")
    engine.batch()
    engine.handler.fails(key, Stuck(), 1)
    engine.advance(30)
    [applied] = engine.advance(1)
    assert applied.decision.value == "applied"


def test_a_follower_whose_delay_is_over_runs_behind_a_head_that_fails(engine: Engine) -> None:
    first, second = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(first, Stuck(), 2)
    engine.batch()
    engine.advance(30)
    assert engine.handler.calls == [first]
    engine.advance(1)
    engine.advance(2)
    assert engine.handler.calls == [first, first, first, second]


def test_after_a_restart_the_delay_goes_on(engine: Engine) -> None:
    key = engine.post("evt_1")
    engine.batch()
    engine.start()
    engine.advance(29)
    assert engine.handler.calls == []
    engine.advance(1)
    assert engine.handler.calls == [key]


def test_a_handler_is_told_when_its_event_came(engine: Engine) -> None:
    seen: list[WorkItem] = []

    def remember(item: WorkItem) -> Outcome:
        seen.append(item)
        return booked()

    engine.handler.script[engine.post("evt_1")] = remember
    engine.batch()
    engine.advance(30)
    assert (seen[0].received_at, seen[0].occurred_at) == (NOW, None)


@pytest.mark.parametrize(("text", "seconds"), [("0s", 0), ("250ms", 0.25), ("30s", 30), ("2m", 120), ("1h", 3_600)])
def test_a_delay_is_read(text: str, seconds: float) -> None:
    assert parse_delay(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "-1s", "soon", "8000h"])
def test_what_is_no_delay_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="isn't a delay"):
        parse_delay(text)
