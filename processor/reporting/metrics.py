"""The metrics of one work stream."""

from __future__ import annotations

import math
from collections import Counter as Counted
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from core.clock import Clock
from core.decision import Decision
from core.metrics import (
    ATTEMPT_MAX,
    CATALOGUE,
    MetricType,
    Service,
    list_entries,
    make_counter,
    make_gauge,
    make_histogram,
)
from core.status_file import moment_of
from dlq.publisher import Tally
from journal.open_item import CONFLICT_CLASS, FACT_CONFLICT_CLASS, OpenItem
from journal.schema import JournalRow
from processor.backlog.catch_up import StreamCatchUp
from processor.calls.breaker import CLOSED, HALF_OPEN, OPEN
from processor.calls.budget import CallReport
from processor.calls.downstream import QUIET
from processor.decide.head_of_line import BLOCKED_CLASS, HeadFigures
from processor.decide.item import POISON_CLASS, PREVIOUS_DEAD_CLASS, BatchItem, has_followed_failing
from processor.reporting.progress import BatchProgress
from processor.source.records import MARKERS

TIMEOUT_CLASS = "HandlerTimeout"

DEAD_LETTER_COUNTERS: Final[Mapping[str, str]] = {
    "written": "payhook_dlq_written",
    "requests": "payhook_dlq_produce_requests",
    "failed": "payhook_dlq_produce_failures",
}
"""By the publisher's own numbers (`dlq.publisher.Tally`)."""

_OF_CATCH_UP: Mapping[str, str] = {
    "lag": "payhook_lag_events",
    "behind": "payhook_behind",
    "arrival_per_s": "payhook_arrival_per_second",
    "drain_per_s": "payhook_drain_per_second",
    "recover_s": "payhook_recover_seconds",
    "batch_limit": "payhook_batch_limit_events",
    "recommended_executors": "payhook_recommended_executors",
    "recommended_partitions": "payhook_recommended_partitions",
}
_OF_DEAD: Mapping[str, str] = {
    "dead": "payhook_dlq_depth",
    "open": "payhook_open_events",
    "unpublished": "payhook_dlq_unpublished",
    "unpublished_s": "payhook_dlq_unpublished_seconds",
    "index_memory_bytes": "payhook_index_memory_bytes",
}
_OF_WAITS: Mapping[str, str] = {
    "since": "payhook_downstream_down_seconds",
    "failing_since": "payhook_downstream_failing_seconds",
}
_DOWNSTREAM_STATES = (CLOSED, HALF_OPEN, OPEN, QUIET)


class ProcessorMetrics:
    def __init__(self, clock: Clock, delay: timedelta = timedelta(0)) -> None:
        self._clock = clock
        self._promised = PROMISED + delay
        self.registry = CollectorRegistry()
        self.dead_letters = Tally()
        registry = self.registry
        self._gauges = {
            entry.name: make_gauge(entry.name, registry) for entry in list_entries(Service.STREAM, MetricType.GAUGE)
        }
        self._counts = {
            entry.name: make_counter(entry.name, registry)
            for entry in list_entries(Service.STREAM, MetricType.COUNTER)
            if entry.name not in DEAD_LETTER_COUNTERS.values()
        }
        for outcome in SLI_OUTCOMES:
            self._counts["payhook_sli_events"].labels(outcome)
        self._latency = make_histogram("payhook_processing_seconds", registry)
        self._batch = make_histogram("payhook_batch_seconds", registry)
        self._step = make_histogram("payhook_batch_step_seconds", registry)
        registry.register(_DeadLetterCounts(self.dead_letters))
        self._batches = 0
        self._blocked_by: str | None = None

    def count_calls(self, name: str, state: str, at_once: int, report: CallReport) -> None:
        self._gauges["payhook_downstream_state"].labels(name).set(_DOWNSTREAM_STATES.index(state))
        self._gauges["payhook_downstream_concurrency_limit"].labels(name).set(at_once)
        self._counts["payhook_downstream_calls"].labels(name, "good").inc(report.calls - report.failed)
        self._counts["payhook_downstream_calls"].labels(name, "failed").inc(report.failed)
        self._counts["payhook_downstream_retries"].labels(name).inc(report.retries)
        self._counts["payhook_downstream_held"].labels(name).inc(report.held)

    def set_downstream_waits(self, downstreams: Mapping[str, Mapping[str, Any]]) -> None:
        now = self._clock.now()
        for field, name in _OF_WAITS.items():
            waited = self._gauges[name]
            waited.clear()
            for downstream, state in downstreams.items():
                since = moment_of(state, field)
                waited.labels(downstream).set(0.0 if since is None else max(0.0, (now - since).total_seconds()))

    def downstream_forgotten(self, name: str) -> None:
        for gauge_name in ("payhook_downstream_state", "payhook_downstream_concurrency_limit"):
            self._gauges[gauge_name].remove(name)
        for counter_name in ("payhook_downstream_retries", "payhook_downstream_held"):
            self._counts[counter_name].remove(name)
        for outcome in ("good", "failed"):
            self._counts["payhook_downstream_calls"].remove(name, outcome)

    def set_blocked(self, reason: str | None) -> None:
        error = None if reason is None else reason.partition(":")[0]
        blocked_by = self._gauges["payhook_stream_blocked_by"]
        self._gauges["payhook_stream_blocked"].set(reason is not None)
        if self._blocked_by not in (None, error):
            blocked_by.remove(self._blocked_by)
        if error is not None:
            blocked_by.labels(error).set(1)
        self._blocked_by = error

    def set_refused(self, refused: int) -> None:
        self._gauges["payhook_stream_refused"].set(refused)

    def hook_failed(self, stage: str, problem: str) -> None:
        self._counts["payhook_hook_failures"].labels(stage, problem).inc()

    def batch_done(self, progress: BatchProgress) -> None:
        """Counts the last batch; reported again before there is another one, it counts once."""
        if progress.batches not in (0, self._batches):
            self._batch.observe(sum(progress.step_s.values()))
            for step, seconds in progress.step_s.items():
                self._step.labels(step).observe(seconds)
        self._batches = progress.batches

    def set_line(self, figures: HeadFigures, hung_calls: int) -> None:
        self._set(
            {
                "payhook_heads": figures.heads,
                "payhook_events_behind_heads": figures.behind,
                "payhook_longest_line": figures.longest,
                "payhook_oldest_head_seconds": figures.oldest_s,
                "payhook_stuck_share": figures.stuck_share,
                "payhook_head_of_line": figures.blocked,
                "payhook_hung_calls": hung_calls,
            }
        )

    def set_dead(self, status: Mapping[str, Any]) -> None:
        self._set({name: status[field] for field, name in _OF_DEAD.items()})

    def set_lag(self, catch_up: StreamCatchUp) -> None:
        status = catch_up.status()
        self._set({name: math.nan if status[field] is None else status[field] for field, name in _OF_CATCH_UP.items()})

    def count_decisions(self, items: Sequence[BatchItem]) -> None:
        now, rows = self._clock.now(), [item.row for item in items]
        for (decision, attempt), count in Counted((row.decision.value, row.attempt) for row in rows).items():
            self._counts["payhook_decisions"].labels(decision, str(min(attempt, ATTEMPT_MAX))).inc(count)
        for outcome, count in Counted(
            find_sli_outcome(item.row, now, item.waiting, self._promised) for item in items
        ).items():
            if outcome is not None:
                self._counts["payhook_sli_events"].labels(outcome).inc(count)
        for row in rows:
            if row.offset_until is not None and row.decision is Decision.IGNORED and row.reason != MARKERS:
                self._counts["payhook_records_passed_over"].inc(row.offset_until - row.offset)
            elif row.error_class == TIMEOUT_CLASS:
                self._counts["payhook_handler_timeouts"].inc()
            elif row.error_class == BLOCKED_CLASS and row.decision is Decision.DEAD:
                self._counts["payhook_head_of_line_dead"].inc()
            if row.first and row.received_at is not None and row.decision in ANSWERED:
                self._latency.observe(max(0.0, (now - row.received_at).total_seconds()))

    def _set(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._gauges[name].set(float(value))


class _DeadLetterCounts(Collector):
    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterable[Metric]:
        return [
            CounterMetricFamily(name, CATALOGUE[name].meaning, value=getattr(self._tally, field))
            for field, name in DEAD_LETTER_COUNTERS.items()
        ]


# The service level indicator: each event counted once, when its first answer is in the journal. It is
# in_time / (in_time + late + failed + unknown); what died of the sender's doing, or waited on purpose, is counted
# apart.

IN_TIME, LATE, FAILED, SET_ASIDE, WAITED, UNKNOWN = "in_time", "late", "failed", "set_aside", "waited", "unknown"
SLI_OUTCOMES: Final = (IN_TIME, LATE, FAILED, SET_ASIDE, WAITED, UNKNOWN)
PROMISED: Final = timedelta(seconds=5)

ANSWERED = frozenset({Decision.APPLIED, Decision.IGNORED, Decision.DUPLICATE, Decision.DUPLICATE_FACT})
_OF_THE_SENDER = frozenset({POISON_CLASS, CONFLICT_CLASS, FACT_CONFLICT_CLASS})


def find_sli_outcome(
    row: JournalRow, now: datetime, waiting: OpenItem | None = None, promised: timedelta = PROMISED
) -> str | None:
    """Decides how a row counts for its event's time; None where it is no answer, or not the first one.

    ``now``: when the row was committed. ``waiting``: the event as it waited until then. One that followed a failing
    event, or that a person replayed, is counted apart. Waiting for a downstream, or for a blocked stream, isn't
    excused.
    """
    if row.received_at is None or row.actor is not None:
        return None
    if row.decision is Decision.DEAD:
        if row.error_class in _OF_THE_SENDER:
            return SET_ASIDE
        return WAITED if row.error_class == PREVIOUS_DEAD_CLASS else FAILED
    if row.decision is Decision.UNKNOWN:
        return UNKNOWN
    if row.decision not in ANSWERED:
        return None
    if row.attempt == 0 and waiting is not None and _is_apart(waiting):
        return WAITED
    return IN_TIME if now - row.received_at <= promised else LATE


def _is_apart(waiting: OpenItem) -> bool:
    is_replayed = waiting.row.decision is Decision.REPLAYED or waiting.died or waiting.replays > 0
    return is_replayed or has_followed_failing(waiting.row)
