"""Each event counts once for the promise of 5 s, and what isn't ours to keep counts apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.clock import ManualClock
from core.decision import Decision
from journal.schema import JournalRow
from processor.reporting.metrics import LATENCY_BUCKETS_S, PROMISED, ProcessorMetrics, sli_outcome

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def row(decision: Decision, took_s: float = 1.0, **changes: Any) -> JournalRow:
    fields: dict[str, Any] = {
        "seq": 2,
        "item_seq": 2,
        "first": True,
        "topic": "payments.events",
        "partition": 0,
        "offset": 1,
        "decision": decision,
        "decided_at": NOW,
        "received_at": NOW - timedelta(seconds=took_s),
    }
    return JournalRow(**(fields | changes))


@pytest.mark.parametrize(
    ("of", "counted"),
    [
        (row(Decision.APPLIED), "in_time"),
        (row(Decision.IGNORED, 5.0), "in_time"),
        (row(Decision.DUPLICATE, 5.001), "late"),
        (row(Decision.APPLIED, 7.0, first=False, attempt=2), "late"),
        (row(Decision.APPLIED, 3.0, first=False, attempt=1), "in_time"),
        (row(Decision.APPLIED, 3_600.0, first=False), "waited"),
        (row(Decision.DEAD, error_class="ZeroDivisionError"), "failed"),
        (row(Decision.DEAD, error_class="Poison"), "set_aside"),
        (row(Decision.DEAD, error_class="EventConflict"), "set_aside"),
        (row(Decision.DEAD, error_class="FactConflict"), "set_aside"),
        (row(Decision.DEAD, error_class="HeadDead"), "waited"),
        (row(Decision.RETRY), None),
        (row(Decision.PARKED), None),
        (row(Decision.IGNORED, received_at=None), None),
        (row(Decision.IGNORED, actor="ada"), None),
    ],
)
def test_a_row_counts_as(of: JournalRow, counted: str | None) -> None:
    assert sli_outcome(of, NOW) == counted


def test_the_counter_has_every_outcome_from_the_start_and_counts_a_commit() -> None:
    metrics = ProcessorMetrics(ManualClock(NOW))

    def counts() -> dict[str, float]:
        samples = (sample for family in metrics.registry.collect() for sample in family.samples)
        return {s.labels["outcome"]: s.value for s in samples if s.name == "payhook_sli_events_total"}

    assert counts() == dict.fromkeys(("in_time", "late", "failed", "set_aside", "waited"), 0.0)
    metrics.committed([row(Decision.APPLIED), row(Decision.APPLIED), row(Decision.APPLIED, 6.0), row(Decision.RETRY)])
    assert counts() == {"in_time": 2.0, "late": 1.0, "failed": 0.0, "set_aside": 0.0, "waited": 0.0}


def test_the_histogram_has_an_edge_where_the_promise_ends() -> None:
    assert PROMISED.total_seconds() in LATENCY_BUCKETS_S
