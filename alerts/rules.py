"""The table of conditions: what each is called, when it holds, and what it says, here and in Prometheus.

`make_rules` are those that payhook looks at by itself; `alerts.prometheus` writes all of them as Prometheus' rules.
docs/alerts.md, "Add an alert", shows each file that a new one needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from alerts.settings import AlertsSettings

HOUR_S = 3_600.0
CLEAR_SHARE = 0.8
"""An alert on an amount is over below this part of its threshold: 80 of 100 dead events."""

UNPUBLISHED_S_MAX = 60.0
NOT_READY_S_MAX = 120.0
CATCH_UP_S_MAX = 900.0
"""Three rounds of catch-up that came to nothing."""
DOWN_S_MAX = 300.0
FAILING_S_MAX = 900.0
"""A subscriber may be deployed meanwhile: what fails for so long doesn't recover by itself."""

WINDOW_S = 300.0
"""Shares are taken over so long."""

COUNTED_MIN = 100
"""Fewer tries in the window, or events in an hour, make no share."""

SLOW_MIN = 5
"""Fewer slow claims in the window make no share: of 100, a single one is 1 %. One a minute is enough."""

SLOW_S = 0.010
"""A claim that takes longer is slow. It is an edge of the histogram, so that both sides can be counted."""

SLOW_SHARE_MAX = 0.01
"""A share of the claims: the 99th percentile is above an edge when more than this share is."""

SLOW_WINDOWS = 2
"""A burst of slow claims is in the share for one window; a share that stays for two has been fed again since."""

ALLOWED_SHARE = 0.001
"""The share of events that may miss the 5 s: 99.9 % are promised."""

BURN_FAST, BURN_SLOW = 14.4, 6
"""Times what is allowed: the first uses a month's up in two days, the second in five."""

BACKUP_LATE = 1.5
"""A backup that is made by schedule is late when the newest good one is so many times as old as it should ever be."""

DISK_USED_MAX = 0.9
MEMORY_USED_MAX = 0.9

MAINTENANCE_LATE = 2.0
VERIFICATION_LATE = 2.0
"""Maintenance is overdue when the last round that was done is so many times as old as it should ever be."""

SIGNATURES_SHARE_MAX = 0.05
SIGNATURES_MIN = 10
"""Fewer refused requests of a provider in the window are somebody who tries the address."""
NOT_THERE_SHARE_MAX = 0.05


OTHER_GROUP = "processes"
REPEAT_S = 4 * 3_600.0
DAY_S = 24 * 3_600.0


class Severity(StrEnum):
    """The weight of an alert: a receiver may want the critical ones alone."""

    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Unit:
    """Shows a value to people: by ``shown`` here, by a filter in Prometheus."""

    shown: Callable[[float], str]
    filter: str = "humanize"


AMOUNT = Unit(lambda n: f"{n:,.0f}")
TIMES = Unit(lambda n: f"{n:,.1f}")
SHARE = Unit(lambda share: f"{share:.2%}", "humanizePercentage")
DURATION = Unit(lambda s: f"{s / HOUR_S:,.1f} h" if s >= HOUR_S else f"{s:,.0f} s", "humanizeDuration")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A condition: it holds while a value is above ``threshold``, and fires once it has held for ``for_s``.

    It is over once the value has been at most ``clear_share`` of that for a while (`alerts.engine.CLEAR_S`). While
    it lasts it is sent again every ``repeat_s``.
    ``text``: what it says, of ``{of}`` and ``{value}``. ``counts_events``: its value is a number of events.

    ``gauge``: the metric of the alerts' process that shows its readings, by ``label`` the subject's name, if it has
    one. Prometheus calls the rule ``alert``, in ``group``, and has it where ``expr`` (the gauge, if it is empty) is
    above the threshold and ``also`` holds. ``text_there``: what it says there, where that isn't ``text``; ``comment``:
    for who reads the file.
    """

    name: str
    severity: Severity
    threshold: float
    clear_share: float = 1.0
    text: str
    unit: Unit = AMOUNT
    for_s: float = 0.0
    repeat_s: float = REPEAT_S
    counts_events: bool = False
    alert: str
    gauge: str = ""
    expr: str = ""
    also: str = ""
    text_there: str = ""
    label: str = "stream"
    group: str = OTHER_GROUP
    comment: str = ""

    @property
    def condition(self) -> str:
        if self.expr:
            return self.expr
        return f"max by ({self.label}) ({self.gauge})" if self.label else f"max({self.gauge})"

    @property
    def anchor(self) -> str:
        return f"alert-{self.name}"

    @property
    def clear_below(self) -> float:
        return self.threshold * self.clear_share

    def format_text(self, subject: str, value: float) -> str:
        return self.text.format(of=subject, value=self.unit.shown(value))


def sum_by_stream(expr: str) -> str:
    by_whole = f'sum by (whole) (label_replace({expr}, "whole", "$1", "stream", "([^.]+).*"))'
    return f'sum by (stream) (label_replace({by_whole}, "stream", "$1", "whole", "(.+)"))'


@dataclass(frozen=True, slots=True)
class AlertReading:
    """A rule's value now. ``subject`` is a stream's name, or empty; ``value`` None: it can't be known now. ``note``:
    what a notice adds to the rule's text. ``cause``: why it is so, as far as that was seen."""

    rule: str
    subject: str
    value: float | None
    note: str = ""
    cause: str = ""


def make_rules(settings: AlertsSettings) -> Mapping[str, AlertRule]:
    late = BURN_FAST * ALLOWED_SHARE
    every = (
        AlertRule(
            name="dlq_depth",
            severity=Severity.WARNING,
            threshold=settings.depth_max,
            clear_share=CLEAR_SHARE,
            text="{value} dead events of {of} need an operator",
            counts_events=True,
            alert="PayhookDlqDepth",
            group="dlq",
            expr=sum_by_stream("stream:payhook_dlq_depth:max"),
            comment="Of all shards together: who looks at dead events has as many to look at.",
        ),
        # An age falls by a leap when the old one is gone: it needs no distance between firing and being over.
        AlertRule(
            name="dlq_age",
            severity=Severity.WARNING,
            threshold=settings.age_h_max * HOUR_S,
            text="a dead event of {of} has been open for {value}",
            unit=DURATION,
            alert="PayhookDlqOldest",
            group="dlq",
            gauge="payhook_dlq_oldest_seconds",
        ),
        AlertRule(
            name="dlq_escalation",
            severity=Severity.CRITICAL,
            threshold=settings.escalate_h * HOUR_S,
            text="a dead event of {of} has not been closed for {value}",
            unit=DURATION,
            alert="PayhookDlqEscalation",
            group="dlq",
            gauge="payhook_dlq_oldest_seconds",
        ),
        AlertRule(
            name="dlq_publish",
            severity=Severity.CRITICAL,
            threshold=UNPUBLISHED_S_MAX,
            text="a dead letter of {of} has waited {value} for its topic; the journal holds it meanwhile",
            unit=DURATION,
            alert="PayhookDlqPublishFailing",
            group="dlq",
            expr="max by (stream) (payhook_dlq_unpublished_seconds)",
        ),
        AlertRule(
            name="not_ready",
            severity=Severity.CRITICAL,
            threshold=0.0,
            text="{of} is down, blocked or not ready",
            for_s=NOT_READY_S_MAX,
            alert="PayhookNotReady",
            expr="1 - payhook_process_up",
            label="process",
            text_there="{of} does not answer",
        ),
        AlertRule(
            name="refused",
            severity=Severity.CRITICAL,
            threshold=0.0,
            text="{of} is stopped and needs an operator: run payhook status",
            alert="PayhookStreamRefused",
            expr="max by (stream) (payhook_stream_refused)",
        ),
        AlertRule(
            name="breaker_open",
            severity=Severity.WARNING,
            threshold=DOWN_S_MAX,
            text="calls to {of} have been held back for {value}; its events wait",
            unit=DURATION,
            alert="PayhookBreakerOpen",
            expr="max by (stream, downstream) (payhook_downstream_down_seconds)",
            label="downstream",
        ),
        AlertRule(
            name="subscriber_failing",
            severity=Severity.WARNING,
            threshold=FAILING_S_MAX,
            text="{of} has accepted nothing for {value}",
            unit=DURATION,
            alert="PayhookSubscriberFailing",
            expr='max by (stream, downstream) (payhook_downstream_failing_seconds{downstream=~"subscriber:.+"})',
            label="downstream",
        ),
        AlertRule(
            name="lag",
            severity=Severity.WARNING,
            threshold=settings.lag_max,
            clear_share=CLEAR_SHARE,
            text="{value} events wait for {of}, and the backlog is not shrinking",
            for_s=WINDOW_S,
            counts_events=True,
            alert="PayhookLagGrowing",
            group="slo",
            expr=sum_by_stream(
                "max by (stream) (payhook_lag_events)"
                " and on (stream) max by (stream) (delta(payhook_lag_events[5m])) >= 0"
            ),
            comment="Of all shards together, but for those whose backlog shrinks.",
        ),
        AlertRule(
            name="head_of_line",
            severity=Severity.WARNING,
            threshold=0.0,
            text="a few failing events hold back most others of {of}",
            for_s=60.0,
            alert="PayhookHeadOfLine",
            expr="max by (stream) (payhook_head_of_line)",
        ),
        AlertRule(
            name="retry_rate",
            severity=Severity.WARNING,
            threshold=settings.retry_share_max,
            clear_share=CLEAR_SHARE,
            text="{value} of the tries of {of} end in a retry",
            unit=SHARE,
            alert="PayhookRetryRate",
            group="slo",
            expr="stream:payhook_retries:ratio_rate5m",
            also=f"on (stream) stream:payhook_tries:rate5m * {WINDOW_S:g} >= {COUNTED_MIN}",
        ),
        AlertRule(
            name="redis_slow",
            severity=Severity.WARNING,
            threshold=SLOW_SHARE_MAX,
            clear_share=CLEAR_SHARE,
            text=f"{{value}} of the claims take more than {SLOW_S * 1_000:g} ms",
            unit=SHARE,
            for_s=SLOW_WINDOWS * WINDOW_S,
            alert="PayhookRedisSlow",
            expr="payhook_redis_slow_claims:ratio_rate5m",
            also="sum(increase(payhook_redis_claim_seconds_count[5m]))"
            f' - sum(increase(payhook_redis_claim_seconds_bucket{{le="{SLOW_S:g}"}}[5m])) > {SLOW_MIN - 1}',
            comment="At a few claims a minute too. Twice the window: a burst of slow claims is in the share for 5"
            " minutes, whatever comes after.",
        ),
        AlertRule(
            name="slo_burn",
            severity=Severity.CRITICAL,
            threshold=late,
            clear_share=CLEAR_SHARE,
            text="{value} of the events of {of} missed the 5 s target in the last hour",
            unit=SHARE,
            alert="PayhookSloBurnFast",
            group="slo",
            expr="stream:payhook_sli_missed:ratio_rate1h",
            also=f"on (stream) stream:payhook_sli_missed:ratio_rate5m > {late:g}"
            f" and on (stream) stream:payhook_sli_counted:increase1h >= {COUNTED_MIN}",
            comment="14.4 times what is allowed uses a month's budget up in two days; both windows, so that it ends"
            " when it is over. Of few events one is a large share.",
        ),
        AlertRule(
            name="unknown",
            severity=Severity.WARNING,
            threshold=0.0,
            text="{value} events are unknown ({of}): no table says what they mean for money",
            for_s=WINDOW_S,
            repeat_s=DAY_S,
            counts_events=True,
            alert="PayhookUnknownEvents",
            gauge="payhook_unknown_events",
            label="what",
            comment="What undoes a movement may come some minutes before it.",
        ),
        *_make_provider_rules(),
        AlertRule(
            name="backup",
            severity=Severity.WARNING,
            threshold=BACKUP_LATE,
            text="the newest valid backup is {value} times as old as backup.every_h",
            unit=TIMES,
            alert="PayhookBackupLate",
            gauge="payhook_backup_age_ratio",
            label="",
        ),
        *_make_machine_rules(),
    )
    return {rule.name: rule for rule in every}


def _make_provider_rules() -> tuple[AlertRule, ...]:
    return (
        AlertRule(
            name="quiet",
            severity=Severity.WARNING,
            threshold=0.0,
            text="{of} sends less than it ever did at this hour of the week",
            alert="PayhookEndpointQuiet",
            gauge="payhook_endpoint_quiet",
            label="endpoint",
        ),
        AlertRule(
            name="switched_off",
            severity=Severity.CRITICAL,
            threshold=0.0,
            text="{of} says that it sends no webhooks: our endpoint is switched off there",
            alert="PayhookEndpointSwitchedOff",
            gauge="payhook_endpoint_switched_off",
            label="source",
        ),
        AlertRule(
            name="caught_up",
            severity=Severity.WARNING,
            threshold=0.0,
            text="{value} events of {of} came from its API within the last day: no webhook delivered them",
            repeat_s=DAY_S,
            alert="PayhookWebhooksLost",
            gauge="payhook_caught_up_events",
            label="source",
        ),
        AlertRule(
            name="catch_up",
            severity=Severity.WARNING,
            threshold=CATCH_UP_S_MAX,
            text="the list of events of {of} has not been read to its end for {value}",
            unit=DURATION,
            alert="PayhookCatchUpFailing",
            gauge="payhook_catch_up_failing_seconds",
            label="source",
        ),
    )


def _make_machine_rules() -> tuple[AlertRule, ...]:
    return (
        AlertRule(
            name="disk",
            severity=Severity.CRITICAL,
            threshold=DISK_USED_MAX,
            clear_share=0.95,
            text="{value} of the disk of the {of} is used",
            unit=SHARE,
            alert="PayhookDiskFull",
            gauge="payhook_disk_used_ratio",
            label="place",
        ),
        AlertRule(
            name="memory",
            severity=Severity.WARNING,
            threshold=MEMORY_USED_MAX,
            clear_share=0.95,
            text="{value} of the memory of a machine or a container is used",
            unit=SHARE,
            for_s=WINDOW_S,
            alert="PayhookMemoryFull",
            expr="max(payhook_memory_used_ratio)",
        ),
        AlertRule(
            name="verify",
            severity=Severity.CRITICAL,
            threshold=0.0,
            text="payhook verify found {value} invariants of {of} that do not hold",
            alert="PayhookVerifyFailed",
            gauge="payhook_verify_broken",
        ),
        AlertRule(
            name="verification",
            severity=Severity.WARNING,
            threshold=VERIFICATION_LATE,
            text="the last complete verification is {value} times as old as ledger.verify.every_h",
            unit=TIMES,
            alert="PayhookVerificationOverdue",
            gauge="payhook_verification_age_ratio",
            label="",
        ),
        AlertRule(
            name="maintenance",
            severity=Severity.WARNING,
            threshold=MAINTENANCE_LATE,
            text="the last complete maintenance is {value} times as old as ledger.maintain.every_s",
            unit=TIMES,
            alert="PayhookMaintenanceOverdue",
            gauge="payhook_maintenance_age_ratio",
            label="",
        ),
        AlertRule(
            name="signatures",
            severity=Severity.WARNING,
            threshold=SIGNATURES_SHARE_MAX,
            clear_share=CLEAR_SHARE,
            text="{value} of the requests of {of} have no valid signature",
            unit=SHARE,
            alert="PayhookSignaturesRefused",
            expr="provider:payhook_signatures_refused:ratio_rate5m",
            also=f"on (provider) provider:payhook_signatures_refused:increase5m >= {SIGNATURES_MIN}",
            label="provider",
        ),
        AlertRule(
            name="not_there",
            severity=Severity.WARNING,
            threshold=NOT_THERE_SHARE_MAX,
            clear_share=CLEAR_SHARE,
            text="{value} of the requests of {of} name what its own API does not know",
            unit=SHARE,
            alert="PayhookNotThere",
            expr="provider:payhook_not_there:ratio_rate5m",
            also=f"on (provider) provider:payhook_not_there:increase5m >= {SIGNATURES_MIN}",
            label="provider",
        ),
        AlertRule(
            name="isr",
            severity=Severity.WARNING,
            threshold=0.0,
            text="{value} partitions have a replica that is not in sync",
            for_s=NOT_READY_S_MAX,
            alert="PayhookReplicasOutOfSync",
            gauge="payhook_kafka_partitions_out_of_sync",
            label="",
        ),
        AlertRule(
            name="min_isr",
            severity=Severity.CRITICAL,
            threshold=0.0,
            text="Kafka accepts no writes to {value} partitions: too few replicas are in sync",
            alert="PayhookUnderMinIsr",
            gauge="payhook_kafka_partitions_under_min_isr",
            label="",
        ),
    )
