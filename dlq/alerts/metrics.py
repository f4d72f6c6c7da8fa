"""The alerts' own metrics: what only they know, and whether they still look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry

from core.clock import EPOCH, Clock
from core.metrics import CATALOGUE, Kind, Service, add_process, entries, gauge
from dlq.alerts.engine import State
from dlq.alerts.rules import Reading
from dlq.alerts.watch import Watch

OF_RULE: Final[Mapping[str, str]] = {
    "dlq_age": "payhook_dlq_oldest_seconds",
    "backup": "payhook_backup_age_ratio",
    "card_data": "payhook_card_data_bodies",
    "disk": "payhook_disk_used_ratio",
    "verify": "payhook_verify_broken",
    "maintenance": "payhook_maintenance_age_ratio",
    "isr": "payhook_kafka_partitions_out_of_sync",
    "min_isr": "payhook_kafka_partitions_under_min_isr",
}
"""The gauge that shows a rule's readings; one with a label has the subject there."""


class AlertMetrics:
    """One set a process, in a registry of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        self._gauges = {entry.name: gauge(entry.name, self.registry) for entry in entries(Service.ALERTS, Kind.GAUGE)}
        self._fired: set[tuple[str, str]] = set()
        add_process(self.registry)

    def update(self, watch: Watch) -> None:
        """After each look."""
        self._gauges["payhook_alerts_looked_timestamp_seconds"].set((self._clock.now() - EPOCH).total_seconds())
        for reading in watch.last:
            self._read(reading)
        for stream, dead in watch.seen.dead.items():
            if dead is None:
                self._gauges["payhook_dlq_open"].remove(stream)
            else:
                self._gauges["payhook_dlq_open"].labels(stream).set(dead.depth)
        self._fire({(alert.rule, alert.subject) for alert in watch.engine.alerts if alert.state is State.FIRING})
        for name, queue in watch.outbox.queues.items():
            self._gauges["payhook_alert_notices_unsent"].labels(name).set(len(queue.waiting))

    def _fire(self, firing: set[tuple[str, str]]) -> None:
        """What goes on firing is never gone from the page, whenever that is read."""
        shown = self._gauges["payhook_alert_firing"]
        for alert in firing:
            shown.labels(*alert).set(1)
        for alert in self._fired - firing:
            shown.remove(*alert)
        self._fired = firing

    def _read(self, reading: Reading) -> None:
        name = OF_RULE.get(reading.rule)
        if name is None:
            return
        if not CATALOGUE[name].labels:
            self._gauges[name].set(reading.value or 0.0)
        elif reading.value is None:
            self._gauges[name].remove(reading.subject)
        else:
            self._gauges[name].labels(reading.subject).set(reading.value)
