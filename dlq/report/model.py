"""A calendar week (ISO 8601), what its report says, and what to do next, as data: the page and the Markdown show the
same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from core.decision import ErrorKind
from core.errors import PayhookError

ItemName: TypeAlias = int | str
"""An item's number; with its shard's stream where the report is of several: ``ledger.1:42``."""

_TEXT = re.compile(r"(\d{4})-?W(\d{2})", re.ASCII)
DAYS = 7


class WeekInvalid(PayhookError):
    """A text that names no week, or one without a week before or after it in the calendar."""

    def __init__(self, text: str, problem: str = "write 2026-W47") -> None:
        self.text = text
        self.problem = problem
        super().__init__(f"{text!r} is no week: {problem}")


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
        return f"{year:04}-W{number:02}"

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
            week = cls(datetime.fromisocalendar(int(found[1]), int(found[2]), 1).replace(tzinfo=UTC))
        except ValueError:
            raise WeekInvalid(text) from None
        if not _FIRST.start <= week.start <= _LAST.start:
            raise WeekInvalid(text, f"the first is {_FIRST.name}, the last {_LAST.name}")
        return week

    @classmethod
    def of(cls, moment: datetime) -> Week:
        """The week that a moment is in."""
        year, number, _ = moment.astimezone(UTC).isocalendar()
        return cls(datetime.fromisocalendar(year, number, 1).replace(tzinfo=UTC))

    def before(self) -> Week:
        return Week(self.start - timedelta(days=DAYS))

    def after(self) -> Week:
        return Week(self.end)


_FIRST = Week.of(datetime.min.replace(tzinfo=UTC)).after()
_LAST = Week.of(datetime.max.replace(tzinfo=UTC)).before()
"""Each has one before it and one after it that `datetime` can hold."""


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


_BY_CLASS: Mapping[str, str] = {
    "MerchantUnknown": "add the account to the merchant directory, then replay them all: one missing line is one cause",
    "MerchantClosed": "open the account in the directory and replay, or have finance settle by hand and resolve",
    "EventConflict": "send both bodies to the provider; the first stays booked. Resolve once it has answered",
    "FactConflict": "ask the provider which of the two reports holds; reverse the booking where it is the other",
    "PreviousEventDead": "mend and replay the head that they died with, with followers; they are no cause of their own",
    "Poison": "ask the provider what it sends, or mend the adapter; then replay",
    "Forged": "find out who else writes to the topics; have the provider send the event again",
    "WrongMode": "find out who else writes to the topics: only a receiver may",
    "WorkerLost": "look for native crashes or memory in the handler; replay one before the others",
    "HandlerTimeout": "find what the handler waits for; a breaker or a shorter timeout of its own keeps others going",
    "HeadOfLineBlocked": "mend what its last error names, then replay; if it comes every week, that is what to mend",
    "PayloadUndecodable": "the stream's schema doesn't fit what is sent: mend it in streams.toml, restart, replay",
    "PayloadTooLarge": "raise payload_bytes_max of the stream if such sizes are meant, restart, replay",
    "NotTaken": "the subscriber refuses: its owner's to mend; replay then with --stream notify",
    "Unreachable": "the subscriber doesn't answer: its owner's to mend; replay then with --stream notify",
    "AddressRefused": "the subscriber's address isn't allowed: mend its URL or allow the network",
}
_BY_KIND: Mapping[ErrorKind, str] = {
    ErrorKind.NRE: "no retry helps: mend the handler or the data that it needs, then replay one, then the others",
    ErrorKind.SLE: "it should have been gone in a moment: if it comes every week, it isn't short-lived: classify it "
    "as SNBE, or mend what is called",
    ErrorKind.SNBE: "all its tries were used up: what it waits for takes longer than the retry policy, or nobody "
    "mended it. Mend, replay, and think about a longer policy",
    ErrorKind.SBE: "such errors should block the stream and never die: look at the rules that classify it",
}
_UNKNOWN = "look at one of them: payhook dlq show"


def advice(error_class: str, kind: ErrorKind | None) -> str:
    """One sentence of what to do next."""
    plain = error_class.rsplit(".", 1)[-1]
    return _BY_CLASS.get(plain) or (_BY_KIND[kind] if kind is not None else _UNKNOWN)


STEPS_MAX = 3
"""Causes that a step of their own is written for."""

NAMED_MAX = 10

Kind: TypeAlias = Literal["text", "name", "command"]


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a step. A ``name`` comes from events and errors: whatever it holds is text."""

    kind: Kind
    text: str


Step: TypeAlias = tuple[Part, ...]


def steps(report: WeeklyReport) -> list[Step]:
    """Empty: nothing died and nothing is left."""
    return list(_steps(report))


def few(items: Sequence[ItemName]) -> str:
    """Numbers of items, of which many aren't named."""
    named, more = ", ".join(str(item) for item in items[:NAMED_MAX]), len(items) - NAMED_MAX
    return (named or "none") + (f" and {more:,} more" if more > 0 else "")


def _steps(report: WeeklyReport) -> Iterator[Step]:
    if report.breaches.waiting:
        what = f"Decide about what is older than 48 hours and still open: {few(report.breaches.waiting)} ("
        yield _text(what), _command("payhook dlq show ID"), _text(").")
    for cause in [cause for cause in report.causes if cause.open][:STEPS_MAX]:
        yield _text(f"{cause.open:,} × "), _cause(cause), _text(f": {cause.advice}.")
    if again := next((cause for cause in report.causes if cause.again), None):
        why = f" again before its cause is mended: {again.again:,} {_replays(again.again)} died of it again."
        yield _text("Don't replay "), _cause(again), _text(why)
    if bug := next(iter(report.bugs or ()), None):
        cases = "case" if bug.cases == 1 else "cases"
        yield (
            _text("Send "),
            Part("name", bug.provider),
            _text(f" the evidence of {bug.cases:,} {cases} of {bug.explained}: "),
            _command(f"payhook ledger provider-bugs --provider {bug.provider} --csv"),
            _text("."),
        )


def _text(text: str) -> Part:
    return Part("text", text)


def _command(text: str) -> Part:
    return Part("command", text)


def _cause(cause: CauseOfWeek) -> Part:
    return Part("name", cause.error_class)


def _replays(count: int) -> str:
    return "replay" if count == 1 else "replays"
