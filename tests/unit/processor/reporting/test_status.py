"""What a stream reports of itself, so that a person sees which one stands still, and why."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.clock import ManualClock
from journal.lease import Holder
from journal.state import Marks
from processor.backlog.catch_up import Ends, StreamCatchUp
from processor.backlog.pace import Pace, PaceLimits
from processor.backlog.sizing import FixedExecutors
from processor.reporting.metrics import ProcessorMetrics
from processor.reporting.status import WARM_BATCHES, StatusFile, StreamStatus
from tests.unit.processor.harness import Engine


class NothingKnown:
    """Kafka has told of no topic."""

    @property
    def latest(self) -> Ends:
        return {}

    def of(self, marks: Marks) -> None:
        """Nobody is asked."""


class StatusReport:
    """A stream's status, with its file and a clock that moves on with every look."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
        self.file = folder / "processor-greet.json"
        self.metrics = ProcessorMetrics(self.clock)
        pace = Pace(PaceLimits(1.0, 1, 10, 5, 1 << 28))
        self.catch_up = StreamCatchUp("s", pace, NothingKnown(), FixedExecutors(1, 2), self.clock)  # type: ignore[arg-type]
        self.status_file = StatusFile(self.file, self.clock)
        self.status = StreamStatus("greet", self.status_file, self.metrics)

    def batch(self, engine: Engine) -> None:
        self.status.report_batch(engine.batches, self.catch_up)

    def said(self) -> dict[str, Any]:
        self.clock.advance(2)
        said: dict[str, Any] = json.loads(self.file.read_text()) if self.file.exists() else {}
        return said


@pytest.fixture
def reported(tmp_path: Path) -> StatusReport:
    return StatusReport(tmp_path)


def test_ready_is_said_once_it_is_warm_with_the_engines_figures(reported: StatusReport, tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.post("a")
    engine.batch()
    for _ in range(WARM_BATCHES - 1):
        reported.batch(engine)
        assert reported.said() == {}
    reported.batch(engine)
    said = reported.said()
    assert (said["ready"], said["state"], said["stream"], said["seq"], said["restarts"]) == (
        True,
        "running",
        "greet",
        1,
        0,
    )


def test_each_batch_is_timed_once_however_often_it_is_reported_of(reported: StatusReport, tmp_path: Path) -> None:
    def timed() -> list[float | None]:
        return [reported.metrics.registry.get_sample_value(f"payhook_batch_seconds_{of}") for of in ("count", "sum")]

    engine, seconds = Engine(tmp_path), 0.0
    reported.batch(engine)
    assert timed() == [0, 0]
    for number, name in enumerate("abc", 1):
        engine.post(name)
        engine.batch()
        seconds += sum(engine.batches.progress.step_s.values())
        for _ in range(3):
            reported.batch(engine)
        assert timed() == pytest.approx([number, seconds])


def test_a_failure_is_reported_until_it_runs_again_and_remembered_then(reported: StatusReport, tmp_path: Path) -> None:
    reported.status.report_failed(LookupError("gone"))
    said = reported.said()
    assert (said["ready"], said["state"], said["last_failure"]) == (False, "failed", "LookupError: gone")
    reported.status.count_restart()
    engine = Engine(tmp_path)
    reported.batch(engine)
    assert reported.said()["state"] == "failed", "it is to be warm first"
    reported.batch(engine)
    said = reported.said()
    assert (said["ready"], said["state"], said["restarts"]) == (True, "running", 1)
    assert said["last_failure"] == "LookupError: gone"


def test_a_stream_with_nobody_to_serve_is_off_and_no_trouble(reported: StatusReport) -> None:
    reported.status.report_off("nobody is told")
    said = reported.said()
    assert (said["ready"], said["state"], said["why"]) == (True, "off", "nobody is told")


LEADER = Holder("other", "host-2 (pid 7)", datetime(2026, 1, 31, 11, 0, tzinfo=UTC))


def test_a_stream_that_stands_by_says_whose_lease_it_waits_for(reported: StatusReport) -> None:
    reported.status.report_failed(LookupError("gone"))
    reported.said()
    reported.status.report_standby(LEADER)
    said = reported.said()
    assert (said["ready"], said["state"]) == (True, "standby")
    assert said["why"] == "waits for the lease of host-2 (pid 7) since 2026-01-31T11:00:00.000000Z"
    assert reported.metrics.registry.get_sample_value("payhook_stream_blocked") == 0


def test_a_stream_that_stands_by_leaves_the_file_to_the_process_that_decides_it_in_this_folder(
    reported: StatusReport,
) -> None:
    reported.file.write_text('{"state": "running"}')
    reported.status.report_standby(replace(LEADER, here=True))
    assert reported.said() == {"state": "running"}
    assert reported.status_file.last_written["state"] == "standby"


def test_an_outage_of_its_storage_is_reported_with_its_reason(reported: StatusReport) -> None:
    reported.status.report_off("not begun")
    reported.said()
    reported.status.report_outage("StorageDown: disk full", 3)
    said = reported.said()
    assert (said["ready"], said["blocked"], said["tries"]) == (False, "StorageDown: disk full", 3)
    assert reported.metrics.registry.get_sample_value("payhook_stream_blocked") == 1


def test_on_a_full_disk_what_is_said_stands_in_the_place_of_what_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "processor.json"
    file = StatusFile(path, ManualClock(datetime(2026, 1, 31, tzinfo=UTC)))
    file.write({"state": "running", "why": "é" * 20})
    size = path.stat().st_size

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    file.write({"state": "blocked", "why": "ö"})
    said = json.loads(path.read_text("utf-8"))
    assert (said["state"], said["why"]) == ("blocked", "ö")
    assert path.stat().st_size == size


def test_a_status_is_written_again_where_its_folder_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "run" / "processor.json"
    file = StatusFile(path, ManualClock(datetime(2026, 1, 31, tzinfo=UTC)))
    path.parent.rmdir()
    file.write({"state": "running"})
    assert json.loads(path.read_text("utf-8"))["state"] == "running"
