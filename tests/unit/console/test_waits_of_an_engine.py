"""Waits as the engine leaves them: rows and status are its own, not made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.waits import EventWait, WaitKind, find_wait
from core.clock import to_rfc3339
from journal.entity_queue import read_entity
from processor.calls import downstream
from processor.settings import DownstreamSettings
from tests.unit.processor.limited import LimitedEngine
from tests.unit.processor.served import SETTINGS, ServedDownstream, post


def waits(engine: LimitedEngine, key: str) -> EventWait:
    """Of an event, as `payhook status --entity` reads it."""
    status = {"at": to_rfc3339(engine.clock.now()), "state": "running", "downstreams": engine.downstreams.status()}
    engine.index.close()
    row = engine.last(key)
    queue = read_entity(engine._index_root, row.entity_key or "")
    [item] = [item for item in queue.items if item.row.event_key == key]
    return find_wait(queue, item, status, engine.clock.now())


@pytest.fixture
def engine(tmp_path: Path) -> LimitedEngine:
    return LimitedEngine(tmp_path, {"merchants": SETTINGS})


def test_an_event_behind_an_open_breaker_waits_for_it(engine: LimitedEngine) -> None:
    service = ServedDownstream(engine)
    service.down = True
    keys = post(engine, service, 30)
    engine.batch()
    one = waits(engine, keys[-1])
    assert one.wait is WaitKind.BREAKER
    assert one.since == engine.clock.now() and one.until is not None and one.until > one.since
    assert "its breaker is open since" in one.text and "(Unreachable)" in one.text and "Fix merchants;" in one.text


def test_an_event_that_failed_waits_for_its_backoff(tmp_path: Path) -> None:
    engine = LimitedEngine(tmp_path, {"merchants": DownstreamSettings(failures_to_open=1_000)})
    service = ServedDownstream(engine)
    service.down = True
    [key] = post(engine, service, 1)
    engine.batch()
    assert waits(engine, key).wait is WaitKind.BACKOFF


def test_a_retry_beyond_the_budget_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downstream, "RETRY_SHARE", 0.0)
    monkeypatch.setattr(downstream, "RETRIES_MIN", 1)
    engine = LimitedEngine(tmp_path, {"merchants": DownstreamSettings(failures_to_open=1_000)})
    service = ServedDownstream(engine)
    service.down = True
    keys = post(engine, service, 5)
    engine.batch()
    service.down = False
    engine.advance(2)
    held = [item.row.event_key or "" for item in engine.index.open_items()]
    assert 0 < len(held) < len(keys)
    assert waits(engine, held[0]).wait is WaitKind.BUDGET


def test_an_event_that_failed_before_the_breaker_opened_waits_for_that_now(engine: LimitedEngine) -> None:
    service = ServedDownstream(engine)
    service.down = True
    [key] = post(engine, service, 1)
    engine.batch()
    post(engine, service, 30, first=2)
    engine.batch()
    engine.advance(2)
    assert engine.decisions(key) == ["retry"], "it goes on waiting without a row"
    one = waits(engine, key)
    assert one.wait is WaitKind.BREAKER
    assert "Fix merchants;" in one.text


def test_an_event_waits_since_its_first_refusal_and_until_its_next_try(engine: LimitedEngine) -> None:
    """What is tried in between changes when it is due, and nothing else."""
    service = ServedDownstream(engine)
    service.down = True
    keys = post(engine, service, 30)
    first_refused_at = engine.clock.now()
    engine.batch()
    engine.advance(600)
    assert engine.decisions(keys[-1]) == ["parked"], "it goes on waiting without a row"
    one = waits(engine, keys[-1])
    assert one.wait is WaitKind.BREAKER
    assert one.since == first_refused_at
    assert one.until is not None and one.until > engine.clock.now()
