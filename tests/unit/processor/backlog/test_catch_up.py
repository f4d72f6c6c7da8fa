"""A stream's backlog as its status tells it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from core.clock import ManualClock
from journal.state import Marks
from processor.backlog.catch_up import DRAIN_NOTE, Ends, StreamCatchUp
from processor.backlog.pace import Pace, PaceLimits
from processor.backlog.sizing import FixedExecutors
from processor.reporting.progress import BatchFetch, BatchProgress

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LIMITS = PaceLimits(batch_s=1.0, records_min=100, records_max=8_000, first=2_000, bytes_max=1 << 28)
STEPS = {"fetch": 0.3, "read": 0.1, "lookup": 0.1, "handle": 0.3, "commit": 0.1, "derive": 0.1}


class KnownEnds:
    """Ends as the test says."""

    def __init__(self, ends: Ends) -> None:
        self.latest_ends = ends
        self.asked: Marks | None = None

    def watch_marks(self, marks: Marks) -> None:
        self.asked = marks


class BacklogStream:
    """One stream on one topic of two partitions, and the batches it decides."""

    def __init__(self, written: int, notes: dict[str, str] | None = None, tasks_max: int = 0) -> None:
        self.clock = ManualClock(NOW)
        self.ends = KnownEnds({"t": {0: written, 1: 0}})
        self.executors = FixedExecutors(1, 2)
        ends: Any = self.ends
        self.catch_up = StreamCatchUp("ledger", Pace(LIMITS), ends, self.executors, self.clock, tasks_max)
        self.catch_up.restore_notes(notes or {})
        self.progress = BatchProgress()
        self.decided = 0

    def batch(self, taken: int, seconds: float = 1.0, fetch: BatchFetch | None = None) -> None:
        self.clock.advance(seconds)
        self.decided += taken
        self.progress.batches += 1
        self.progress.fetch = fetch or BatchFetch()
        self.progress.taken, self.progress.seconds, self.progress.step_s = taken, seconds, STEPS
        self.catch_up.after_batch(self.progress, {"t": {0: self.decided, 1: 0}})


def test_nothing_is_said_of_lag_before_kafka_has_answered():
    world = BacklogStream(0)
    world.ends.latest_ends = {}
    world.batch(10)
    assert world.catch_up.status()["lag"] == 0
    assert world.ends.asked == {"t": {0: 10, 1: 0}}


def test_the_time_to_recover_is_known_at_once_where_the_last_process_wrote_how_fast_it_drains():
    world = BacklogStream(300_000, {DRAIN_NOTE: "10000.0"})
    world.batch(1_000)
    reported = world.catch_up.status()
    assert reported["behind"]
    assert reported["lag"] == 299_000
    assert reported["recover_s"] == pytest.approx(29.9)
    assert reported["forecast"]["seconds"] == pytest.approx(29.9)
    assert reported["forecast"]["until"] == "2026-01-31T12:00:30.900000Z"


def test_what_was_forecast_stays_while_the_backlog_shrinks_and_after_it():
    world = BacklogStream(100_000, {DRAIN_NOTE: "10000.0"})
    world.batch(1_000)
    said = world.catch_up.status()["forecast"]
    for _ in range(11):
        world.batch(9_000)
    reported = world.catch_up.status()
    assert not reported["behind"]
    assert reported["forecast"] == said


def test_how_fast_a_backlog_went_is_noted_for_the_next_process():
    world = BacklogStream(200_000)
    world.batch(9_000)
    assert world.catch_up.make_notes() == {}
    for _ in range(16):
        world.batch(9_000)
    assert float(world.catch_up.make_notes()[DRAIN_NOTE]) == pytest.approx(9_000)


@pytest.mark.parametrize(("tasks_max", "wanted"), [(1, 1), (2, 1), (3, 2), (0, 7)])
def test_no_more_executors_are_wanted_than_the_stream_has_tasks_for(tasks_max: int, wanted: int):
    """An executor has two cores."""
    world = BacklogStream(10_000_000, {DRAIN_NOTE: "10000.0"}, tasks_max)
    world.batch(1_000)
    assert world.catch_up.status()["recommended_executors"] == wanted


def test_batches_grow_while_the_stream_is_behind():
    world = BacklogStream(100_000)
    before = world.catch_up.limit
    world.batch(before, seconds=9.0)
    assert world.catch_up.limit == before, "the first one is cold"
    world.batch(before, seconds=0.3)
    assert world.catch_up.limit > before
    assert world.catch_up.status()["batch_limit"] == world.catch_up.limit


def test_a_full_batch_read_before_the_limit_went_up_says_that_the_stream_is_behind():
    world = BacklogStream(100_000)
    first = world.catch_up.limit
    world.batch(first, seconds=9.0, fetch=BatchFetch(limit=first))
    world.batch(first, seconds=0.1, fetch=BatchFetch(limit=first))
    assert world.catch_up.limit >= 2 * first
    world.batch(first, seconds=0.1, fetch=BatchFetch(limit=first, ahead=True))
    assert world.catch_up.meets_limit
    world.batch(first, seconds=0.1, fetch=BatchFetch(limit=world.catch_up.limit))
    assert not world.catch_up.meets_limit


@pytest.mark.parametrize(("ahead", "lowered"), [(True, False), (False, True)])
def test_a_batch_read_while_another_was_decided_took_the_longer_of_both(*, ahead: bool, lowered: bool):
    world = BacklogStream(100_000)
    for _ in range(8):
        world.batch(world.catch_up.limit, seconds=world.catch_up.limit / 4_000)
    limit = world.catch_up.limit
    world.batch(limit, seconds=0.9, fetch=BatchFetch(0.9, limit=limit, ahead=ahead))
    assert (world.catch_up.limit < limit) == lowered


def test_the_same_batch_seen_twice_counts_once():
    world = BacklogStream(100_000)
    world.batch(2_000, seconds=9.0)
    world.batch(2_000, seconds=9.0)
    limit = world.catch_up.limit
    world.catch_up.after_batch(world.progress, {"t": {0: world.decided, 1: 0}})
    assert world.catch_up.limit == limit


def test_partitions_whose_end_is_not_known_do_not_count():
    world = BacklogStream(1_000)
    world.ends.latest_ends = {"t": {0: 1_000}}
    world.batch(400)
    assert world.catch_up.status()["lag"] == 600
