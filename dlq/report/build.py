"""Builds the report of a week from the journal alone."""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from core.decision import Decision
from dlq.index.fingerprint import Cause, cause_of
from dlq.index.stats import ESCALATION, SLA
from dlq.report.model import (
    DAYS,
    Breaches,
    BugCount,
    CauseOfWeek,
    Depth,
    ItemName,
    Replays,
    Resolution,
    Week,
    WeeklyReport,
    advice,
)
from journal.lake import has_table, open_table
from journal.life import Life, life_after
from journal.reader import read_rows, rows_where
from journal.schema import TIMESTAMP, JournalRow, from_arrow
from journal.shards import decides, shard_at

BugsOf: TypeAlias = Callable[[datetime, datetime], list[BugCount]]
"""What providers reported twice from one time until before another."""

CAUSES_MAX = 50
NAMED_MAX = 10
"""Providers and types of one cause that are named, the most frequent first."""

_LIFE = ["item_seq", "seq", "first", "topic", "partition", "offset", "entity_key", "decision", "decided_at"]
_DEATH = [
    *("seq", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at", "provider", "event_type"),
    *("error_class", "error_code", "error_message", "error_stack", "error_kind"),
]


def weekly(
    stream: str, journals: Mapping[str, str], week: Week, now: datetime, bugs: BugsOf | None = None
) -> WeeklyReport:
    """One stream's week, up to ``now`` where it isn't over.

    :param journals: by stream, one a shard
    :param bugs: what providers reported twice; None where the stream's journal isn't the ledger's
    """
    until = min(week.end, max(week.start, now))
    past = history(journals, until)
    items = list(past.items.values())
    closed = [item for item in items if (at := item.life.closed_at) is not None and week.holds(at)]
    depths = _depths(past, week, until)
    return WeeklyReport(
        stream=stream,
        week=week,
        until=until,
        died=sum(week.holds(item.died_at) for item in items),
        causes=_causes(deaths(journals, week.start, until), past),
        depths=depths,
        deepest=_deepest(past, week, depths[0]),
        resolution=_resolution(closed),
        replays=_replays(items, week),
        breaches=_breaches(items, week, until),
        bugs=bugs(week.start, until) if bugs is not None else None,
    )


def _causes(died: Iterable[Death], past: History) -> list[CauseOfWeek]:
    groups: dict[str, tuple[Cause, list[Death]]] = {}
    for death in died:
        row = death.row
        if death.item in past.items:
            cause = cause_of(row.error_class or "unknown", row.error_code, row.error_message, row.error_stack)
            groups.setdefault(cause.fingerprint, (cause, []))[1].append(death)
    found = [_cause(cause, of_it, past) for cause, of_it in groups.values()]
    return sorted(found, key=lambda cause: (-cause.items, cause.first_at))[:CAUSES_MAX]


def _cause(cause: Cause, died: Sequence[Death], past: History) -> CauseOfWeek:
    items = dict.fromkeys(death.item for death in died)
    rows = [death.row for death in died]
    kind = rows[-1].error_kind
    return CauseOfWeek(
        fingerprint=cause.fingerprint,
        error_class=cause.error_class,
        kind=kind,
        shape=cause.shape,
        place=cause.place,
        items=len(items),
        deaths=len(rows),
        open=sum(past.items[item].life.is_dead for item in items),
        again=sum(death.row.decided_at in past.items[death.item].again for death in died),
        providers=_named(row.provider for row in rows),
        types=_named(row.event_type for row in rows),
        first_at=rows[0].decided_at,
        last_at=rows[-1].decided_at,
        example=died[-1].item,
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


def _resolution(closed: Sequence[DeadItem]) -> Resolution:
    took = sorted(item.life.closed_at - item.died_at for item in closed if item.life.closed_at is not None)
    by = Counter(item.life.closed_by for item in closed)
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


def _replays(items: Iterable[DeadItem], week: Week) -> Replays:
    given = succeeded = failed = 0
    for item in items:
        for number, at in enumerate(item.replays):
            if not week.holds(at):
                continue
            given += 1
            following = item.replays[number + 1] if number + 1 < len(item.replays) else None
            if any(at <= again and (following is None or again <= following) for again in item.again):
                failed += 1
            elif following is None and item.life.closed_at is not None:
                succeeded += 1
    return Replays(given, succeeded, failed, given - succeeded - failed)


def _breaches(items: Sequence[DeadItem], week: Week, until: datetime) -> Breaches:
    still = (item for item in items if item.life.is_open and item.died_at + ESCALATION < until)
    waiting = [item.name for item in sorted(still, key=lambda item: item.died_at)]
    return Breaches(_over(items, SLA, week, until), _over(items, ESCALATION, week, until), waiting)


def _over(items: Iterable[DeadItem], age: timedelta, week: Week, until: datetime) -> list[ItemName]:
    passed = [(at, item.name) for item in items if (at := item.over(age)) is not None]
    return [item for at, item in sorted(passed) if week.holds(at) and at < until]


@dataclass(slots=True)
class DeadItem:
    """One item from its first death on. ``replays``: since then; ``again``: deaths that followed one."""

    name: ItemName
    life: Life[datetime]
    died_at: datetime
    replays: list[datetime] = field(default_factory=list)
    again: list[datetime] = field(default_factory=list)

    def over(self, age: timedelta) -> datetime | None:
        """When it came to be open for longer than that; None where it was closed before."""
        passed, closed_at = self.died_at + age, self.life.closed_at
        return passed if closed_at is None or closed_at > passed else None


@dataclass(frozen=True, slots=True)
class History:
    """``items``: all that died before the moment that was asked for, by number; ``steps``: how many more were dead
    from then on, in time order.
    """

    items: dict[ItemName, DeadItem]
    steps: list[tuple[datetime, int]]


@dataclass(frozen=True, slots=True)
class Death:
    """A row of what died, and its item."""

    item: ItemName
    row: JournalRow


def history(journals: Mapping[str, str], until: datetime) -> History:
    """What had happened before ``until`` to the items that each journal's shard decides; empty while there is none."""
    items: dict[ItemName, DeadItem] = {}
    steps: list[tuple[datetime, int]] = []
    for stream, journal in journals.items():
        shard, named = shard_at(journal), _naming(stream, journals)
        for row in _rows_of_dead(journal, until):
            _take(items, steps, named(row.item_seq), row, is_its=decides(shard, row))
    return History(items, sorted(steps, key=operator.itemgetter(0)))


def _take(
    items: dict[ItemName, DeadItem], steps: list[tuple[datetime, int]], name: ItemName, row: JournalRow, *, is_its: bool
) -> None:
    item, decision, at = items.get(name), row.decision, row.decided_at
    if item is None:
        if decision is Decision.DEAD and is_its:
            items[name] = DeadItem(name, life_after(None, decision, at), at)
            steps.append((at, 1))
        return
    was_dead, item.life = item.life.is_dead, life_after(item.life, decision, at)
    if decision is Decision.REPLAYED:
        item.replays.append(at)
    if item.life.is_dead and not was_dead:
        item.again.append(at)
    if item.life.is_dead != was_dead:
        steps.append((at, item.life.is_dead - was_dead))


def _naming(stream: str, journals: Mapping[str, str]) -> Callable[[int], ItemName]:
    return (lambda item_seq: item_seq) if len(journals) == 1 else (lambda item_seq: f"{stream}:{item_seq}")


def deaths(journals: Mapping[str, str], since: datetime, until: datetime) -> list[Death]:
    """The rows of what died in between, in their order, with few columns."""
    at = pc.field("decided_at")
    wanted = (pc.field("decision") == Decision.DEAD.value) & (at >= _moment(since)) & (at < _moment(until))
    found = []
    for stream, journal in journals.items():
        named = _naming(stream, journals)
        found += [Death(named(row.item_seq), row) for row in rows_where(journal, wanted, _DEATH)]
    return found if len(journals) == 1 else sorted(found, key=lambda death: death.row.decided_at)


def _rows_of_dead(journal: str, until: datetime) -> Iterator[JournalRow]:
    """Rows of items that ever died, in seq order, with few columns."""
    if not has_table(journal):
        return
    died = pc.field("decision") == Decision.DEAD.value
    before = pc.field("decided_at") < _moment(until)
    rows = read_rows(open_table(journal), before & (died | ~pc.field("first")), _LIFE)
    dead_items = rows.filter(pc.equal(rows["decision"], Decision.DEAD.value))["item_seq"].combine_chunks().unique()
    of_dead = rows.filter(pc.is_in(rows["item_seq"], value_set=dead_items)).sort_by("seq")
    for batch in of_dead.to_batches():
        yield from from_arrow(pa.Table.from_batches([batch]))


def _moment(at: datetime) -> pa.Scalar:
    return pa.scalar(at, TIMESTAMP)
