"""Builds the report of a week from the journal alone."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from core.decision import Decision
from dlq.board.fingerprint import Cause, cause_of
from dlq.report.advice import advice
from dlq.report.history import History, Life, deaths, history
from dlq.report.model import Breaches, BugCount, CauseOfWeek, Depth, Replays, Resolution, WeeklyReport
from dlq.report.week import DAYS, Week
from journal.schema import JournalRow

BugsOf: TypeAlias = Callable[[datetime, datetime], list[BugCount]]
"""What providers reported twice from one time until before another."""

CAUSES_MAX = 50
NAMED_MAX = 10
"""Providers and types of one cause that are named, the most frequent first."""

SLA, ESCALATION = timedelta(hours=24), timedelta(hours=48)


def weekly(stream: str, journal: str, week: Week, now: datetime, bugs: BugsOf | None = None) -> WeeklyReport:
    """One stream's week, up to ``now`` where it isn't over.

    :param bugs: what providers reported twice; None where the stream's journal isn't the ledger's
    """
    until = min(week.end, max(week.start, now))
    past = history(journal, until)
    lives = list(past.lives.values())
    closed = [life for life in lives if life.closed_at is not None and week.holds(life.closed_at)]
    depths = _depths(past, week, until)
    return WeeklyReport(
        stream=stream,
        week=week,
        until=until,
        died=sum(week.holds(life.died_at) for life in lives),
        causes=_causes(deaths(journal, week.start, until), past),
        depths=depths,
        deepest=_deepest(past, week, depths[0]),
        resolution=_resolution(closed),
        replays=_replays(lives, week),
        breaches=_breaches(lives, week, until),
        bugs=bugs(week.start, until) if bugs is not None else None,
    )


def _causes(rows: Iterable[JournalRow], past: History) -> list[CauseOfWeek]:
    groups: dict[str, tuple[Cause, list[JournalRow]]] = {}
    for row in rows:
        cause = cause_of(row.error_class or "unknown", row.error_code, row.error_message, row.error_stack)
        groups.setdefault(cause.fingerprint, (cause, []))[1].append(row)
    found = [_cause(cause, of_it, past) for cause, of_it in groups.values()]
    return sorted(found, key=lambda cause: (-cause.items, cause.first_at))[:CAUSES_MAX]


def _cause(cause: Cause, rows: Sequence[JournalRow], past: History) -> CauseOfWeek:
    items = dict.fromkeys(row.item_seq for row in rows)
    kind = rows[-1].error_kind
    return CauseOfWeek(
        fingerprint=cause.fingerprint,
        error_class=cause.error_class,
        kind=kind,
        shape=cause.shape,
        place=cause.place,
        items=len(items),
        deaths=len(rows),
        open=sum(past.lives[item].dead_since is not None for item in items),
        again=sum(row.decided_at in past.lives[row.item_seq].again for row in rows),
        providers=_named(row.provider for row in rows),
        types=_named(row.event_type for row in rows),
        first_at=rows[0].decided_at,
        last_at=rows[-1].decided_at,
        example=rows[-1].item_seq,
        advice=advice(cause.error_class, kind),
    )


def _named(values: Iterable[str | None]) -> list[str]:
    counts = Counter(value for value in values if value is not None)
    return [value for value, _ in counts.most_common(NAMED_MAX)]


def _depths(past: History, week: Week, until: datetime) -> list[Depth]:
    """At the beginning, and at the end of each day that has begun."""
    ends = [week.start, *(min(week.start + timedelta(days=day), until) for day in range(1, DAYS + 1))]
    moments = list(dict.fromkeys(ends))
    found, depth, steps = [], 0, iter([*past.steps, (datetime.max.replace(tzinfo=until.tzinfo), 0)])
    at, step = next(steps)
    for moment in moments:
        while at < moment:
            depth += step
            at, step = next(steps)
        found.append(Depth(moment, depth))
    return found


def _deepest(past: History, week: Week, first: Depth) -> Depth:
    """The first moment at which most were dead."""
    within = [(at, step) for at, step in past.steps if at >= week.start]
    levels = itertools.accumulate((step for _, step in within), initial=first.items)
    moments = [first.at, *(at for at, _ in within)]
    found = [Depth(at, level) for at, level in zip(moments, levels, strict=True)]
    return max(found, key=lambda depth: depth.items)


def _resolution(closed: Sequence[Life]) -> Resolution:
    took = sorted(life.closed_at - life.died_at for life in closed if life.closed_at is not None)
    by = Counter(life.closed_by for life in closed)
    return Resolution(
        closed=len(closed),
        by_replay=len(closed) - by[Decision.PURGED] - by[Decision.RESOLVED],
        by_purge=by[Decision.PURGED],
        by_resolve=by[Decision.RESOLVED],
        median=_quantile(took, 0.5),
        p90=_quantile(took, 0.9),
        longest=took[-1] if took else None,
    )


def _quantile(ascending: Sequence[timedelta], share: float) -> timedelta | None:
    """The least value that so many are at most."""
    return ascending[max(0, math.ceil(len(ascending) * share) - 1)] if ascending else None


def _replays(lives: Iterable[Life], week: Week) -> Replays:
    given = succeeded = failed = 0
    for life in lives:
        for number, at in enumerate(life.replays):
            if not week.holds(at):
                continue
            given += 1
            following = life.replays[number + 1] if number + 1 < len(life.replays) else None
            if any(at <= again and (following is None or again <= following) for again in life.again):
                failed += 1
            elif following is None and life.closed_at is not None:
                succeeded += 1
    return Replays(given, succeeded, failed, given - succeeded - failed)


def _breaches(lives: Sequence[Life], week: Week, until: datetime) -> Breaches:
    still = (life for life in lives if life.closed_at is None and life.died_at + ESCALATION < until)
    waiting = [life.item_seq for life in sorted(still, key=lambda life: life.died_at)]
    return Breaches(_over(lives, SLA, week, until), _over(lives, ESCALATION, week, until), waiting)


def _over(lives: Iterable[Life], age: timedelta, week: Week, until: datetime) -> list[int]:
    passed = [(at, life.item_seq) for life in lives if (at := life.over(age)) is not None]
    return [item for at, item in sorted(passed) if week.holds(at) and at < until]
