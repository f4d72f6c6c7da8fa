"""What the driver does about downstreams, on the whole engine: parks without an attempt, probes, remembers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from core.decision import ErrorKind
from core.work import Outcome, WorkItem, calling
from processor.calls.breaker import CLOSED, HALF_OPEN, OPEN
from processor.calls.downstream import CONCURRENCY_START, PROBES
from tests.unit.processor.harness import NOW
from tests.unit.processor.limited import LimitedEngine
from tests.unit.processor.served import SETTINGS, Service, Unreachable, post, state


@pytest.fixture
def engine(tmp_path: Path) -> LimitedEngine:
    return LimitedEngine(tmp_path, {"merchants": SETTINGS})


@pytest.fixture
def service(engine: LimitedEngine) -> Service:
    return Service(engine)


def test_an_outage_opens_the_breaker_and_everything_waits_with_its_attempts(
    engine: LimitedEngine, service: Service
) -> None:
    service.down = True
    keys = post(engine, service, 30)
    engine.batch()
    assert state(engine) == OPEN
    assert 3 <= len(service.calls) <= 3 + CONCURRENCY_START
    for key in keys:
        row = engine.last(key)
        assert (row.decision, row.attempt) == ("parked", 0)
        assert row.due_at is not None and row.due_at >= NOW + timedelta(seconds=10)
        assert row.reason is not None
        assert row.reason.startswith("merchants isn't called until 2026-01-31T12:00:10")
        assert "its breaker is open (Unreachable)" in row.reason


def test_while_it_is_open_nothing_is_called_and_others_flow(engine: LimitedEngine, service: Service) -> None:
    service.down = True
    post(engine, service, 10)
    engine.batch()
    service.calls.clear()
    keys = post(engine, service, 5, first=100)
    other = engine.post("evt_other", "other")
    engine.advance(5)
    assert service.calls == []
    assert {engine.last(key).decision for key in keys} == {"parked"}
    assert engine.last(other).decision == "applied"


def test_half_open_lets_so_many_probes_through_in_all_and_not_one_a_task(tmp_path: Path) -> None:
    engine = LimitedEngine(tmp_path, {"merchants": SETTINGS}, parallelism=4)
    service = Service(engine)
    service.down = True
    post(engine, service, 400)
    engine.batch()
    service.calls.clear()
    service.down = False
    engine.advance(11)
    assert len(service.calls) == PROBES
    assert state(engine) == CLOSED


def test_a_failed_probe_opens_it_again_and_costs_no_attempt(engine: LimitedEngine, service: Service) -> None:
    service.down = True
    keys = post(engine, service, 20)
    engine.batch()
    service.calls.clear()
    for _ in range(8):
        engine.advance(11)
        assert state(engine) == OPEN
    assert 8 <= len(service.calls) <= 8 * PROBES
    assert {engine.last(key).attempt for key in keys} == {0}
    assert engine.dead_letters.published == []


def test_the_next_probes_are_other_events(engine: LimitedEngine, service: Service) -> None:
    """One that fails by itself doesn't hold the breaker open for the others."""
    service.down = True
    post(engine, service, 20)
    engine.batch()
    service.calls.clear()
    engine.advance(11)
    first = set(service.calls)
    service.calls.clear()
    engine.advance(11)
    assert first.isdisjoint(service.calls)


def test_after_the_outage_everything_is_applied_once_and_nothing_died(engine: LimitedEngine, service: Service) -> None:
    service.down = True
    keys = post(engine, service, 40)
    engine.batch()
    engine.advance(11)
    service.down = False
    for _ in range(8):
        engine.advance(4)
    assert {engine.last(key).decision for key in keys} == {"applied"}
    assert all(engine.decisions(key).count("applied") == 1 for key in keys)
    assert state(engine) == CLOSED


def test_followers_of_a_held_event_keep_their_order(engine: LimitedEngine, service: Service) -> None:
    service.down = True
    keys = [service.serve(engine.post(f"evt_{n}", "e1")) for n in range(6)]
    post(engine, service, 5, first=50)
    engine.batch()
    service.down = False
    for _ in range(6):
        engine.advance(11)
    applied = [row.event_key for row in engine.journal.rows if row.decision == "applied"]
    assert [key for key in applied if key in keys] == keys


def test_a_restart_finds_the_breaker_as_it_was(engine: LimitedEngine, service: Service) -> None:
    service.down = True
    post(engine, service, 10)
    engine.batch()
    service.calls.clear()
    engine.clock.advance(4)
    engine.start()
    assert state(engine) == OPEN
    post(engine, service, 10, first=100)
    engine.batch()
    assert service.calls == []
    service.down = False
    engine.clock.advance(7)
    assert state(engine) == HALF_OPEN
    engine.batch()
    assert len(service.calls) == PROBES


def test_a_lone_event_outlives_an_outage_too(engine: LimitedEngine, service: Service) -> None:
    """Its retries are spent one by one until the breaker opens; from then on none is."""
    service.down = True
    [key] = post(engine, service, 1)
    engine.batch()
    for _ in range(120):
        engine.advance(1)
    assert state(engine) in (OPEN, HALF_OPEN)
    assert engine.last(key).attempt == 2
    service.down = False
    for _ in range(12):
        engine.advance(1)
    assert engine.last(key).decision == "applied"


def test_an_event_that_fails_alone_while_others_pass_spends_its_attempts(
    engine: LimitedEngine, service: Service
) -> None:
    bad = engine.post("evt_bad", "bad")

    def fails(_: WorkItem) -> Outcome:
        with calling("merchants"):
            raise Unreachable

    engine.handler.script[bad] = fails
    for number in range(60):
        post(engine, service, 1, first=number)
        engine.advance(1)
    assert engine.last(bad).decision == "dead"
    assert engine.last(bad).attempt == 5


def test_what_blocks_the_whole_stream_still_does(engine: LimitedEngine) -> None:
    class Refused(Exception):
        kind = ErrorKind.SBE

    def refused(_: WorkItem) -> Outcome:
        with calling("merchants"):
            raise Refused("401")

    engine.handler.script[engine.post("evt_1")] = refused
    engine.batch()
    assert engine.batches.blocked
