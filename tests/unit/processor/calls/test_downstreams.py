"""What the driver does about downstreams, on the whole engine: parks, probes, remembers, leaves alone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from core.decision import NO_RETRIES, ErrorKind
from core.work import Outcome, WorkItem, calling
from notify.sender import RETRY_AFTER_S_MAX
from processor.calls import downstream
from processor.calls.breaker import CLOSED, HALF_OPEN, OPEN
from processor.calls.downstream import CONCURRENCY_START, PROBES
from processor.settings import DownstreamSettings
from processor.streams import load_streams
from tests.unit.processor.harness import NOW
from tests.unit.processor.limited import LimitedEngine
from tests.unit.processor.served import SETTINGS, ServedDownstream, Unreachable, post, state


@pytest.fixture
def engine(tmp_path: Path) -> LimitedEngine:
    return LimitedEngine(tmp_path, {"merchants": SETTINGS})


@pytest.fixture
def service(engine: LimitedEngine) -> ServedDownstream:
    return ServedDownstream(engine)


def test_an_outage_opens_the_breaker_and_everything_waits_with_its_attempts(
    engine: LimitedEngine, service: ServedDownstream
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
        assert row.reason.startswith("merchants fails: its breaker is open since 2026-01-31T12:00:00")
        assert "Z (Unreachable)" in row.reason


@pytest.mark.row("D4")
def test_while_it_is_open_nothing_is_called_and_others_flow(engine: LimitedEngine, service: ServedDownstream) -> None:
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
    service = ServedDownstream(engine)
    service.down = True
    post(engine, service, 400)
    engine.batch()
    service.calls.clear()
    service.down = False
    engine.advance(11)
    assert len(service.calls) == PROBES
    assert state(engine) == CLOSED


def test_a_failed_probe_opens_it_again_and_costs_no_attempt(engine: LimitedEngine, service: ServedDownstream) -> None:
    service.down = True
    keys = post(engine, service, 20)
    engine.batch()
    service.calls.clear()
    for _ in range(8):
        engine.advance(11)
        assert state(engine) in (OPEN, HALF_OPEN)
    assert 3 <= len(service.calls) <= 8 * PROBES
    assert {engine.last(key).attempt for key in keys} == {0}
    assert engine.dead_letters.published == []


def test_the_next_probes_are_other_events(engine: LimitedEngine, service: ServedDownstream) -> None:
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


def test_after_the_outage_everything_is_applied_once_and_nothing_died(
    engine: LimitedEngine, service: ServedDownstream
) -> None:
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


def test_followers_of_a_held_event_keep_their_order(engine: LimitedEngine, service: ServedDownstream) -> None:
    service.down = True
    keys = [service.serve(engine.post(f"evt_{n}", "e1")) for n in range(6)]
    post(engine, service, 5, first=50)
    engine.batch()
    service.down = False
    for _ in range(6):
        engine.advance(11)
    applied = [row.event_key for row in engine.journal.rows if row.decision == "applied"]
    assert [key for key in applied if key in keys] == keys


def test_a_restart_finds_the_breaker_as_it_was(engine: LimitedEngine, service: ServedDownstream) -> None:
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


def test_a_lone_event_outlives_an_outage_too(engine: LimitedEngine, service: ServedDownstream) -> None:
    """Its retries are spent one by one until the breaker opens; from then on none is."""
    service.down = True
    [key] = post(engine, service, 1)
    engine.batch()
    for _ in range(120):
        engine.advance(1)
    assert state(engine) in (OPEN, HALF_OPEN)
    assert engine.last(key).attempt == 2
    service.down = False
    for _ in range(120):
        engine.advance(1)
    assert engine.last(key).decision == "applied"


def test_an_event_that_fails_alone_while_others_pass_spends_its_attempts(
    engine: LimitedEngine, service: ServedDownstream
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
    class RefusedCall(Exception):
        kind = ErrorKind.SBE

    def refused(_: WorkItem) -> Outcome:
        with calling("merchants"):
            raise RefusedCall("401")

    engine.handler.script[engine.post("evt_1")] = refused
    engine.batch()
    assert engine.batches.is_blocked


def test_retry_after_keeps_everyone_away_for_so_long(engine: LimitedEngine, service: ServedDownstream) -> None:
    service.down, service.retry_after_s = True, 40.0
    [key] = post(engine, service, 1)
    engine.batch()
    row = engine.last(key)
    assert (row.decision, row.attempt) == ("parked", 0)
    assert row.due_at == NOW + timedelta(seconds=40)
    assert row.reason is not None
    assert row.reason.startswith("merchants asked for no calls (")
    service.down = False
    later = post(engine, service, 1, first=9)
    engine.advance(39)
    assert len(service.calls) == 1
    engine.advance(2)
    assert {engine.last(one).decision for one in (key, *later)} == {"applied"}


def test_a_retry_after_keeps_others_away_up_to_a_limit_and_its_own_event_as_long_as_it_says(tmp_path: Path) -> None:
    engine = LimitedEngine(tmp_path, {"merchants": DownstreamSettings(quiet_s_max=60.0)})
    service = ServedDownstream(engine)
    service.down, service.retry_after_s = True, 1_800.0
    [key] = post(engine, service, 1)
    engine.batch()
    [other] = post(engine, service, 1, first=2)
    engine.batch()
    due_at = engine.last(other).due_at
    assert due_at is not None
    assert timedelta(seconds=60) <= due_at - NOW < timedelta(seconds=61)
    assert (engine.last(key).decision, engine.last(key).due_at) == ("parked", NOW + timedelta(seconds=1_800))


def test_a_subscriber_that_asks_for_half_an_hour_gets_it(tmp_path: Path) -> None:
    engine = LimitedEngine(tmp_path, load_streams()["notify"].downstreams)
    shop = ServedDownstream(engine, "subscriber:shop")
    shop.down, shop.retry_after_s = True, 1_800.0
    [key] = post(engine, shop, 1)
    engine.batch()
    [later] = post(engine, shop, 1, first=2)
    engine.batch()
    engine.advance(1_799)
    assert shop.calls == [key]
    shop.down = False
    engine.advance(2)
    assert {engine.last(one).decision for one in (key, later)} == {"applied"}


def test_no_retry_after_that_notify_honours_is_cut_short_by_its_stream() -> None:
    assert load_streams()["notify"].downstreams["subscriber:*"].quiet_s_max >= RETRY_AFTER_S_MAX


@pytest.mark.row("A11")
def test_retries_are_held_when_first_tries_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downstream, "RETRY_SHARE", 0.0)
    monkeypatch.setattr(downstream, "RETRIES_MIN", 1)
    few = DownstreamSettings(failures_to_open=1_000)
    engine = LimitedEngine(tmp_path, {"merchants": few})
    service = ServedDownstream(engine)
    service.down = True
    keys = post(engine, service, 5)
    engine.batch()
    assert {engine.last(key).decision for key in keys} == {"retry"}
    service.down = False
    service.calls.clear()
    engine.advance(2)
    assert len(service.calls) == 1
    held = [item.row for item in engine.index.open_items()]
    assert len(held) == 4
    assert {row.reason for row in held} == {f"merchants {NO_RETRIES}"}
    assert {row.attempt for row in held} == {1}
    assert len({row.due_at for row in held}) == 4
    assert [engine.decisions(row.event_key or "") for row in held] == [["retry"]] * 4, "it waits without a row"


def test_held_events_are_due_one_after_another(
    engine: LimitedEngine, service: ServedDownstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downstream, "HELD_PER_S", 10.0)
    service.down = True
    keys = post(engine, service, 50)
    engine.batch()
    due = sorted(row.due_at for row in map(engine.last, keys) if row.due_at is not None)
    assert due[0] == NOW + timedelta(seconds=10)
    assert due[-1] == NOW + timedelta(seconds=10 + 49 / 10)


@pytest.mark.row("A9")
@pytest.mark.parametrize("ends", [False, True])
def test_a_clock_that_ran_ahead_keeps_nobody_away_any_longer(
    engine: LimitedEngine, service: ServedDownstream, ends: bool
) -> None:
    """``ends``: the process, before the clock is set back."""
    service.down, service.retry_after_s = True, 40.0
    post(engine, service, 1)
    engine.batch()
    service.down = False
    engine.clock.set_back(3 * 3_600)
    if ends:
        engine.start()
    [waits] = post(engine, service, 1, first=2)
    engine.batch()
    due_at = engine.last(waits).due_at
    assert due_at is not None
    assert timedelta(seconds=39) <= due_at - engine.clock.now() <= timedelta(seconds=SETTINGS.quiet_s_max)
    engine.advance(SETTINGS.quiet_s_max)
    [later] = post(engine, service, 1, first=3)
    engine.batch()
    assert {engine.last(key).decision for key in (waits, later)} == {"applied"}


def test_what_is_held_after_a_clock_was_set_back_is_due_as_soon_as_before(
    engine: LimitedEngine, service: ServedDownstream
) -> None:
    service.down = True
    post(engine, service, 50)
    engine.batch()
    engine.clock.set_back(3 * 3_600)
    [key] = post(engine, service, 1, first=100)
    engine.batch()
    due_at = engine.last(key).due_at
    assert due_at is not None and due_at - engine.clock.now() < timedelta(seconds=11)
