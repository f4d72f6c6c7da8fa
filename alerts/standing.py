"""Shows what fires now, and whether the alerts' process still looks: read from what that process remembers.

Adds to each notice the most frequent cause, the amount, and the page that shows more.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from deltalake.exceptions import DeltaError

from alerts.engine import RUNBOOK, AlertNotice, AlertState, NoticeKind
from alerts.rules import Severity, make_rules
from alerts.settings import AlertsSettings
from alerts.watch import RememberedAlerts, read_state
from core.clock import Clock
from core.errors import PayhookError
from core.routing import of_stream
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.joined import JoinedIndex

log = logging.getLogger(__name__)

OF_DEAD = ("dlq_depth", "dlq_age", "dlq_escalation")
CAUSE_CHARS_MAX = 300

Amounts = Mapping[str, int]
"""Amounts by currency, in minor units."""


def page_of_alert(rule: str, subject: str) -> str:
    if rule in OF_DEAD:
        return f"/dlq?stream={quote(subject)}"
    if rule == "unknown":
        return "/ledger/unknown"
    return "/ledger/verification" if rule in ("verify", "verification") else "/alerts"


class NoticeDescriber:
    """Adds cause, amount and link to notices. What can't be read is left out: no notice waits for it."""

    def __init__(
        self,
        indexes: Mapping[str, DeadLetterIndex],
        unknown_amounts: Callable[[str], Amounts],
        public_url: str,
    ) -> None:
        """
        :param indexes: by stream, one a journal
        :param unknown_amounts: what unknown events come to, by what isn't known of them
        :param public_url: how browsers see the management listener; empty: notices have no link
        """
        self._indexes = indexes
        self._unknown_amounts = unknown_amounts
        self._public_url = public_url

    def __call__(self, notice: AlertNotice) -> AlertNotice:
        link = self._public_url and f"{self._public_url}{page_of_alert(notice.rule, notice.subject)}"
        if notice.kind in (NoticeKind.RECOVERED, NoticeKind.UNWATCHED):
            return replace(notice, link=link)
        try:
            return replace(self._with_amount(notice), link=link)
        except (PayhookError, DeltaError, OSError, sqlite3.Error) as unread:
            log.warning("what %s is about can't be read: %s", notice.notice_id, unread)
            return replace(notice, link=link)

    def _with_amount(self, notice: AlertNotice) -> AlertNotice:
        if notice.rule == "unknown":
            return replace(notice, amounts=self._unknown_amounts(notice.subject))
        if notice.rule not in OF_DEAD:
            return notice
        indexes = of_stream(self._indexes, notice.subject) or self._indexes
        for journal_index in indexes.values():
            journal_index.follow()
        index = JoinedIndex(indexes)
        largest = next(iter(index.groups(limit=1)), None)
        cause = "" if largest is None else ": ".join(filter(None, (largest.error_class, largest.shape)))
        return replace(notice, cause=cause[:CAUSE_CHARS_MAX], count=index.stats().open, amounts=index.amounts())


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
