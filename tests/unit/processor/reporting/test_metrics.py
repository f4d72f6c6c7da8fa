"""The processor's metrics: what one commit adds to them, under labels that stay few, and the promise of 5 s."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.clock import ManualClock
from core.decision import Decision
from core.metrics import ATTEMPT_MAX, LATENCY_BUCKETS_S
from core.work import DownstreamHeld, Outcome, WorkItem
from journal.schema import JournalRow
from journal.target import ItemTarget
from processor.decide.item import BatchItem
from processor.reporting.metrics import PROMISED, ProcessorMetrics, find_sli_outcome
from processor.reporting.progress import BatchProgress
from tests.unit.journal.rows import bare_row
from tests.unit.processor.fakes import Stuck
from tests.unit.processor.harness import Engine
from tests.unit.processor.ordering import run_order

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def retried(attempt: int) -> JournalRow:
    return bare_row(attempt, Decision.RETRY, item_seq=1, first=False, offset=0, attempt=attempt)


def test_a_policy_without_an_end_makes_no_label_for_each_of_its_tries() -> None:
    metrics = ProcessorMetrics(ManualClock(NOW))
    metrics.count_decisions([BatchItem(retried(attempt), b"") for attempt in range(1, 1_001)])
    samples = [
        sample
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "payhook_decisions_total"
    ]
    counts = {sample.labels["attempt"]: sample.value for sample in samples}
    assert counts.keys() == {str(attempt) for attempt in range(1, ATTEMPT_MAX + 1)}
    assert counts[str(ATTEMPT_MAX)] == 1_000 - ATTEMPT_MAX + 1


@pytest.mark.row("C4")
def test_dead_letters_are_counted_from_the_publishers_own_numbers() -> None:
    metrics = ProcessorMetrics(ManualClock(NOW))
    metrics.dead_letters.requests, metrics.dead_letters.written, metrics.dead_letters.failed = 5, 3, 2
    metrics.set_dead({"dead": 7, "open": 9, "unpublished": 2, "unpublished_s": 61.5, "index_memory_bytes": 4_096})
    found = {sample.name: sample.value for family in metrics.registry.collect() for sample in family.samples}
    assert found["payhook_dlq_produce_requests_total"] == 5
    assert found["payhook_dlq_written_total"] == 3
    assert found["payhook_dlq_produce_failures_total"] == 2
    assert (found["payhook_dlq_depth"], found["payhook_open_events"]) == (7, 9)
    assert found["payhook_index_memory_bytes"] == 4_096
    assert (found["payhook_dlq_unpublished"], found["payhook_dlq_unpublished_seconds"]) == (2, 61.5)


def row(decision: Decision, took_s: float = 1.0, **changes: Any) -> JournalRow:
    times = {"decided_at": NOW, "received_at": NOW - timedelta(seconds=took_s)}
    return bare_row(2, decision, **(times | changes))


@pytest.mark.row("A17")
@pytest.mark.parametrize(
    ("of", "counted"),
    [
        (row(Decision.APPLIED), "in_time"),
        (row(Decision.IGNORED, 5.0), "in_time"),
        (row(Decision.UNKNOWN), "unknown"),
        (row(Decision.DUPLICATE, 5.001), "late"),
        (row(Decision.APPLIED, 7.0, first=False, attempt=2), "late"),
        (row(Decision.APPLIED, 3.0, first=False, attempt=1), "in_time"),
        (row(Decision.APPLIED, 3_600.0, first=False), "late"),
        (row(Decision.DEAD, error_class="ZeroDivisionError"), "failed"),
        (row(Decision.DEAD, error_class="Poison"), "set_aside"),
        (row(Decision.DEAD, error_class="EventConflict"), "set_aside"),
        (row(Decision.DEAD, error_class="FactConflict"), "set_aside"),
        (row(Decision.DEAD, error_class="PreviousEventDead"), "waited"),
        (row(Decision.RETRY), None),
        (row(Decision.PARKED), None),
        (row(Decision.IGNORED, received_at=None), None),
        (row(Decision.IGNORED, actor="ada"), None),
    ],
)
def test_a_row_counts_as(of: JournalRow, counted: str | None) -> None:
    assert find_sli_outcome(of, NOW) == counted


AN_HOUR_S = 3_600


def waits(engine: Engine, event_key: str) -> None:
    def hold(_: WorkItem) -> Outcome:
        raise DownstreamHeld("merchants", 1.0, "isn't called")

    engine.handler.script[event_key] = hold


@pytest.mark.row("A17")
def test_an_hour_behind_an_open_breaker_is_late(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    first, follower = engine.post("evt_1"), engine.post("evt_2")
    waits(engine, first)
    engine.batch()
    engine.advance(60)
    third = engine.post("evt_3")
    engine.advance(60)
    assert [engine.decisions(key) for key in (first, follower, third)] == [["parked"]] * 3
    del engine.handler.script[first]
    items: list[BatchItem] = []
    engine.on_decided = items.extend
    engine.advance(AN_HOUR_S)
    now = engine.clock.now()
    assert [find_sli_outcome(item.row, now, item.waiting) for item in items] == ["late"] * 3


def test_an_hour_behind_a_blocked_stream_is_late(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    keys = [engine.post(f"evt_{number}", f"e{number}") for number in range(3)]
    engine.handler.down_for = lambda _: True
    engine.run(60)
    engine.handler.down_for = lambda _: False
    items: list[BatchItem] = []
    engine.on_decided = items.extend
    engine.run(AN_HOUR_S)
    counted = {item.row.event_key: find_sli_outcome(item.row, engine.clock.now(), item.waiting) for item in items}
    assert counted == dict.fromkeys(keys, "late")


def test_a_follower_of_a_failing_head_is_counted_apart_and_its_head_is_late(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    first, follower = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(first, Stuck(), times=1)
    engine.batch()
    items: list[BatchItem] = []
    engine.on_decided = items.extend
    engine.advance(AN_HOUR_S)
    assert [item.row.event_key for item in items] == [first, follower]
    assert [find_sli_outcome(item.row, engine.clock.now(), item.waiting) for item in items] == ["late", "waited"]


@pytest.mark.parametrize("action", ["purge", "replay"])
def test_what_a_person_lets_go_on_is_counted_apart(tmp_path: Path, action: str) -> None:
    engine = Engine(tmp_path)
    first, follower = engine.post("evt_1"), engine.post("evt_2")
    engine.handler.fails(first, ZeroDivisionError("division by zero"), times=1)
    engine.batch()
    run_order(engine, action, ItemTarget.of_row(engine.journal.rows[0]))
    items: list[BatchItem] = []
    engine.on_decided = items.extend
    engine.advance(AN_HOUR_S)
    items = [item for item in items if item.row.decision is not Decision.PORTION]
    assert items[-1].row.event_key == follower
    assert {find_sli_outcome(item.row, engine.clock.now(), item.waiting) for item in items} == {"waited"}


def test_the_counter_has_every_outcome_from_the_start_and_counts_a_commit() -> None:
    metrics = ProcessorMetrics(ManualClock(NOW))

    def counts() -> dict[str, float]:
        samples = (sample for family in metrics.registry.collect() for sample in family.samples)
        return {s.labels["outcome"]: s.value for s in samples if s.name == "payhook_sli_events_total"}

    assert counts() == dict.fromkeys(("in_time", "late", "failed", "set_aside", "waited", "unknown"), 0.0)
    decided = [Decision.APPLIED, Decision.APPLIED, Decision.UNKNOWN, Decision.RETRY]
    metrics.count_decisions([BatchItem(one, b"") for one in (*map(row, decided), row(Decision.APPLIED, 6.0))])
    assert counts() == {"in_time": 2.0, "late": 1.0, "failed": 0.0, "set_aside": 0.0, "waited": 0.0, "unknown": 1.0}


def test_the_histogram_has_an_edge_where_the_promise_ends() -> None:
    assert PROMISED.total_seconds() in LATENCY_BUCKETS_S


def test_each_step_of_a_batch_is_timed_once() -> None:
    metrics = ProcessorMetrics(ManualClock(NOW))
    progress = BatchProgress(batches=1, step_s={"fetch": 0.25, "commit": 0.5})
    metrics.batch_done(progress)
    metrics.batch_done(progress)
    value = metrics.registry.get_sample_value
    assert value("payhook_batch_step_seconds_count", {"step": "commit"}) == 1
    assert value("payhook_batch_step_seconds_sum", {"step": "fetch"}) == 0.25


def test_a_streams_delay_is_no_lateness() -> None:
    """It is counted in time for 5 s after the delay's end, and late then."""
    metrics = ProcessorMetrics(ManualClock(NOW), timedelta(seconds=30))
    for took_s in (31.0, 35.0, 36.0):
        metrics.count_decisions([BatchItem(row(Decision.APPLIED, took_s), b"")])
    found = {
        sample.labels["outcome"]: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "payhook_sli_events_total" and sample.value
    }
    assert found == {"in_time": 2, "late": 1}
