"""What `payhook status` says of downstreams."""

from __future__ import annotations

from datetime import UTC, datetime

from cli.status_command import held_back
from core.clock import ManualClock
from processor.calls.budget import Report
from processor.calls.downstreams import Downstreams


def test_only_what_is_not_called_as_usual_is_shown_with_its_reason() -> None:
    downstreams = Downstreams(clock=ManualClock(datetime(2026, 1, 31, 12, 0, tzinfo=UTC)))
    downstreams.judge({}, {"subscriber:a": Report(calls=3)})
    down = Report(calls=7, failed=5, failed_in_a_row=5, held=1_200, problem="DirectoryUnavailable")
    downstreams.judge({}, {"merchants": down})
    assert held_back([{"downstreams": downstreams.status()}, {"ready": False}]) == [
        (
            "downstream merchants",
            "isn't called until 2026-01-31T12:00:05.000000Z: its breaker is open (DirectoryUnavailable); "
            "5 of 7 calls failed, 1,200 weren't made",
        )
    ]
