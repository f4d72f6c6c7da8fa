"""What a stream says of itself, so that a person sees which one stands still, and why."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.clock import ManualClock
from journal.state import Marks
from processor.backlog.catch_up import CatchUp
from processor.backlog.lag import Ends
from processor.backlog.pace import Pace, PaceLimits
from processor.lasting import Outage
from processor.tell.metrics import ProcessorMetrics
from processor.tell.status import StatusFile
from processor.tell.telling import WARM_BATCHES, Telling
from tests.unit.processor.harness import Engine


class NothingKnown:
    """Kafka has told of no topic."""

    @property
    def latest(self) -> Ends:
        return {}

    def of(self, marks: Marks) -> None:
        """Nobody is asked."""


class Told:
    """A stream's telling, with its file and a clock that moves on with every look."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
        self.file = folder / "processor-greet.json"
        self.metrics = ProcessorMetrics(self.clock)
        self.catch_up = CatchUp(Pace(PaceLimits(1.0, 1, 10, 5, 1 << 28)), NothingKnown(), 1, 2, self.clock)
        self.telling = Telling("greet", StatusFile(self.file, self.clock), self.metrics)

    def batch(self, engine: Engine) -> None:
        self.telling.batch(engine.batches, self.catch_up)

    def said(self) -> dict[str, Any]:
        self.clock.advance(2)
        said: dict[str, Any] = json.loads(self.file.read_text()) if self.file.exists() else {}
        return said


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def test_ready_is_said_once_it_is_warm_with_the_engines_figures(told: Told, tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.post("a")
    engine.batch()
    for _ in range(WARM_BATCHES - 1):
        told.batch(engine)
        assert told.said() == {}
    told.batch(engine)
    said = told.said()
    assert (said["ready"], said["state"], said["stream"], said["seq"], said["restarts"]) == (
        True,
        "running",
        "greet",
        1,
        0,
    )


def test_each_batch_is_timed_once_however_often_it_is_told_of(told: Told, tmp_path: Path) -> None:
    def timed() -> list[float | None]:
        return [told.metrics.registry.get_sample_value(f"payhook_batch_seconds_{of}") for of in ("count", "sum")]

    engine, seconds = Engine(tmp_path), 0.0
    told.batch(engine)
    assert timed() == [0, 0]
    for number, name in enumerate("abc", 1):
        engine.post(name)
        engine.batch()
        seconds += sum(engine.batches.progress.step_s.values())
        for _ in range(3):
            told.batch(engine)
        assert timed() == pytest.approx([number, seconds])


def test_a_failure_is_told_until_it_runs_again_and_remembered_then(told: Told, tmp_path: Path) -> None:
    told.telling.failed(LookupError("gone"))
    said = told.said()
    assert (said["ready"], said["state"], said["last_failure"]) == (False, "failed", "LookupError: gone")
    told.telling.begun_again()
    engine = Engine(tmp_path)
    told.batch(engine)
    assert told.said()["state"] == "failed", "it is to be warm first"
    told.batch(engine)
    said = told.said()
    assert (said["ready"], said["state"], said["restarts"]) == (True, "running", 1)
    assert said["last_failure"] == "LookupError: gone"


def test_a_stream_with_nobody_to_serve_is_off_and_no_trouble(told: Told) -> None:
    told.telling.off("nobody is told")
    said = told.said()
    assert (said["ready"], said["state"], said["why"]) == (True, "off", "nobody is told")


def test_an_outage_of_its_storage_is_told_with_its_reason(told: Told) -> None:
    told.telling.off("not begun")
    told.said()
    told.telling.outage(Outage("StorageDown: disk full", 3, 1.0))
    said = told.said()
    assert (said["ready"], said["blocked"], said["tries"]) == (False, "StorageDown: disk full", 3)
    assert told.metrics.blocked._value.get() == 1
