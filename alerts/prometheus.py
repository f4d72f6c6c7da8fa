"""Writes Prometheus' rules from the table in `alerts.rules`: ``python -m alerts.prometheus`` (`make docs`).

Beside the conditions that payhook looks at by itself there are some that only Prometheus can see.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from alerts.rules import (
    ALLOWED_SHARE,
    AMOUNT,
    BURN_SLOW,
    COUNTED_MIN,
    DURATION,
    NOT_READY_S_MAX,
    OTHER_GROUP,
    SHARE,
    SLOW_S,
    AlertRule,
    Severity,
    Unit,
    make_rules,
)
from alerts.settings import AlertsSettings

HEAD = """\
# Written by `make docs` from alerts/rules.py and alerts/prometheus.py: change those.
groups:
"""
COUNTED = 'payhook_sli_events_total{outcome=~"in_time|late|failed|unknown"}'
BAD_SIGNATURE = 'payhook_ingest_refusals_total{reason=~"signature_.+"}'
MISSED = 'payhook_sli_events_total{outcome=~"late|failed|unknown"}'


@dataclass(frozen=True, slots=True)
class RecordingRule:
    name: str
    expr: str
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertingRule:
    """An alerting rule. ``anchor``: its place in the runbook; ``escalates``: it goes to everyone."""

    group: str = OTHER_GROUP
    alert: str
    expr: str
    severity: Severity
    summary: str
    anchor: str
    for_s: float = 0.0
    escalates: bool = False
    comment: str = ""


def _build_ratio(some: str, every: str, by: str, window: str) -> str:
    """Divides two rates; ``> 0`` leaves out what has no traffic: 0 / 0 is NaN, which no comparison meets and every plot
    breaks at."""
    return f"{by}(rate({some}[{window}])) / ({by}(rate({every}[{window}])) > 0)"


RECORDED = (
    *(
        RecordingRule(
            f"stream:payhook_sli_missed:ratio_rate{window}", _build_ratio(MISSED, COUNTED, "sum by (stream) ", window)
        )
        for window in ("5m", "30m", "1h", "6h")
    ),
    RecordingRule("stream:payhook_sli_counted:increase1h", f"sum by (stream) (increase({COUNTED}[1h]))"),
    RecordingRule(
        "stream:payhook_processing_seconds:p99_rate5m",
        "histogram_quantile(0.99, sum by (stream, le) (rate(payhook_processing_seconds_bucket[5m])))",
    ),
    RecordingRule(
        "stream:payhook_processing_within_5s:ratio_rate5m",
        _build_ratio(
            'payhook_processing_seconds_bucket{le="5.0"}', "payhook_processing_seconds_count", "sum by (stream) ", "5m"
        ),
    ),
    RecordingRule(
        "stream:payhook_tries:rate5m",
        'sum by (stream) (rate(payhook_decisions_total{decision=~"applied|ignored|unknown|retry|dead"}[5m]))',
    ),
    RecordingRule(
        "stream:payhook_retries:ratio_rate5m",
        'sum by (stream) (rate(payhook_decisions_total{decision="retry"}[5m])) / (stream:payhook_tries:rate5m > 0)',
    ),
    RecordingRule(
        "payhook_redis_slow_claims:ratio_rate5m",
        "1 - "
        + _build_ratio(
            f'payhook_redis_claim_seconds_bucket{{le="{SLOW_S:g}"}}', "payhook_redis_claim_seconds_count", "sum", "5m"
        ),
    ),
    RecordingRule(
        "payhook_idempotency_hits:ratio_rate5m",
        _build_ratio('payhook_ingest_events_total{outcome="duplicate"}', "payhook_ingest_events_total", "sum", "5m"),
    ),
    RecordingRule(
        "provider:payhook_signatures_refused:ratio_rate5m",
        _build_ratio(BAD_SIGNATURE, "payhook_ingest_answers_total", "sum by (provider) ", "5m"),
    ),
    RecordingRule(
        "provider:payhook_signatures_refused:increase5m", f"sum by (provider) (increase({BAD_SIGNATURE}[5m]))"
    ),
    RecordingRule(
        "provider:payhook_not_there:ratio_rate5m",
        _build_ratio("payhook_ingest_not_there_total", "payhook_ingest_answers_total", "sum by (provider) ", "5m"),
    ),
    RecordingRule(
        "provider:payhook_not_there:increase5m", "sum by (provider) (increase(payhook_ingest_not_there_total[5m]))"
    ),
    RecordingRule(
        "stream:payhook_dlq_depth:max",
        "max by (stream) (payhook_dlq_depth) or max by (stream) (payhook_dlq_open)",
        "The processor's own word while it speaks, else what the alerts' process counts in the journal.",
    ),
)
_SLOW_SHARE = f"{BURN_SLOW * ALLOWED_SHARE:g}"
_STREAM = "{{ $labels.stream }}"

ONLY_HERE = (
    AlertingRule(
        group="dlq",
        alert="PayhookDlqDepthUnknown",
        expr="absent(payhook_dlq_depth) and absent(payhook_dlq_open)",
        for_s=300,
        severity=Severity.CRITICAL,
        summary="the number of dead events is not known",
        anchor="dlq_depth_unknown",
    ),
    AlertingRule(
        alert="PayhookDown",
        expr='up{job="payhook"} == 0 or absent(up{job="payhook"})',
        for_s=NOT_READY_S_MAX,
        severity=Severity.CRITICAL,
        summary="the management listener does not answer",
        anchor="down",
    ),
    AlertingRule(
        alert="PayhookStreamBlocked",
        expr="max by (stream) (payhook_stream_blocked) == 1",
        for_s=NOT_READY_S_MAX,
        severity=Severity.CRITICAL,
        summary=f"the whole stream {_STREAM} is blocked",
        anchor="not_ready",
    ),
    AlertingRule(
        alert="PayhookRedisDown",
        expr="max(payhook_redis_breaker_open) == 1",
        for_s=60,
        severity=Severity.CRITICAL,
        summary="Redis is skipped; events continue as deferred",
        anchor="redis_down",
    ),
    AlertingRule(
        alert="PayhookAlertsSilent",
        expr="time() - max(payhook_alerts_looked_timestamp_seconds) > 120",
        severity=Severity.WARNING,
        summary="payhook's own alerts have not run for {{ $value | humanizeDuration }}",
        anchor="alerts_silent",
    ),
    AlertingRule(
        alert="PayhookNoticesUnsent",
        expr="max by (receiver) (payhook_alert_notices_unsent) > 0",
        for_s=900,
        severity=Severity.WARNING,
        summary="receiver {{ $labels.receiver }} does not accept its notices",
        anchor="notices_unsent",
    ),
    AlertingRule(
        group="slo",
        alert="PayhookSloBurnSlow",
        expr=f"stream:payhook_sli_missed:ratio_rate6h > {_SLOW_SHARE}"
        f" and on (stream) stream:payhook_sli_missed:ratio_rate30m > {_SLOW_SHARE}"
        f" and on (stream) stream:payhook_sli_counted:increase1h >= {COUNTED_MIN}",
        for_s=900,
        severity=Severity.WARNING,
        summary=f"{{{{ $value | {SHARE.filter} }}}} of the events of {_STREAM} missed the 5 s target in six hours",
        anchor="slo_burn",
    ),
    AlertingRule(
        group="slo",
        alert="PayhookP99",
        expr="stream:payhook_processing_seconds:p99_rate5m > 5",
        for_s=300,
        severity=Severity.WARNING,
        summary=f"P99 of {_STREAM} is {{{{ $value | {DURATION.filter} }}}}",
        anchor="p99",
    ),
    AlertingRule(
        group="slo",
        alert="PayhookNothingCompletes",
        expr="max by (stream) (payhook_lag_events) > 0"
        " and on (stream) sum by (stream) (rate(payhook_decisions_total[5m])) == 0",
        for_s=300,
        severity=Severity.CRITICAL,
        summary=f"{{{{ $value | {AMOUNT.filter} }}}} events wait for {_STREAM}, and none is decided",
        anchor="nothing_completes",
        comment="P99 is NaN when nothing completes, and NaN is above nothing: a standstill needs a rule of its own.",
    ),
)


def file_of(settings: AlertsSettings) -> str:
    alerts = sorted([*map(build_alerting, make_rules(settings).values()), *ONLY_HERE], key=lambda alert: alert.group)
    lines = [
        "  - name: payhook-recording",
        "    rules:",
        *(line for rule in RECORDED for line in _write_recorded(rule)),
    ]
    for group, of_it in groupby(alerts, key=lambda alert: alert.group):
        lines += ["", f"  - name: payhook-{group}", "    rules:", *_write_alerts(of_it)]
    return HEAD + "\n".join(lines) + "\n"


def build_alerting(rule: AlertRule) -> AlertingRule:
    also = f" and {rule.also}" if rule.also else ""
    return AlertingRule(
        group=rule.group,
        alert=rule.alert,
        expr=f"{rule.condition} > {rule.threshold:g}{also}",
        for_s=rule.for_s,
        severity=rule.severity,
        summary=_write_summary(rule.text_there or rule.text, rule.label, rule.unit),
        anchor=rule.name,
        escalates=rule.name == "dlq_escalation",
        comment=rule.comment,
    )


def _write_summary(text: str, label: str, unit: Unit) -> str:
    return text.format(of=f"{{{{ $labels.{label} }}}}", value=f"{{{{ $value | {unit.filter} }}}}")


def _write_recorded(rule: RecordingRule) -> Iterator[str]:
    yield from _write_comment(rule.comment)
    yield f"      - record: {rule.name}"
    yield f"        expr: {_quote_yaml(rule.expr)}"


def _write_alerts(some: Iterable[AlertingRule]) -> Iterator[str]:
    for alert in some:
        yield from _write_comment(alert.comment)
        yield f"      - alert: {alert.alert}"
        yield f"        expr: {_quote_yaml(alert.expr)}"
        if alert.for_s:
            yield f"        for: {alert.for_s / 60:g}m"
        escalation = ', escalation: "true"' if alert.escalates else ""
        yield f"        labels: {{severity: {alert.severity.value}{escalation}}}"
        yield "        annotations:"
        yield f"          summary: {_quote_yaml(alert.summary)}"
        yield f"          runbook: docs/runbook.md#alert-{alert.anchor}"


def _write_comment(text: str) -> Iterator[str]:
    return (f"      # {line}" for line in textwrap.wrap(text, 110))


def _quote_yaml(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


if __name__ == "__main__":
    sys.stdout.write(file_of(AlertsSettings()))
