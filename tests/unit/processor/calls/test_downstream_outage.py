"""A minute without the merchant directory, over real HTTP and on a clock that is moved: nothing dies, few calls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.work import Applied, Outcome, WorkItem
from ledger.directory import DOWNSTREAM, HttpDirectory, open_client
from processor.calls.downstream import CONCURRENCY_START, PROBES
from processor.settings import DownstreamSettings
from processor.workers.deadlines import Deadlines
from tests.merchant_service import MerchantService, found, ill
from tests.unit.processor.limited import LimitedEngine

SETTINGS = DownstreamSettings(failures_to_open=5, reset_s=5.0)
OUTAGE_S, STEP_S, EVENTS_A_STEP = 60, 1.0, 3
CALLS_MAX = SETTINGS.failures_to_open + CONCURRENCY_START + math.ceil(OUTAGE_S / SETTINGS.reset_s) * PROBES
"""Those that open the breaker, those under way meanwhile, and the probes."""


@pytest.fixture
def service() -> Iterator[MerchantService]:
    running = MerchantService()
    yield running
    running.stop()


class MerchantTraffic:
    """Events of merchants that nobody remembers, each an entity of its own."""

    def __init__(self, engine: LimitedEngine, directory: HttpDirectory) -> None:
        self._engine = engine
        self.directory = directory
        self.keys: list[str] = []

    def step(self) -> None:
        for _ in range(EVENTS_A_STEP):
            number = len(self.keys)
            key = self._engine.post(f"evt_{number}", f"e{number}")
            self._engine.handler.script[key] = self._handle
            self.keys.append(key)
        self._engine.advance(STEP_S)

    def settle(self) -> None:
        """Until nothing waits. How many steps that takes depends on how quickly the calls are answered here, for the
        calls of a batch do; one is made in each.
        """
        for _ in self.keys:
            if self._engine.index.open_count() == 0:
                return
            self._engine.advance(STEP_S)

    def _handle(self, item: WorkItem) -> Outcome:
        self.directory.lookup("stripe", item.event_key)
        return Applied()


@pytest.mark.row("A11")
@pytest.mark.parametrize("how", ["ill", "silent"])
def test_a_minutes_outage_dead_letters_nothing_and_is_called_a_bounded_number_of_times(
    service: MerchantService, tmp_path: Path, how: str
) -> None:
    # Patient: a call ends by its answer, or by the directory's timeout where there is none. No stall of the machine
    # that the test runs on ends a batch before its calls are back.
    engine = LimitedEngine(tmp_path, {DOWNSTREAM: SETTINGS}, deadlines=Deadlines(60.0, 100.0))

    def directory(timeout_s: float) -> HttpDirectory:
        return HttpDirectory(service.url, open_client(timeout_s), engine.clock)

    patient = directory(timeout_s=30.0)
    traffic = MerchantTraffic(engine, patient)
    for _ in range(4):
        traffic.step()
    traffic.settle()
    before = len(service.asked)
    assert before == len(traffic.keys)

    service.answer, service.silent = ill, how == "silent"
    traffic.directory = directory(timeout_s=0.1) if service.silent else patient
    for _ in range(int(OUTAGE_S / STEP_S)):
        traffic.step()
    calls = len(service.asked) - before
    assert SETTINGS.failures_to_open <= calls <= CALLS_MAX
    assert engine.dead_letters.published == []

    service.answer = found
    service.speak()
    traffic.directory = patient
    traffic.settle()
    assert engine.dead_letters.published == []
    applied = [row.event_key or "" for row in engine.journal.rows if row.decision == "applied"]
    assert sorted(applied) == sorted(traffic.keys)
    assert max(row.attempt for row in engine.journal.rows) <= 1
