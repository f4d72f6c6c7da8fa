"""Turns readings into notices: fires once, repeats at an interval, recovers once, and doesn't flap."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from alerts.rules import AlertReading, AlertRule, Severity
from core.clock import from_rfc3339, to_rfc3339

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RUNBOOK = "docs/runbook.md"
"""Each alert has an entry there (`AlertRule.anchor`)."""
CLEAR_S = 120.0
"""An alert is over once its condition has been away for so long: no flapping."""


class NoticeKind(StrEnum):
    FIRING = "firing"
    REPEAT = "repeat"
    RECOVERED = "recovered"
    UNWATCHED = "unwatched"
    """The alert's subject isn't looked at any more; whether it is over isn't known."""

    TEST = "test"


@dataclass(frozen=True, slots=True)
class AlertNotice:
    """``alert`` names the alert for as long as it fires: a receiver that has seen it opens no second ticket.

    ``number`` counts an alert's notices from 1; ``alert`` and it together name the notice, however often it comes.
    ``cause``: the most frequent one, empty where none is known. ``count``: of events, None where it isn't about events.
    ``amounts``: what those whose amount is known come to, by currency, in minor units. ``link``: the page that shows
    more, empty where ``console.public_url`` isn't set.
    """

    alert: str
    number: int
    kind: NoticeKind
    rule: str
    subject: str
    severity: Severity
    text: str
    value: float
    threshold: float
    since: datetime
    at: datetime
    runbook: str
    cause: str = ""
    count: int | None = None
    amounts: Mapping[str, int] = field(default_factory=dict)
    link: str = ""

    @property
    def notice_id(self) -> str:
        return f"{self.alert}#{self.number}"

    @property
    def is_critical(self) -> bool:
        return self.severity is Severity.CRITICAL

    def as_tree(self) -> dict[str, Any]:
        return {"id": self.notice_id, **tree_of(self)}

    def as_json(self) -> bytes:
        return json.dumps(self.as_tree(), ensure_ascii=True).encode()

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> AlertNotice:
        known = known_fields(cls, tree)
        times = {name: from_rfc3339(known[name]) for name in ("since", "at")}
        return cls(**{**known, **times, "kind": NoticeKind(known["kind"]), "severity": Severity(known["severity"])})


def tree_of(instance: DataclassInstance) -> dict[str, Any]:
    return {
        name: to_rfc3339(value) if isinstance(value, datetime) else value for name, value in asdict(instance).items()
    }


def known_fields(cls: type[DataclassInstance], tree: dict[str, Any]) -> dict[str, Any]:
    return {each_field.name: tree[each_field.name] for each_field in fields(cls)}


class AlertState(StrEnum):
    PENDING = "pending"
    FIRING = "firing"


@dataclass(slots=True)
class Alert:
    """An alert of one rule on one subject, from its condition's beginning to its end. Times are the wall's, UTC.

    ``clear_since``: since when its value has been low enough for it to be over. ``unknown``: the last look couldn't
    tell, and changes nothing. ``name`` is for receivers; ``text``, ``cause``, ``count`` and ``amounts`` are what its
    last notice said.
    """

    rule: str
    subject: str
    state: AlertState
    since: datetime
    value: float
    name: str
    text: str = ""
    number: int = 0
    sent_at: datetime | None = None
    clear_since: datetime | None = None
    unknown: bool = False
    cause: str = ""
    count: int | None = None
    amounts: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        return self.rule, self.subject


class AlertEngine:
    def __init__(self, rules: Mapping[str, AlertRule], alerts: Iterable[Alert] = ()) -> None:
        self._rules = rules
        self._alerts = {alert.key: alert for alert in alerts if alert.rule in rules}

    @property
    def alerts(self) -> list[Alert]:
        """Returns the pending and firing alerts, by rule and subject."""
        return [self._alerts[key] for key in sorted(self._alerts)]

    def judge_readings(self, readings: Iterable[AlertReading], now: datetime) -> list[AlertNotice]:
        """Makes the notices that these readings ask for. A subject that isn't read any more, because the settings don't
        name it, ends as unwatched: nobody knows whether it is over."""
        notices: list[AlertNotice] = []
        read: set[tuple[str, str]] = set()
        for reading in readings:
            read.add((reading.rule, reading.subject))
            notices += self._judge_reading(reading, now)
        for key in sorted(self._alerts.keys() - read):
            notices += self._end_watch(self._alerts.pop(key), now)
        return notices

    def describe(self, notice: AlertNotice) -> None:
        alert = self._alerts.get((notice.rule, notice.subject))
        if alert is not None:
            alert.cause, alert.count, alert.amounts = notice.cause, notice.count, notice.amounts

    def _judge_reading(self, reading: AlertReading, now: datetime) -> list[AlertNotice]:
        rule, key = self._rules[reading.rule], (reading.rule, reading.subject)
        alert = self._alerts.get(key)
        if alert is not None:
            _cap_times(alert, now)
        if reading.value is None:
            return self._judge_unknown(alert, rule, now)
        if alert is None:
            if reading.value <= rule.threshold:
                return []
            alert = self._alerts[key] = Alert(*key, AlertState.PENDING, now, reading.value, _make_name(*key, now))
        alert.unknown, alert.value = False, reading.value
        if alert.state is AlertState.PENDING:
            return self._judge_pending(alert, rule, now, reading)
        if reading.value <= rule.clear_below:
            return self._clear_alert(alert, now)
        alert.clear_since = None
        return self._repeat_notice(alert, rule, now, reading)

    def _judge_pending(self, alert: Alert, rule: AlertRule, now: datetime, reading: AlertReading) -> list[AlertNotice]:
        if alert.value <= rule.threshold:
            del self._alerts[alert.key]
            return []
        if _measure_seconds(alert.since, now) < rule.for_s:
            return []
        alert.state = AlertState.FIRING
        return [self._make_notice(alert, rule, NoticeKind.FIRING, now, reading)]

    def _judge_unknown(self, alert: Alert | None, rule: AlertRule, now: datetime) -> list[AlertNotice]:
        if alert is None:
            return []
        alert.unknown, alert.clear_since = True, None
        return self._repeat_notice(alert, rule, now) if alert.state is AlertState.FIRING else []

    def _repeat_notice(
        self, alert: Alert, rule: AlertRule, now: datetime, reading: AlertReading | None = None
    ) -> list[AlertNotice]:
        if alert.sent_at is not None and _measure_seconds(alert.sent_at, now) < rule.repeat_s:
            return []
        return [self._make_notice(alert, rule, NoticeKind.REPEAT, now, reading)]

    def _end_watch(self, alert: Alert, now: datetime) -> list[AlertNotice]:
        if alert.state is AlertState.PENDING:
            return []
        return [self._make_notice(alert, self._rules[alert.rule], NoticeKind.UNWATCHED, now)]

    def _clear_alert(self, alert: Alert, now: datetime) -> list[AlertNotice]:
        if alert.state is AlertState.PENDING:
            del self._alerts[alert.key]
            return []
        alert.clear_since = alert.clear_since or now
        if _measure_seconds(alert.clear_since, now) < CLEAR_S:
            return []
        del self._alerts[alert.key]
        return [self._make_notice(alert, self._rules[alert.rule], NoticeKind.RECOVERED, now)]

    def _make_notice(
        self, alert: Alert, rule: AlertRule, kind: NoticeKind, now: datetime, reading: AlertReading | None = None
    ) -> AlertNotice:
        alert.number += 1
        alert.sent_at = now
        lasted = f"{_measure_seconds(alert.since, now) / 60:,.0f} min"
        if kind is NoticeKind.RECOVERED:
            text = f"over after {lasted}; it was: {alert.text}"
        elif kind is NoticeKind.UNWATCHED:
            text = (
                "no longer watched: it, or its credentials, were removed from the settings; "
                f"it began {lasted} ago: {alert.text}"
            )
        else:
            note = "" if reading is None else reading.note
            text = alert.text = "; ".join(filter(None, (rule.format_text(alert.subject, alert.value), note)))
        if reading is not None:
            alert.cause, alert.count = reading.cause, int(alert.value) if rule.counts_events else None
        return AlertNotice(
            alert=alert.name,
            number=alert.number,
            kind=kind,
            rule=rule.name,
            subject=alert.subject,
            severity=rule.severity,
            text=text,
            value=alert.value,
            threshold=rule.threshold,
            since=alert.since,
            at=now,
            runbook=f"{RUNBOOK}#{rule.anchor}",
            cause=alert.cause,
            count=alert.count,
            amounts=alert.amounts,
        )


def _measure_seconds(since: datetime, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds())


def _make_name(rule: str, subject: str, since: datetime) -> str:
    return "/".join(filter(None, (rule, subject, to_rfc3339(since))))


def _cap_times(alert: Alert, now: datetime) -> None:
    alert.since = min(alert.since, now)
    alert.sent_at = min(alert.sent_at, now) if alert.sent_at is not None else None
    alert.clear_since = min(alert.clear_since, now) if alert.clear_since is not None else None
