"""Reads how far each provider's own list of events was taken, as its last round wrote it down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from core.event import Mode
from core.layout import Layout
from core.status_file import moment_of, read_said
from ledger.catch_ups import LOST, TABLE, CatchUps

SHOWN_MAX = 50
"""Lost spans that are listed, the newest first."""


@dataclass(frozen=True, slots=True)
class ListedSource:
    """Shows a provider, or an endpoint of it, whose list is asked for. ``until``: up to when it was listed, None:
    never.

    ``at``: when the last round ended. ``missing``: events that it has and that aren't with Kafka; None: not known, as
    the list couldn't be read. ``fetched_day``: events that came in so within a day before that round.
    ``problem``: why the last round didn't get through, and ``failing_since`` when the first such round began.
    ``switched_off``: whether the provider says that it sends no webhooks to our endpoint, None: not known.
    """

    source: str
    until: datetime | None
    at: datetime | None
    missing: int | None
    fetched_day: int
    problem: str | None
    failing_since: datetime | None
    switched_off: bool | None = None

    @property
    def state(self) -> str:
        if self.problem:
            return "failing"
        return "switched off" if self.switched_off else "caught up"


@dataclass(frozen=True, slots=True)
class UnlistedProvider:
    """Names a provider that webhooks are taken from and whose list isn't asked for, and why not."""

    provider: str
    why: str


@dataclass(frozen=True, slots=True)
class LostSpan:
    """Marks a time that the provider no longer lists."""

    source: str
    since: datetime
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class CatchUpReport:
    """Lists sources that fail first; the newest lost spans first."""

    sources: Sequence[ListedSource]
    unlisted: Sequence[UnlistedProvider]
    lost: Sequence[LostSpan]


AskCatchUps: TypeAlias = Callable[[], CatchUpReport]
"""Answers what is known now. It blocks: call it off the event loop."""


def nothing_listed() -> CatchUpReport:
    return CatchUpReport((), (), ())


def read_catch_ups(layout: Layout, modes: Sequence[Mode]) -> CatchUpReport:
    """Reads the last rounds' report, and the lost spans of these modes.

    :raises TableUnreadable: the table of spans is damaged
    """
    report = read_said(layout.caught_up) or {}
    sources = [
        _read_source(name, source)
        for name, source in _as_mapping(report.get("sources")).items()
        if isinstance(source, Mapping)
    ]
    unlisted = [UnlistedProvider(name, str(why)) for name, why in sorted(_as_mapping(report.get("unlisted")).items())]
    lost = [
        LostSpan(span.source, span.since, span.until, span.reason or "")
        for mode in modes
        for span in CatchUps(layout.ledger(mode).shared_table(TABLE)).spans()
        if span.outcome == LOST
    ]
    lost.sort(key=lambda span: span.until, reverse=True)
    return CatchUpReport(
        sorted(sources, key=lambda source: (not source.problem, source.source)), unlisted, lost[:SHOWN_MAX]
    )


def _read_source(name: str, source: Mapping[str, Any]) -> ListedSource:
    problem, missing, fetched_day = source.get("problem"), source.get("missing"), source.get("fetched_day")
    return ListedSource(
        source=name,
        until=moment_of(source, "until"),
        at=moment_of(source, "at"),
        missing=missing if isinstance(missing, int) else None,
        fetched_day=fetched_day if isinstance(fetched_day, int) else 0,
        problem=str(problem) if problem else None,
        failing_since=moment_of(source, "since"),
        switched_off=switched_off if isinstance(switched_off := source.get("switched_off"), bool) else None,
    )


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
