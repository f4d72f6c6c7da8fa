"""A calendar week (ISO 8601), and what its report says, as data: the page and the Markdown show the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from core.decision import ErrorKind
from core.errors import PayhookError

ItemName: TypeAlias = int | str
"""An item's number; with its shard's stream where the report is of several: ``ledger.1:42``."""

_TEXT = re.compile(r"(\d{4})-?W(\d{2})", re.ASCII)
DAYS = 7


class WeekInvalid(PayhookError):
    """A text that names no week."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"{text!r} is no week: write 2026-W47")


@dataclass(frozen=True, slots=True)
class Week:
    """``2026-W47`` begins on a Monday, at midnight UTC. ``start`` is its first moment."""

    start: datetime

    @property
    def end(self) -> datetime:
        """The first moment after it."""
        return self.start + timedelta(days=DAYS)

    @property
    def name(self) -> str:
        year, number, _ = self.start.isocalendar()
        return f"{year}-W{number:02}"

    def holds(self, moment: datetime) -> bool:
        return self.start <= moment < self.end

    @classmethod
    def named(cls, text: str) -> Week:
        """
        :raises WeekInvalid: there is no such week
        """
        found = _TEXT.fullmatch(text)
        try:
            if found is None:
                raise ValueError
            return cls(datetime.fromisocalendar(int(found[1]), int(found[2]), 1).replace(tzinfo=UTC))
        except ValueError:
            raise WeekInvalid(text) from None

    @classmethod
    def of(cls, moment: datetime) -> Week:
        """The week that a moment is in."""
        year, number, _ = moment.astimezone(UTC).isocalendar()
        return cls(datetime.fromisocalendar(year, number, 1).replace(tzinfo=UTC))

    def before(self) -> Week:
        return Week(self.start - timedelta(days=DAYS))

    def after(self) -> Week:
        return Week(self.end)


@dataclass(frozen=True, slots=True)
class Depth:
    """Dead events at a moment."""

    at: datetime
    items: int


@dataclass(frozen=True, slots=True)
class CauseOfWeek:
    """Deaths of one cause (`dlq.index.fingerprint.Cause`). ``open``: of its items, those still dead at the end.

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
    example: ItemName
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

    ``waiting``: of all items, whenever they died, those over 48 hours that weren't closed by the end.
    """

    over_24h: Sequence[ItemName]
    over_48h: Sequence[ItemName]
    waiting: Sequence[ItemName]


@dataclass(frozen=True, slots=True)
class BugCount:
    """What a provider reported twice, or in two ways: cases whose second report came in the week."""

    provider: str
    kind: str
    explained: str
    cases: int
    example: str


@dataclass(frozen=True, slots=True)
class WeeklyReport:
    """One stream's week. ``died``: items that died for the first time in it; ``depths``: at its beginning and at the
    end of each day, as far as it has gone; ``until``: what was known, the week's end or earlier. ``bugs``: None where
    no money is booked.
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
