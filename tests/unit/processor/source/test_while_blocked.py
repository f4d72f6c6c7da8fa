"""While a stream is blocked its orders are obeyed, each once, and its next batch is held until it may be decided."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from core.work import DownstreamHeld, Outcome, WorkItem, calling
from journal.state import Marks
from processor.settings import DownstreamSettings
from processor.source.records import KafkaRecord, read_table
from processor.source.while_blocked import WhileBlocked
from tests.unit.processor.fakes import Down, Stuck, booked, ignored
from tests.unit.processor.harness import CONTROL, EVENTS, Engine, table
from tests.unit.processor.limited import LimitedEngine


@dataclass
class ControlRecords:
    """The control topic, beside Spark: what is in it from the marks on."""

    records: list[KafkaRecord] = field(default_factory=list)
    opened: int = 0
    closed: int = 0

    def open(self) -> ControlRecords:
        self.opened += 1
        return self

    def read(self, marks: Marks) -> list[KafkaRecord]:
        return [one for one in self.records if one.offset >= marks[CONTROL][one.partition]]

    def close(self) -> None:
        self.closed += 1


class Steps(threading.Event):
    """Each wait moves the clock on; the stream is stopped after so many."""

    def __init__(self, engine: Engine, waits_max: int = 100_000) -> None:
        super().__init__()
        self._engine = engine
        self._waits_left = waits_max

    def wait(self, timeout: float | None = None) -> bool:
        self._engine.clock.advance(timeout or 0.0)
        self._waits_left -= 1
        if self._waits_left <= 0:
            self.set()
        return self.is_set()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    one = Engine(tmp_path)
    yield one
    one.index.close()


def waiting(engine: Engine, control: ControlRecords, waits_max: int = 100_000) -> WhileBlocked:
    return WhileBlocked(engine.batches, engine.clock, control.open, Steps(engine, waits_max), lambda: None)


def blocked_beside_a_dead_one(engine: Engine) -> str:
    """The key of the dead event, which works by now; its last row is row 1."""
    key = engine.post("evt_dead", "dead")
    engine.handler.fails(key, ZeroDivisionError("division by zero"), times=1)
    engine.batch()
    blocked_by(engine)
    return key


def blocked_by(engine: Engine) -> str:
    key = engine.post("evt_bad", "bad")
    engine.handler.fails(key, Down("401"))
    engine.batch()
    assert engine.batches.is_blocked
    return key


def given(engine: Engine) -> pa.Table:
    """What Spark gives now: everything that is pending, orders too."""
    return table(engine._pending)


def replay_first(engine: Engine) -> Sequence[KafkaRecord]:
    engine.replay([(1, 1)], "c1")
    return [one for one in read_table(given(engine)) if one.topic == CONTROL]


def test_a_stream_that_is_not_blocked_opens_nothing(engine: Engine) -> None:
    control = ControlRecords()
    assert waiting(engine, control).wait_while_blocked(given(engine))
    assert control.opened == 0


def test_an_order_that_is_read_beside_spark_is_decided_once(engine: Engine) -> None:
    dead, control = blocked_beside_a_dead_one(engine), ControlRecords()
    held = given(engine)
    control.records += replay_first(engine)
    while_blocked = waiting(engine, control)
    while_blocked.wait_while_blocked(held)
    assert engine.decisions(dead) == ["dead", "replayed", "applied"]
    assert not engine.batches.is_blocked
    assert engine.batches.committed_marks == {EVENTS: {0: 2}, CONTROL: {0: 1}}
    engine.batch()
    orders = [row for row in engine.journal.rows if row.topic == CONTROL]
    assert len(orders) == 1, "Spark gives it too, below the marks"
    assert (control.opened, control.closed) == (1, 1)


def test_an_order_in_the_held_batch_is_decided_before_its_events(engine: Engine) -> None:
    dead, control = blocked_beside_a_dead_one(engine), ControlRecords()
    replay_first(engine)
    other = engine.post("evt_other", "e2")
    waiting(engine, control).wait_while_blocked(given(engine))
    assert engine.decisions(dead) == ["dead", "replayed", "applied"]
    assert not engine.batches.is_blocked
    engine.batch()
    assert engine.decisions(other) == ["applied"]


def test_an_order_does_not_wait_for_the_next_probe(engine: Engine) -> None:
    blocked_beside_a_dead_one(engine)
    engine.run(300)
    assert engine.batches.probe_s == 60
    control, began = ControlRecords(), engine.clock.monotonic_s()
    control.records += replay_first(engine)
    waiting(engine, control).wait_while_blocked(table([]))
    assert not engine.batches.is_blocked
    assert engine.clock.monotonic_s() - began < 1


def test_a_batch_of_which_nothing_is_left_makes_room_for_the_next_one(engine: Engine) -> None:
    blocked_by(engine)
    control = ControlRecords()
    while_blocked = waiting(engine, control)
    for _ in range(3):
        assert not while_blocked.wait_while_blocked(table([]))
        assert engine.batches.is_blocked
    assert (control.opened, control.closed) == (1, 0), "it stays open as long as the stream is blocked"


def test_a_batch_is_held_while_an_outage_lasts_and_its_events_stay_undecided(engine: Engine) -> None:
    engine.handler.down_for = lambda _: True
    for n in range(20):
        engine.post(f"evt_{n}", f"e{n}")
    engine.batch()
    for n in range(20, 40):
        engine.post(f"evt_{n}", f"e{n}")
    control = ControlRecords()
    while_blocked = waiting(engine, control, waits_max=100)
    assert not while_blocked.wait_while_blocked(given(engine)), "it was stopped"
    assert engine.batches.is_blocked
    assert engine.batches.committed_marks[EVENTS] == {0: 20}
    while_blocked.close()
    assert control.closed == 1


def test_the_backlog_is_decided_as_usual_once_the_outage_is_over(engine: Engine) -> None:
    engine.handler.down_for = lambda item: engine.clock.monotonic_s() < over
    over = engine.clock.monotonic_s() + 500
    keys = [engine.post(f"evt_{n}", f"e{n}") for n in range(20)]
    engine.batch()
    keys += [engine.post(f"evt_{n}", f"e{n}") for n in range(20, 40)]
    assert waiting(engine, ControlRecords()).wait_while_blocked(given(engine))
    assert engine.clock.monotonic_s() - over <= 61
    engine.batch()
    engine.batch()
    assert [engine.decisions(key)[-1] for key in keys] == ["applied"] * 40
    assert {row.attempt for row in engine.journal.rows} == {0}


def held(_: WorkItem) -> Outcome:
    raise DownstreamHeld("subscriber", 5.0)


def stuck(_: WorkItem) -> Outcome:
    raise Stuck("no answer")


def mended_after_a_long_outage(engine: Engine) -> None:
    bad = blocked_by(engine)
    engine.run(300)
    assert engine.batches.probe_s == 60
    engine.handler.script[bad] = lambda _: booked()


@pytest.mark.parametrize("act", [ignored, held, stuck])
def test_events_that_prove_nothing_cost_no_wait(engine: Engine, act: Callable[[WorkItem], Outcome]) -> None:
    mended_after_a_long_outage(engine)
    others = [engine.post(f"evt_{n}", f"e{n}") for n in range(10)]
    engine.handler.script |= dict.fromkeys(others, act)
    good, began = engine.post("evt_good", "good"), engine.clock.monotonic_s()
    assert waiting(engine, ControlRecords()).wait_while_blocked(given(engine))
    assert engine.clock.monotonic_s() - began < 70
    assert engine.decisions(good) == ["applied"]


def test_events_that_were_put_off_come_again_once_a_second_and_after_those_that_were_not_tried(engine: Engine) -> None:
    """As many that nothing but another downstream's return helps: they neither fill the journal nor keep others."""
    bad = blocked_by(engine)
    others = [engine.post(f"evt_{n}", f"e{n}") for n in range(50)]
    engine.handler.script |= dict.fromkeys(others, held)
    engine.run(30)
    calls = len(engine.handler.calls)
    engine.run(30)
    assert engine.batches.is_blocked
    assert 25 <= len(engine.handler.calls) - calls <= 31
    engine.handler.script[bad] = lambda _: booked()
    good = engine.post("evt_good", "good")
    engine.run(2)
    assert engine.decisions(good) == ["applied"]
    assert not engine.batches.is_blocked


@pytest.mark.parametrize("how", ["silent", "left alone"])
def test_a_downstream_that_is_still_ill_is_asked_no_more_often_than_the_probes_wait(tmp_path: Path, how: str) -> None:
    """What blocks the stream answers otherwise now, or its breaker is open: that is no reason to try the next event."""
    failures_to_open = {"silent": 1_000, "left alone": 1}[how]
    settings = DownstreamSettings(failures_to_open=failures_to_open, reset_s=20.0)
    engine, refuses = LimitedEngine(tmp_path, {"merchants": settings}, parallelism=1, concurrency=1), True

    def asks(_: WorkItem) -> Outcome:
        with calling("merchants"):
            if refuses:
                raise Down("401")
            raise Stuck("no answer")

    first = engine.post("evt_first", "first")
    engine.handler.script[first] = asks
    engine.batch()
    assert engine.batches.is_blocked
    refuses = False
    others = [engine.post(f"evt_{n}", f"e{n}") for n in range(50)]
    engine.handler.script |= dict.fromkeys(others, asks)
    engine.run(15)
    assert engine.batches.is_blocked
    assert 1 <= engine.batches.committed_marks[EVENTS][0] - 1 <= 5
    engine.index.close()
