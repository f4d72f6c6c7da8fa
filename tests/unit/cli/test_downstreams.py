"""What `payhook status` says of downstreams."""

from __future__ import annotations

from datetime import UTC, datetime

from cli.status_command import held_back
from core.clock import ManualClock, to_rfc3339
from processor.calls.budget import CallReport
from processor.calls.downstreams import Downstreams

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def test_what_events_wait_for_is_shown_since_when_why_and_until_when() -> None:
    clock = ManualClock(NOW)
    downstreams = Downstreams(clock=clock)
    downstreams.judge({}, {"subscriber:a": CallReport(calls=3)})
    down = CallReport(calls=7, failed=7, failed_in_a_row=5, held=1_200, problem="DirectoryUnavailable")
    downstreams.judge({}, {"merchants": down})
    clock.advance(2)
    status = {"stream": "ledger", "downstreams": downstreams.status()}
    shown = (
        "ledger waits",
        "merchants since 2026-01-31T12:00:00.000000Z: DirectoryUnavailable; next try at 2026-01-31T12:00:05.000000Z; "
        "7 of 7 calls failed, 1,200 weren't made",
    )
    assert held_back([status, status, {"ready": False}]) == [shown]


def test_a_blocked_stream_is_shown_since_when_why_and_until_when() -> None:
    times = {"blocked_since": to_rfc3339(NOW), "next_probe_at": "2026-01-31T12:01:00.000000Z"}
    assert held_back([{"stream": "notify", "blocked": "SubscribersUnreadable: it can't be used", **times}]) == [
        (
            "notify waits",
            "the whole stream is blocked since 2026-01-31T12:00:00.000000Z: SubscribersUnreadable: it can't be used; "
            "next try at 2026-01-31T12:01:00.000000Z",
        )
    ]


def test_a_downstream_that_takes_its_first_calls_again_holds_nothing_up_any_more() -> None:
    clock = ManualClock(NOW)
    downstreams = Downstreams(clock=clock)
    downstreams.judge({}, {"merchants": CallReport(calls=5, failed=5, failed_in_a_row=5)})
    clock.advance(5)
    assert len(held_back([{"downstreams": downstreams.status()}])) == 1, "half-open, and nothing was good yet"
    downstreams.judge({}, {"merchants": CallReport(calls=1)})
    assert held_back([{"downstreams": downstreams.status()}]) == []
