"""The processor's metrics: every name, type and meaning stands here."""

from __future__ import annotations

import math
from collections import Counter as Counted
from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from core.clock import Clock
from core.decision import Decision
from dlq.publisher import Tally
from journal.schema import JournalRow
from processor.backlog.catch_up import CatchUp
from processor.calls.breaker import CLOSED, HALF_OPEN, OPEN
from processor.calls.budget import Report
from processor.calls.downstream import QUIET
from processor.decide.head_of_line import BLOCKED_CLASS, HeadFigures
from processor.tell import sli
from processor.tell.dead_letters import DeadLetterCounts
from processor.tell.progress import Progress

TIMEOUT_CLASS = "HandlerTimeout"

LATENCY_BUCKETS_S = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 30.0, 60.0)
"""An edge stands exactly at 5 s, the SLO's bound."""

ATTEMPT_MAX = 20
"""Retry numbers that are told apart: more than shipped policies have tries; one that goes on for ever has no end."""


class ProcessorMetrics:
    """One set a process, in a registry of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        self.decisions = Counter(
            "payhook_decisions",
            f"Journal rows by decision and retry number; {ATTEMPT_MAX} stands for that and more",
            ("decision", "attempt"),
            registry=self.registry,
        )
        self.latency = Histogram(
            "payhook_processing_seconds",
            "Receipt of an event to the commit of its first decision, parked ones left out",
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.answers = Counter(
            "payhook_sli_events",
            "Events by how their first answer kept the 5 s: in_time, late, failed; set_aside and waited count apart",
            ("outcome",),
            registry=self.registry,
        )
        for outcome in sli.OUTCOMES:
            self.answers.labels(outcome)
        self.batch = Histogram("payhook_batch_seconds", "One batch, all its steps", registry=self.registry)
        self._batches = 0
        self.dead_open = Gauge("payhook_dlq_depth", "Dead events that wait for a person", registry=self.registry)
        self.dead_letters = Tally()
        DeadLetterCounts(self.dead_letters, self.registry)
        self.unpublished = self._gauge("payhook_dlq_unpublished", "Dead letters that Kafka hasn't acknowledged yet")
        self.index_memory = self._gauge(
            "payhook_index_memory_bytes", "What the key index holds in memory: its cache, which fills up, its writes"
        )
        self.unpublished_s = self._gauge("payhook_dlq_unpublished_seconds", "How long the oldest of those has waited")
        self.parked = Gauge("payhook_open_events", "Events that are open: waiting or dead", registry=self.registry)
        self.heads = Gauge(
            "payhook_heads", "Failing events that hold back later ones of their entity", registry=self.registry
        )
        self.behind_heads = Gauge("payhook_events_behind_heads", "Events held back by those", registry=self.registry)
        self.longest_line = Gauge(
            "payhook_longest_line", "Most events held back by a single one", registry=self.registry
        )
        self.oldest_head = Gauge(
            "payhook_oldest_head_seconds",
            "Longest time for which an event has failed and held back others",
            registry=self.registry,
        )
        self.stuck_share = Gauge(
            "payhook_stuck_share",
            "Events stuck in lines, of those and the ones done in the last minute",
            registry=self.registry,
        )
        self.head_of_line = Gauge(
            "payhook_head_of_line", "1 while a few failing events hold back most others", registry=self.registry
        )
        self.heads_dead = Counter(
            "payhook_head_of_line_dead",
            "Events dead-lettered because they held back others past the limits",
            registry=self.registry,
        )
        self.hung_calls = Gauge(
            "payhook_hung_calls",
            "Handler calls abandoned that are still out, in the Python workers of the last batch",
            registry=self.registry,
        )
        self.handler_timeouts = Counter(
            "payhook_handler_timeouts",
            "Tries that ended because their call wasn't back in time",
            registry=self.registry,
        )
        self.blocked = Gauge("payhook_stream_blocked", "1 while the whole stream is blocked", registry=self.registry)
        self.hook_failures = Counter(
            "payhook_hook_failures",
            "Calls of a stream's recovery hooks that went wrong: before or after; error, timeout or skipped",
            ("stage", "problem"),
            registry=self.registry,
        )
        self.refused = self._gauge("payhook_stream_refused", "1 while the stream waits for a person's decision")
        self.blocked_by = Gauge(
            "payhook_stream_blocked_by",
            "1 for the error class that blocks the stream",
            ("error",),
            registry=self.registry,
        )
        self.catch_up = {
            "lag": self._gauge("payhook_lag_events", "Events that the source holds and nobody has decided"),
            "behind": self._gauge("payhook_behind", "1 while there is a backlog"),
            "arrival_per_s": self._gauge("payhook_arrival_per_second", "Events that come a second"),
            "drain_per_s": self._gauge("payhook_drain_per_second", "Events that are decided a second in a backlog"),
            "recover_s": self._gauge("payhook_recover_seconds", "Seconds until the backlog is gone; NaN: not known"),
            "batch_limit": self._gauge("payhook_batch_limit_events", "Most events that the next batch takes"),
            "recommended_executors": self._gauge("payhook_recommended_executors", "Executors that the load asks for"),
            "recommended_partitions": self._gauge(
                "payhook_recommended_partitions", "Partitions that the load asks for; growing needs a drained topic"
            ),
        }
        self._blocked_by: str | None = None
        self.downstream_state = self._by_downstream(
            "state", "0 called as usual, 1 half-open, 2 its breaker is open, 3 it asked to be left alone"
        )
        self.downstream_limit = self._by_downstream("concurrency_limit", "Calls at a time that a downstream gets")
        self.downstream_calls = Counter(
            "payhook_downstream_calls",
            "Calls of handlers to a downstream, by outcome: good, failed",
            ("downstream", "outcome"),
            registry=self.registry,
        )
        self.downstream_retries = Counter(
            "payhook_downstream_retries",
            "Calls for events whose earlier tries failed",
            ("downstream",),
            registry=self.registry,
        )
        self.downstream_held = Counter(
            "payhook_downstream_held",
            "Calls that weren't made; their events are parked without an attempt",
            ("downstream",),
            registry=self.registry,
        )

    def _by_downstream(self, name: str, meaning: str) -> Gauge:
        return Gauge(f"payhook_downstream_{name}", meaning, ("downstream",), registry=self.registry)

    def downstream(self, name: str, state: str, at_once: int, report: Report) -> None:
        """What became of one batch's calls to a downstream (`processor.calls.downstreams.OnRound`)."""
        self.downstream_state.labels(name).set(_DOWNSTREAM_STATES.index(state))
        self.downstream_limit.labels(name).set(at_once)
        self.downstream_calls.labels(name, "good").inc(report.calls - report.failed)
        self.downstream_calls.labels(name, "failed").inc(report.failed)
        self.downstream_retries.labels(name).inc(report.retries)
        self.downstream_held.labels(name).inc(report.held)

    def _gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(name, meaning, registry=self.registry)

    def block(self, reason: str | None) -> None:
        """Says what blocks the whole stream: an error class, a colon, its message; None when nothing does."""
        error = None if reason is None else reason.partition(":")[0]
        self.blocked.set(reason is not None)
        if self._blocked_by not in (None, error):
            self.blocked_by.remove(self._blocked_by)
        if error is not None:
            self.blocked_by.labels(error).set(1)
        self._blocked_by = error

    def hook_failed(self, stage: str, problem: str) -> None:
        """Counts a call of a recovery hook that went wrong."""
        self.hook_failures.labels(stage, problem).inc()

    def batch_done(self, progress: Progress) -> None:
        """What the last batch took; told again before there is another one, it counts once."""
        if progress.batches not in (0, self._batches):
            self.batch.observe(sum(progress.step_s.values()))
        self._batches = progress.batches

    def line(self, figures: HeadFigures, hung_calls: int) -> None:
        """What waits behind failing events, and handler calls that don't come back."""
        self.heads.set(figures.heads)
        self.behind_heads.set(figures.behind)
        self.longest_line.set(figures.longest)
        self.oldest_head.set(figures.oldest_s)
        self.stuck_share.set(figures.stuck_share)
        self.head_of_line.set(figures.blocked)
        self.hung_calls.set(hung_calls)

    def dead(self, told: Mapping[str, Any]) -> None:
        """What a stream's status says of what is open and dead, and of the index that knows it."""
        self.dead_open.set(told["dead"])
        self.parked.set(told["open"])
        self.unpublished.set(told["unpublished"])
        self.unpublished_s.set(told["unpublished_s"])
        self.index_memory.set(told["index_memory_bytes"])

    def lag(self, catch_up: CatchUp) -> None:
        """What is published of a backlog."""
        told = catch_up.status()
        for name, gauge in self.catch_up.items():
            value = told[name]
            gauge.set(math.nan if value is None else float(value))

    def committed(self, rows: Sequence[JournalRow]) -> None:
        """Counts what one commit decided."""
        now = self._clock.now()
        for (decision, attempt), count in Counted((row.decision.value, row.attempt) for row in rows).items():
            self.decisions.labels(decision, str(min(attempt, ATTEMPT_MAX))).inc(count)
        for outcome, count in Counted(sli.outcomes(rows, now)).items():
            self.answers.labels(outcome).inc(count)
        for row in rows:
            if row.error_class is not None:
                self._failed(row)
            if row.first and row.received_at is not None and row.decision in sli.ANSWERED:
                self.latency.observe(max(0.0, (now - row.received_at).total_seconds()))

    def _failed(self, row: JournalRow) -> None:
        if row.error_class == TIMEOUT_CLASS:
            self.handler_timeouts.inc()
        elif row.error_class == BLOCKED_CLASS and row.decision is Decision.DEAD:
            self.heads_dead.inc()


_DOWNSTREAM_STATES = (CLOSED, HALF_OPEN, OPEN, QUIET)
