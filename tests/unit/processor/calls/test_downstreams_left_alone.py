"""How long a downstream is left alone: as it asks for, and no retry where first tries are few."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from notify.sender import RETRY_AFTER_S_MAX
from processor.calls import downstream
from processor.calls.limiter import NO_RETRIES
from processor.settings import DownstreamSettings
from processor.streams import load_streams
from tests.unit.processor.harness import NOW
from tests.unit.processor.limited import LimitedEngine
from tests.unit.processor.served import SETTINGS, Service, post


@pytest.fixture
def engine(tmp_path: Path) -> LimitedEngine:
    return LimitedEngine(tmp_path, {"merchants": SETTINGS})


@pytest.fixture
def service(engine: LimitedEngine) -> Service:
    return Service(engine)


def test_retry_after_keeps_everyone_away_for_so_long(engine: LimitedEngine, service: Service) -> None:
    service.down, service.retry_after_s = True, 40.0
    [key] = post(engine, service, 1)
    engine.batch()
    row = engine.last(key)
    assert (row.decision, row.attempt) == ("parked", 0)
    assert row.due_at == NOW + timedelta(seconds=40)
    assert row.reason is not None
    assert row.reason.startswith("merchants asked to be left alone until 2026-01-31T12:00:40")
    service.down = False
    later = post(engine, service, 1, first=9)
    engine.advance(39)
    assert len(service.calls) == 1
    engine.advance(2)
    assert {engine.last(one).decision for one in (key, *later)} == {"applied"}


def test_a_retry_after_keeps_others_away_up_to_a_limit_and_its_own_event_as_long_as_it_says(tmp_path: Path) -> None:
    engine = LimitedEngine(tmp_path, {"merchants": DownstreamSettings(quiet_s_max=60.0)})
    service = Service(engine)
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
    shop = Service(engine, "subscriber:shop")
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


def test_retries_are_held_when_first_tries_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downstream, "RETRY_SHARE", 0.0)
    monkeypatch.setattr(downstream, "RETRIES_MIN", 1)
    few = DownstreamSettings(failures_to_open=1_000)
    engine = LimitedEngine(tmp_path, {"merchants": few})
    service = Service(engine)
    service.down = True
    keys = post(engine, service, 5)
    engine.batch()
    assert {engine.last(key).decision for key in keys} == {"retry"}
    service.down = False
    service.calls.clear()
    engine.advance(2)
    assert len(service.calls) == 1
    held = [row for row in map(engine.last, keys) if row.decision == "parked"]
    assert len(held) == 4
    assert {row.reason for row in held} == {f"merchants {NO_RETRIES}"}
    assert {row.attempt for row in held} == {1}
    assert len({row.due_at for row in held}) == 4


def test_held_events_are_due_one_after_another(
    engine: LimitedEngine, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downstream, "HELD_PER_S", 10.0)
    service.down = True
    keys = post(engine, service, 50)
    engine.batch()
    due = sorted(row.due_at for row in map(engine.last, keys) if row.due_at is not None)
    assert due[0] == NOW + timedelta(seconds=10)
    assert due[-1] == NOW + timedelta(seconds=10 + 49 / 10)


@pytest.mark.parametrize("ends", [False, True])
def test_a_clock_that_ran_ahead_keeps_nobody_away_any_longer(
    engine: LimitedEngine, service: Service, ends: bool
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
    engine: LimitedEngine, service: Service
) -> None:
    service.down = True
    post(engine, service, 50)
    engine.batch()
    engine.clock.set_back(3 * 3_600)
    [key] = post(engine, service, 1, first=100)
    engine.batch()
    due_at = engine.last(key).due_at
    assert due_at is not None and due_at - engine.clock.now() < timedelta(seconds=11)
