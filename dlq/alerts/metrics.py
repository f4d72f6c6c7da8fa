"""The alerts' own metrics: what only they know, and whether they still look."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from core.clock import EPOCH, Clock
from dlq.alerts.engine import State
from dlq.alerts.rules import Reading
from dlq.alerts.watch import Watch


class AlertMetrics:
    """One set a process, in a registry of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        self._open = self._gauge("payhook_dlq_open", "Dead events that wait for a person, by the journal", "stream")
        self._oldest = self._gauge(
            "payhook_dlq_oldest_seconds",
            "How long the dead event that died first has been open; 0 if none is",
            "stream",
        )
        self._firing = self._gauge("payhook_alert_firing", "1 while payhook itself sends this alert", "rule", "subject")
        self._fired: set[tuple[str, str]] = set()
        self._unsent = self._gauge(
            "payhook_alert_notices_unsent", "Notices that a receiver didn't take yet", "receiver"
        )
        self._backup = self._gauge(
            "payhook_backup_age_ratio",
            "Age of the newest good backup in times of backup.every_h; 0 where none are made by schedule",
        )
        self._cards = self._gauge(
            "payhook_card_data_bodies",
            "Kept bodies in which the scan of the lake found card data that the masker would hide now",
        )
        self._looked = Gauge(
            "payhook_alerts_looked_timestamp_seconds", "When the alerts last looked", registry=self.registry
        )

    def update(self, watch: Watch) -> None:
        """After each look."""
        self._looked.set((self._clock.now() - EPOCH).total_seconds())
        for reading in watch.last:
            self._read(reading)
        self._fire({(alert.rule, alert.subject) for alert in watch.engine.alerts if alert.state is State.FIRING})
        for name, queue in watch.outbox.queues.items():
            self._unsent.labels(name).set(len(queue.waiting))

    def _fire(self, firing: set[tuple[str, str]]) -> None:
        """What goes on firing is never gone from the page, whenever that is read."""
        for alert in firing:
            self._firing.labels(*alert).set(1)
        for alert in self._fired - firing:
            self._firing.remove(*alert)
        self._fired = firing

    def _read(self, reading: Reading) -> None:
        if reading.rule == "backup":
            self._backup.set(reading.value or 0.0)
            return
        if reading.rule == "card_data":
            self._cards.set(reading.value or 0.0)
            return
        gauge = {"dlq_depth": self._open, "dlq_age": self._oldest}.get(reading.rule)
        if gauge is None:
            return
        if reading.value is None:
            gauge.remove(reading.subject)
        else:
            gauge.labels(reading.subject).set(reading.value)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(name, meaning, labels, registry=self.registry)
