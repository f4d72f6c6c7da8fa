"""What a weekly report says, as data: the page and the Markdown show the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.decision import ErrorKind
from dlq.report.week import Week


@dataclass(frozen=True, slots=True)
class Depth:
    """Dead events at a moment."""

    at: datetime
    items: int


@dataclass(frozen=True, slots=True)
class CauseOfWeek:
    """Deaths of one cause (`dlq.board.fingerprint.Cause`). ``open``: of its items, those still dead at the end.

    ``again``: deaths that followed a replay; ``advice``: what to do next.
    """

    fingerprint: str
    error_class: str
    kind: ErrorKind | None
    shape: str
    place: str | None
    items: int
    deaths: int
    open: int
    again: int
    providers: Sequence[str]
    types: Sequence[str]
    first_at: datetime
    last_at: datetime
    example: int
    advice: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """How long items that were closed in the week had been open, since each first died. None where there were none."""

    closed: int
    by_replay: int
    by_purge: int
    by_resolve: int
    median: timedelta | None
    p90: timedelta | None
    longest: timedelta | None


@dataclass(frozen=True, slots=True)
class Replays:
    """Replays that were decided in the week, and what each had come to by its end."""

    given: int
    succeeded: int
    failed_again: int
    under_way: int


@dataclass(frozen=True, slots=True)
class Breaches:
    """Items that came to be open for longer than 24 and 48 hours within the week; their numbers, oldest first.

    ``waiting``: of all items, whenever they died, those over 48 hours that nobody had closed by the end.
    """

    over_24h: Sequence[int]
    over_48h: Sequence[int]
    waiting: Sequence[int]


@dataclass(frozen=True, slots=True)
class BugCount:
    """What a provider told twice, or in two ways: cases whose second report came in the week."""

    provider: str
    kind: str
    explained: str
    cases: int
    example: str


@dataclass(frozen=True, slots=True)
class WeeklyReport:
    """One stream's week. ``died``: items that died for the first time in it; ``depths``: at its beginning and at the
    end of each day, as far as it has gone; ``until``: what was known, the week's end or earlier. ``bugs``: None where
    no money is booked: there nobody tells it twice.
    """

    stream: str
    week: Week
    until: datetime
    died: int
    causes: Sequence[CauseOfWeek]
    depths: Sequence[Depth]
    deepest: Depth
    resolution: Resolution
    replays: Replays
    breaches: Breaches
    bugs: Sequence[BugCount] | None = None
