"""The conditions: what each is called, when it holds, and what it says; deploy/ has the same ones for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from dlq.alerts.settings import AlertsSettings

SECONDS_AN_HOUR = 3_600.0
SLOW_SHARE_MAX = 0.01
"""Of the claims: the 99th percentile is above an edge when more than this share is."""

SLOW_WINDOWS = 2
"""A burst of slow claims is in the share for one window; a share that stays for two has been fed again since."""

BACKUP_LATE = 1.5
"""A backup that is made by schedule is late when the newest good one is so many times as old as it should ever be."""

Says = Callable[[str, float], str]
"""A sentence of a subject and its value."""


class Severity(StrEnum):
    """How much it matters: a receiver may want the critical ones alone."""

    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Rule:
    """One condition: it holds while a value is above ``threshold``, and fires once it has held for ``for_s``.

    It is over once the value has been at most ``clear_below`` for a while (`AlertsSettings.clear_s`).
    """

    name: str
    severity: Severity
    threshold: float
    clear_below: float
    for_s: float
    says: Says

    @property
    def anchor(self) -> str:
        """Its place in docs/runbook.md."""
        return f"alert-{self.name}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a rule's value is now. ``subject`` is a stream's name, or empty; None: it can't be known now."""

    rule: str
    subject: str
    value: float | None


PROMETHEUS: Mapping[str, str] = {
    "dlq_depth": "PayhookDlqDepth",
    "dlq_age": "PayhookDlqOldest",
    "dlq_escalation": "PayhookDlqEscalation",
    "dlq_publish": "PayhookDlqPublishFailing",
    "not_ready": "PayhookNotReady",
    "refused": "PayhookStreamRefused",
    "lag": "PayhookLagGrowing",
    "retry_rate": "PayhookRetryRate",
    "redis_slow": "PayhookRedisSlow",
    "slo_burn": "PayhookSloBurnFast",
    "backup": "PayhookBackupLate",
    "card_data": "PayhookCardDataKept",
}
"""What the same condition is called in deploy/prometheus."""


def rules(settings: AlertsSettings) -> Mapping[str, Rule]:
    """Every rule by its name, with its thresholds as they are set."""
    share, redis_ms = settings.clear_share, settings.redis_s_max * 1_000
    warning, critical = Severity.WARNING, Severity.CRITICAL

    def amount(name: str, severity: Severity, threshold: float, says: Says, for_s: float = 0.0) -> Rule:
        return Rule(name, severity, threshold, threshold * share, for_s, says)

    def age(name: str, severity: Severity, threshold: float, says: Says, for_s: float = 0.0) -> Rule:
        """Falls by a leap when the old one is gone: needs no distance between firing and being over."""
        return Rule(name, severity, threshold, threshold, for_s, says)

    every = (
        amount(
            "dlq_depth", warning, settings.depth_max, lambda of, n: f"{n:,.0f} dead events of {of} wait for a person"
        ),
        age(
            "dlq_age",
            warning,
            settings.age_h_max * SECONDS_AN_HOUR,
            lambda of, s: f"a dead event of {of} has been open for {_hours(s)}",
        ),
        age(
            "dlq_escalation",
            critical,
            settings.escalate_h * SECONDS_AN_HOUR,
            lambda of, s: f"nobody has closed a dead event of {of} for {_hours(s)}",
        ),
        age(
            "dlq_publish",
            critical,
            settings.unpublished_s_max,
            lambda of, s: f"a dead letter of {of} has waited {s:,.0f} s for its topic; the journal holds it meanwhile",
        ),
        age("not_ready", critical, 0.0, lambda of, _: f"{of} is down, blocked or not ready", settings.not_ready_s_max),
        age("refused", critical, 0.0, lambda of, _: f"{of} decides nothing until a person does: see payhook recover"),
        amount(
            "lag",
            warning,
            settings.lag_max,
            lambda of, n: f"{n:,.0f} events wait for {of} and don't get fewer",
            settings.window_s,
        ),
        amount(
            "retry_rate",
            warning,
            settings.retry_share_max,
            lambda of, x: f"{x:.1%} of the tries of {of} end in a retry",
        ),
        amount(
            "redis_slow",
            warning,
            SLOW_SHARE_MAX,
            lambda _, x: f"{x:.1%} of the claims take more than {redis_ms:g} ms",
            SLOW_WINDOWS * settings.window_s,
        ),
        amount(
            "slo_burn", critical, settings.late_share_max, lambda of, x: f"{x:.2%} of the events of {of} missed the 5 s"
        ),
        age(
            "backup",
            warning,
            BACKUP_LATE,
            lambda _, times: f"the newest good backup is {times:,.1f} times as old as backup.every_h",
        ),
        age(
            "card_data",
            critical,
            0.0,
            lambda _, n: (
                f"{n:,.0f} kept bodies hold card data: run/card-scan.json names their events, "
                "and `payhook ledger redact KEY --reason …` removes a body"
            ),
        ),
    )
    return {rule.name: rule for rule in every}


def _hours(seconds: float) -> str:
    return f"{seconds / SECONDS_AN_HOUR:,.1f} h"
