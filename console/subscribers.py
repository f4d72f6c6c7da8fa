"""Subscribers as people see them: what the settings say of each, and how it answered of late."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from core.event import Mode
from core.location import Location
from core.status_file import moment_of
from ledger.queries.answers import SubscriberAnswers

SPAN = timedelta(days=7)
"""Answers of earlier days aren't looked at."""

DOWNSTREAM = "subscriber:"
"""Before a subscriber's name: what processors call it in their status (`notify.sender`)."""


FindMissed: TypeAlias = Callable[[str, Location, datetime], Sequence[int]]
"""Items of a notify stream's journal that a subscriber, by its name, wasn't sent since a time and wants now."""


@dataclass(frozen=True, slots=True)
class SubscriberSettings:
    """Holds one section of the subscribers file. ``url`` is without user and query. ``state``: active, off or disabled;
    ``why`` says why nothing is sent to it, ``since`` (RFC 3339) when it was disabled.
    """

    name: str
    url: str
    mode: Mode
    tenant: str | None
    types: Sequence[str]
    state: str
    why: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class SubscriberReport:
    """``breaker``: its state where the processor doesn't call it as usual, else empty; ``breaker_text`` in words."""

    settings: SubscriberSettings
    answers: SubscriberAnswers
    breaker: str = ""
    breaker_text: str = ""

    @property
    def state(self) -> str:
        fails = self.answers.failing_since is not None and self.settings.state == "active"
        return "failing" if fails else self.settings.state


def report_subscribers(
    settings: Sequence[SubscriberSettings],
    answers: Mapping[Mode, Mapping[str, SubscriberAnswers]],
    statuses: Mapping[Mode, Iterable[Mapping[str, Any]]],
) -> list[SubscriberReport]:
    """Reports on subscribers; those that don't get what they are to get come first.

    :param answers: by the mode of the traffic, and the subscriber
    :param statuses: by mode, what the processors of the streams that send to subscribers say of themselves
    """
    reports = []
    for subscriber in settings:
        report = SubscriberReport(
            subscriber, answers.get(subscriber.mode, {}).get(subscriber.name, SubscriberAnswers())
        )
        for status in statuses.get(subscriber.mode, ()):
            report = _with_status(report, status)
        reports.append(report)
    return sorted(reports, key=lambda report: (report.state == "active", report.settings.name))


def _with_status(report: SubscriberReport, status: Mapping[str, Any]) -> SubscriberReport:
    downstreams = status.get("downstreams")
    reported = downstreams.get(DOWNSTREAM + report.settings.name) if isinstance(downstreams, Mapping) else None
    if not isinstance(reported, Mapping):
        return report
    failing_since, next_try = moment_of(reported, "failing_since"), moment_of(reported, "next_try_at")
    answers = report.answers
    if failing_since is not None:
        answers = replace(answers, failing_since=min(failing_since, answers.failing_since or failing_since))
    if why := reported.get("why"):
        answers = replace(answers, last_answer=str(why))
    if next_try is not None:
        answers = replace(answers, next_try=next_try)
    state = str(reported.get("state", ""))
    if state in ("", "closed"):
        return replace(report, answers=answers)
    return replace(report, answers=answers, breaker=state, breaker_text=str(reported.get("text", "")))


def first_moment(now: datetime) -> datetime:
    return now - SPAN
