"""The receiver's metrics: every name, type and meaning stands here."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from ingest.tally import Counts, Times

SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.010, 0.025, 0.050, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Edges stand exactly at 10 ms and 5 s, the bounds of the alerts."""


class IngestMetrics:
    """One set a process, in a registry of its own."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._answers = Counts(
            "payhook_ingest_answers", "Requests by provider and status", ("provider", "status"), registry
        )
        self._events = Counts(
            "payhook_ingest_events", "Events by provider and what the claim said", ("provider", "outcome"), registry
        )
        self._refusals = Counts(
            "payhook_ingest_refusals", "Refused requests by provider and reason", ("provider", "reason"), registry
        )
        self._secrets = Counts(
            "payhook_ingest_secret_matched",
            "Verified requests by the secret that matched, 0 is the newest",
            ("provider", "index"),
            registry,
        )
        self.claim_seconds = Times("payhook_redis_claim_seconds", "One claim round trip", SECONDS_BUCKETS, registry)
        self.request_seconds = Times(
            "payhook_ingest_request_seconds", "Head of a request to its answer", SECONDS_BUCKETS, registry
        )
        self.publish_seconds = Times(
            "payhook_kafka_publish_seconds",
            "One request's events to Kafka's acknowledgement",
            SECONDS_BUCKETS,
            registry,
        )

    def answered(self, provider: str, status: int, seconds: float) -> None:
        """One request, whatever became of it."""
        self._answers.add(provider, str(status))
        self.request_seconds.observe(seconds)

    def refused(self, provider: str, reason: str) -> None:
        self._refusals.add(provider, reason)

    def unread(self, reason: str, status: int) -> None:
        """A request that was refused as HTTP, before anybody knew whose it is."""
        self.refused("unknown", reason)
        self._answers.add("unknown", str(status))

    def verified(self, provider: str, index: int) -> None:
        self._secrets.add(provider, str(index))

    def took(self, provider: str, outcome: str) -> None:
        """One event of a verified request."""
        self._events.add(provider, outcome)

    def read_from(self, gauges: dict[str, tuple[str, Callable[[], float]]]) -> None:
        """Gauges by name, each with its meaning and whom to ask whenever the metrics are read."""
        for name, (meaning, ask) in gauges.items():
            Gauge(name, meaning, registry=self.registry).set_function(ask)
