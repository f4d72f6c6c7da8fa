"""The processor's metrics: what one commit adds to them, under labels that stay few."""

from __future__ import annotations

from datetime import UTC, datetime

from core.clock import ManualClock
from core.decision import Decision
from journal.schema import JournalRow
from processor.reporting.metrics import ATTEMPT_MAX, ProcessorMetrics

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def retried(attempt: int) -> JournalRow:
    return JournalRow(
        seq=attempt,
        item_seq=1,
        first=False,
        topic="payments.events",
        partition=0,
        offset=0,
        decision=Decision.RETRY,
        decided_at=NOW,
        attempt=attempt,
    )


def test_a_policy_without_an_end_makes_no_label_for_each_of_its_tries() -> None:
    metrics = ProcessorMetrics(ManualClock(NOW))
    metrics.committed([retried(attempt) for attempt in range(1, 1_001)])
    samples = [
        sample
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "payhook_decisions_total"
    ]
    counts = {sample.labels["attempt"]: sample.value for sample in samples}
    assert counts.keys() == {str(attempt) for attempt in range(1, ATTEMPT_MAX + 1)}
    assert counts[str(ATTEMPT_MAX)] == 1_000 - ATTEMPT_MAX + 1


def test_dead_letters_are_counted_from_the_publishers_own_numbers() -> None:
    metrics = ProcessorMetrics(ManualClock(NOW))
    metrics.dead_letters.requests, metrics.dead_letters.written, metrics.dead_letters.failed = 5, 3, 2
    metrics.dead({"dead": 7, "open": 9, "unpublished": 2, "unpublished_s": 61.5, "index_memory_bytes": 4_096})
    found = {sample.name: sample.value for family in metrics.registry.collect() for sample in family.samples}
    assert found["payhook_dlq_produce_requests_total"] == 5
    assert found["payhook_dlq_written_total"] == 3
    assert found["payhook_dlq_produce_failures_total"] == 2
    assert (found["payhook_dlq_depth"], found["payhook_open_events"]) == (7, 9)
    assert found["payhook_index_memory_bytes"] == 4_096
    assert (found["payhook_dlq_unpublished"], found["payhook_dlq_unpublished_seconds"]) == (2, 61.5)
