"""The processor's metrics: every name, type and meaning stands here."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from core.clock import Clock
from core.decision import Decision
from journal.schema import JournalRow

LATENCY_BUCKETS_S = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 30.0, 60.0)
"""An edge stands exactly at 5 s, the SLO's bound."""


class ProcessorMetrics:
    """One set a process, in a registry of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        self.decisions = Counter(
            "payhook_decisions",
            "Journal rows by decision and retry number",
            ("decision", "attempt"),
            registry=self.registry,
        )
        self.latency = Histogram(
            "payhook_processing_seconds",
            "Receipt of an event to the commit of its first decision, parked ones left out",
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.batch = Histogram("payhook_batch_seconds", "One batch, all six steps", registry=self.registry)
        self.dead_open = Gauge("payhook_dlq_depth", "Dead events that wait for a person", registry=self.registry)
        self.parked = Gauge("payhook_open_events", "Events that are open: waiting or dead", registry=self.registry)
        self.blocked = Gauge("payhook_stream_blocked", "1 while the whole stream is blocked", registry=self.registry)

    def committed(self, rows: Sequence[JournalRow]) -> None:
        """Counts what one commit decided."""
        now = self._clock.now()
        for row in rows:
            self.decisions.labels(row.decision.value, str(row.attempt)).inc()
            if row.first and row.received_at is not None and row.decision in _ANSWERED:
                self.latency.observe(max(0.0, (now - row.received_at).total_seconds()))


_ANSWERED = frozenset({Decision.APPLIED, Decision.IGNORED, Decision.DUPLICATE, Decision.DUPLICATE_FACT})
