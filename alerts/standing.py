"""Shows what fires now, and whether the alerts' process still looks: read from what that process remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from alerts.describe import page_of_alert
from alerts.engine import RUNBOOK, AlertState
from alerts.rules import Severity, make_rules
from alerts.settings import AlertsSettings
from alerts.watch import RememberedAlerts, read_state
from core.clock import Clock

LOOKS_MISSED_MAX = 4
"""After so many evaluations that are missing, and at least `STALE_S`, the alerts' process isn't running."""
STALE_S = 60.0


@dataclass(frozen=True, slots=True)
class FiringAlert:
    """A firing alert. ``id`` stays the same for as long as it fires; ``unknown``: its value can't be seen now.

    ``cause``, ``count`` and ``amounts`` (by currency, in minor units) are those of its last notice. ``page``: the path
    of the page that shows more.
    """

    id: str
    rule: str
    subject: str
    severity: Severity
    since: datetime
    value: float
    threshold: float
    text: str
    unknown: bool
    cause: str
    count: int | None
    amounts: Mapping[str, int]
    page: str
    runbook: str


@dataclass(frozen=True, slots=True)
class AlertsStanding:
    """The alerts that fire. ``looks``: the alerts' process has looked lately; else ``firing`` is as of ``looked_at``.
    ``is_off``: the settings ask for no look. Critical alerts come first, then the oldest."""

    looks: bool = False
    looked_at: datetime | None = None
    is_off: bool = False
    firing: tuple[FiringAlert, ...] = field(default=())


def read_standing(file: Path, settings: AlertsSettings, clock: Clock) -> AlertsStanding:
    """Reads `run/alerts.json`; empty if it isn't there or can't be read."""
    known, every = read_state(file), make_rules(settings)
    firing = [
        FiringAlert(
            id=alert.name,
            rule=alert.rule,
            subject=alert.subject,
            severity=every[alert.rule].severity,
            since=alert.since,
            value=alert.value,
            threshold=every[alert.rule].threshold,
            text=alert.text,
            unknown=alert.unknown,
            cause=alert.cause,
            count=alert.count,
            amounts=alert.amounts,
            page=page_of_alert(alert.rule, alert.subject),
            runbook=f"{RUNBOOK}#{every[alert.rule].anchor}",
        )
        for alert in known.alerts
        if alert.state is AlertState.FIRING and alert.rule in every
    ]
    firing.sort(key=lambda alert: (alert.severity is not Severity.CRITICAL, alert.since))
    return AlertsStanding(is_looking(settings, known, clock), known.at, not settings.every_s, tuple(firing))


def is_looking(settings: AlertsSettings, known: RememberedAlerts, clock: Clock) -> bool:
    if known.at is None:
        return False
    return (clock.now() - known.at).total_seconds() <= max(STALE_S, LOOKS_MISSED_MAX * settings.every_s)
