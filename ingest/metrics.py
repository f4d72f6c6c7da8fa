"""The receiver's metrics: every name, type and meaning stands here."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.010, 0.025, 0.050, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Edges stand exactly at 10 ms and 5 s, the bounds of the alerts."""


class IngestMetrics:
    """One set a process, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.answers = Counter(
            "payhook_ingest_answers", "Requests by provider and status", ("provider", "status"), registry=self.registry
        )
        self.events = Counter(
            "payhook_ingest_events",
            "Events by provider and what the claim said",
            ("provider", "outcome"),
            registry=self.registry,
        )
        self.refusals = Counter(
            "payhook_ingest_refusals",
            "Refused requests by provider and reason",
            ("provider", "reason"),
            registry=self.registry,
        )
        self.secrets = Counter(
            "payhook_ingest_secret_matched", "Verified requests by the secret that matched, 0 is the newest",
            ("provider", "index"), registry=self.registry,
        )  # fmt: skip
        self.claim_seconds = Histogram(
            "payhook_redis_claim_seconds", "One claim round trip", buckets=SECONDS_BUCKETS, registry=self.registry
        )
        self.request_seconds = Histogram(
            "payhook_ingest_request_seconds",
            "Head of a request to its answer",
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.publish_seconds = Histogram(
            "payhook_kafka_publish_seconds",
            "One request's events to Kafka's acknowledgement",
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self._children: dict[tuple[str, ...], Counter] = {}
        self._receipts_dropped = Gauge(
            "payhook_ingest_receipts_dropped",
            "Receipts that Kafka didn't take, since the start",
            registry=self.registry,
        )
        self._redis_failures = Gauge(
            "payhook_redis_failures", "Steps that Redis couldn't be asked, since the start", registry=self.registry
        )
        self._redis_refusing = Gauge(
            "payhook_redis_breaker_open", "1 while Redis isn't even asked", registry=self.registry
        )

    def answered(self, provider: str, status: int, seconds: float) -> None:
        """One request, whatever became of it."""
        self._one("answers", self.answers, provider, str(status)).inc()
        self.request_seconds.observe(seconds)

    def refused(self, provider: str, reason: str) -> None:
        self._one("refusals", self.refusals, provider, reason).inc()

    def verified(self, provider: str, index: int) -> None:
        self._one("secrets", self.secrets, provider, str(index)).inc()

    def took(self, provider: str, outcome: str) -> None:
        """One event of a verified request."""
        self._one("events", self.events, provider, outcome).inc()

    def _one(self, name: str, metric: Counter, *labels: str) -> Counter:
        """`labels` locks and builds; each set of labels here is one of few, so it is asked for once."""
        child = self._children.get((name, *labels))
        if child is None:
            child = self._children[(name, *labels)] = metric.labels(*labels)
        return child

    def read_from(
        self, dropped: Callable[[], float], failures: Callable[[], float], refusing: Callable[[], float]
    ) -> None:
        """Asks these whenever the metrics are read."""
        self._receipts_dropped.set_function(dropped)
        self._redis_failures.set_function(failures)
        self._redis_refusing.set_function(refusing)
