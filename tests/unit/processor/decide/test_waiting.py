"""Waiting is a state: what goes on waiting costs no row, whatever it waits for, and is decided when it can be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from core.decision import ErrorKind
from core.work import Applied, DownstreamHeld, Outcome, WorkItem, calling
from journal.target import ItemTarget
from processor.settings import DeadHead, DownstreamSettings
from processor.workers.deadlines import Deadlines
from tests.unit.processor.harness import Engine
from tests.unit.processor.limited import LimitedEngine
from tests.unit.processor.ordering import run_order

SHOP = "subscriber:shop"
OUTAGE_S, WAITING = 3_600, 1_000
PATIENT = Deadlines(60.0, 100.0)


class NotTaken(Exception):
    kind = ErrorKind.SNBE


class MendedSubscriber:
    """A subscriber that answers 500 until it is mended."""

    def __init__(self) -> None:
        self.is_down = True
        self.asked: list[str] = []

    def __call__(self, item: WorkItem) -> Outcome:
        with calling(SHOP):
            self.asked.append(item.event_key)
            if self.is_down:
                raise NotTaken("answered 500")
        return Applied()


def limited(folder: Path, reset_s_max: float = 3_600.0) -> tuple[LimitedEngine, MendedSubscriber]:
    shop = MendedSubscriber()
    settings = {SHOP: DownstreamSettings(reset_s_max=reset_s_max)}
    engine = LimitedEngine(folder, settings, dead_head=DeadHead.CONTINUE, deadlines=PATIENT)
    return engine, shop


def post(engine: Engine, shop: MendedSubscriber, number: int, entity: str | None = None) -> str:
    key = engine.post(f"evt_{number}", entity or f"e{number}")
    engine.handler.script[key] = shop
    return key


@pytest.mark.row("G9")
@pytest.mark.more(reason="a thousand events for an hour; fewer are in the tests below")
def test_an_hour_of_500_with_a_thousand_waiting_costs_two_rows_an_event(tmp_path: Path) -> None:
    engine, shop = limited(tmp_path)
    keys = [post(engine, shop, number) for number in range(WAITING)]
    engine.batch()
    while engine.clock.monotonic_s() < OUTAGE_S:
        engine.advance(15)
    asked = len(shop.asked)
    shop.is_down = False
    while engine.index.open_count():
        engine.advance(60)
    rows = Counter(row.event_key for row in engine.journal.rows)
    assert {key: engine.decisions(key)[-1] for key in keys} == dict.fromkeys(keys, "applied")
    assert max(rows.values()) <= 2, rows.most_common(3)
    assert asked <= 30, "it is asked more and more seldom"
    assert engine.clock.monotonic_s() <= 3 * OUTAGE_S, "its recovery is noticed within an hour"


@pytest.mark.parametrize("keeps_index", [True, False])
def test_a_new_process_goes_on_waiting_without_a_row(tmp_path: Path, keeps_index: bool) -> None:
    engine, shop = limited(tmp_path)
    keys = [post(engine, shop, number) for number in range(20)]
    engine.batch()
    before = len(engine.journal.rows)
    for _ in range(3):
        engine.advance(30)
        engine.start(keeps_index=keeps_index)
        assert engine.batch() == []
    shop.is_down = False
    for _ in range(20):
        engine.advance(30)
    assert [engine.decisions(key) for key in keys] == [["parked", "applied"]] * 20
    assert len(engine.journal.rows) == before + 20


def test_a_wait_that_ends_otherwise_gets_its_row(tmp_path: Path) -> None:
    """It dies of its own failure once its downstream is there again."""
    engine, shop = limited(tmp_path)
    key = post(engine, shop, 1)
    for number in range(2, 8):
        post(engine, shop, number)
    engine.batch()
    engine.handler.fails(key, ZeroDivisionError("division by zero"))
    shop.is_down = False
    for _ in range(5):
        engine.advance(10)
    assert engine.decisions(key) == ["parked", "dead"]


def test_what_waits_is_not_closed(tmp_path: Path) -> None:
    engine, shop = limited(tmp_path)
    key = post(engine, shop, 0)
    engine.batch()
    for number in range(1, 8):
        post(engine, shop, number)
    for _ in range(5):
        engine.advance(10)
    row = engine.last(key)
    assert engine.decisions(key) == ["retry"]
    assert run_order(engine, "purge", ItemTarget.of_row(row)).refusals == "item 1 is retry, not dead"
    assert engine.decisions(key) == ["retry"]
    assert row.item_seq in {one.row.item_seq for one in engine.index.open_items()}


def test_the_index_says_until_when_and_why_it_waits_now(tmp_path: Path) -> None:
    engine, shop = limited(tmp_path)
    for number in range(8):
        post(engine, shop, number)
    engine.batch()
    for _ in range(4):
        engine.advance(10)
    for item in engine.index.open_items():
        assert item.row.due_at is not None
        assert item.row.due_at > engine.clock.now()
        assert "breaker is open" in (item.row.reason or "")


def test_a_blocked_streams_probes_cost_no_row(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    keys = [engine.post(f"evt_{number}", f"e{number}") for number in range(50)]
    engine.handler.down_for = lambda _: True
    engine.run(OUTAGE_S)
    rows = Counter(row.event_key for row in engine.journal.rows)
    assert max(rows.values()) <= 2, rows.most_common(3)
    assert len(engine.handler.calls) >= OUTAGE_S / 60, "it is asked all the same"
    engine.handler.down_for = lambda _: False
    engine.run(120)
    assert [engine.decisions(key)[-1] for key in keys] == ["applied"] * 50
    assert max(Counter(row.event_key for row in engine.journal.rows).values()) <= 3


def test_what_has_no_turn_in_a_batch_gets_one_row(tmp_path: Path) -> None:
    """A handler that says for an hour that it can't be asked: each of its batches ends before most events' turn."""
    engine = Engine(tmp_path, dead_head=DeadHead.CONTINUE)
    key = engine.post("evt_1")

    def hold(_: WorkItem) -> Outcome:
        raise DownstreamHeld("merchants", 1.0, "isn't called")

    engine.handler.script[key] = hold
    for _ in range(100):
        engine.advance(2)
    assert engine.decisions(key) == ["parked"]
    del engine.handler.script[key]
    engine.advance(2)
    assert engine.decisions(key) == ["parked", "applied"]
