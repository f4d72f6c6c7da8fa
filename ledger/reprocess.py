"""Ignored events that a handler may know by now: which there are, and what would become of each.

An event is ignored where its last decision says so. What would become of it, today's handler is asked; nothing is
written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

import pyarrow as pa

from core.decision import OPEN_DECISIONS, Decision
from core.errors import Unparseable
from core.event import Mode
from core.location import Location
from core.routing import WHOLE, Shard
from core.work import Applied, Handler, Posting, WorkItem
from core.work import Ignored as IgnoredAgain
from journal.bodies import BodyStore
from journal.index_changes import EMPTY_SHA256
from journal.lake import has_table
from journal.schema import JournalRow, from_arrow
from ledger.queries.lake import Lake, decided, one_of, text
from ledger.redactions import body_statuses
from providers.reread import Names, Reader, renamed

ROWS_AT_ONCE = 2_000
"""About 4 MB of rows, and as much of bodies."""

OWN_PROVIDER = "payhook"
"""Commands are ignored too, where they were refused."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which ignored events; what isn't said may be anything. ``since`` and ``until``: when they were ignored."""

    provider: str | None = None
    event_types: tuple[str, ...] = ()
    event_keys: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """``count`` events, and the seqs of the rows that ignored them, lowest first."""

    lake: Lake
    seqs: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.seqs)

    def rows(self) -> Iterator[list[JournalRow]]:
        """Whole rows in seq order, some at a time."""
        for at in range(0, len(self.seqs), ROWS_AT_ONCE):
            found = self.lake.ask(f"SELECT * FROM journal WHERE {one_of('seq', self.seqs[at : at + ROWS_AT_ONCE])}")
            yield sorted(from_arrow(found), key=lambda row: row.seq)


def ignored(journal: Location, wanted: Wanted, shard: Shard = WHOLE) -> Ignored:
    """The ignored events of a shard, in its journal.

    :raises LedgerUnreadable: the journal is damaged
    """
    lake = Lake(journal=str(journal))
    if "journal" not in lake:
        return Ignored(lake, ())
    whose = "" if shard == WHOLE else ', one.entity_key, one."partition"'
    # What was taken up again has later rows; whether one of them ignores it once more, that row itself tells.
    found = lake.ask(
        f"""
        SELECT one.seq{whose} FROM (
            SELECT seq, item_seq, entity_key, "partition" FROM journal WHERE {" AND ".join(_conditions(wanted))}
        ) AS one
        WHERE NOT EXISTS (
            SELECT 1 FROM (SELECT seq, item_seq FROM journal WHERE NOT first) AS later
            WHERE later.item_seq = one.item_seq AND later.seq > one.seq)
        ORDER BY one.seq
        """
    )
    if shard != WHOLE:
        found = found.filter(pa.array([_is_of(shard, one) for one in found.to_pylist()], pa.bool_()))
    return Ignored(lake, tuple(found["seq"].to_pylist()))


def _is_of(shard: Shard, one: Mapping[str, Any]) -> bool:
    """As `journal.shards.decides`."""
    entity_key = one["entity_key"]
    return shard.reads(one["partition"]) if entity_key is None else shard.decides(entity_key)


def what_else(journal: Location, event_keys: Sequence[str]) -> dict[str, str]:
    """Of event keys that aren't among the ignored ones: what they are."""
    lake = Lake(journal=str(journal))
    rows = (
        from_arrow(lake.ask(f"SELECT * FROM journal WHERE {one_of('event_key', event_keys)}"))
        if "journal" in lake
        else []
    )
    return {key: _reported([row for row in rows if row.event_key == key]) for key in event_keys}


def _conditions(wanted: Wanted) -> Iterator[str]:
    yield f"decision = {text(Decision.IGNORED.value)}"
    yield f"event_key IS NOT NULL AND provider <> {text(OWN_PROVIDER)}"
    if wanted.provider is not None:
        yield f"provider = {text(wanted.provider)}"
    if wanted.event_types:
        yield one_of("event_type", wanted.event_types)
    if wanted.event_keys:
        yield one_of("event_key", wanted.event_keys)
    yield from decided(wanted.since, wanted.until)


def _reported(rows: Sequence[JournalRow]) -> str:
    """Of the rows of one event key: copies that came later say nothing of it."""
    held = [row for row in rows if row.decision is not Decision.DUPLICATE]
    if not held:
        return "unknown here; what isn't decided yet isn't in the journal"
    last = max(held, key=lambda row: row.seq)
    whom = f" by {last.handler_version}" if last.handler_version else ""
    if last.decision in OPEN_DECISIONS:
        return f"open: row {last.seq} is {last.decision.value}; see what comes of it first"
    if last.decision is Decision.IGNORED:
        return f"ignored in row {last.seq}{whom}, and the other options leave it out"
    before = any(row.decision is Decision.IGNORED and row.item_seq == last.item_seq for row in held)
    again = ", after it had been ignored: it was reprocessed before, and that has no second effect" if before else ""
    return f"{last.decision.value} in row {last.seq}{whom}{again}"


class Verdict(StrEnum):
    """What would come of it."""

    BOOKS = "books"
    """It would be booked: this alone is worth a command."""
    IGNORED = "ignored again"
    BOOKED_BEFORE = "booked before"
    """Another event reported the same movement, and was booked."""
    NOTHING = "books nothing"
    """It undoes what was never booked, or was undone before it was reported."""
    NO_BODY = "no body"
    """Retention dropped it, or it was redacted: what it said can't be known any more."""
    UNREADABLE = "unreadable"
    FAILS = "fails"
    """The handler raises: its cause is to be mended first."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Of one event. ``row`` is the one that ignored it, in the journal of ``stream``. ``late``: events of its entity
    that came later were applied since, so it would be booked behind them."""

    row: JournalRow
    verdict: Verdict
    why: str = ""
    postings: tuple[Posting, ...] = ()
    late: bool = False
    fact_key: str | None = None
    entity_key: str | None = None
    after: str | None = None
    unless: str | None = None
    """As `core.work.Applied`."""
    stream: str = ""

    def books_nothing(self, done: Collection[str]) -> str | None:
        """Why, where its booking wouldn't count once the facts that are ``done`` are booked."""
        if self.after is not None and self.after not in done:
            return f"{self.after} was never booked"
        return f"{self.unless} took it back before" if self.unless in done else None


@dataclass(slots=True)
class Forecaster:
    """Asks the handler and the adapters as they are installed here; a processor that still runs older code decides by
    its own. ``lake`` has the journal of ``stream``."""

    lake: Lake
    bodies: Location
    redactions: Location
    adapters: Mapping[str, Reader]
    handler: Handler
    stream: str = ""
    _facts: set[str] = field(default_factory=set)

    def of(self, rows: Sequence[JournalRow]) -> list[Forecast]:
        """In the rows' order. Of two events that report one movement only the first would be booked.

        :raises JournalBroken, LedgerUnreadable: a table can't be read
        """
        hashes = [row.body_sha256 for row in rows if row.body_sha256 is not None]
        kept = BodyStore(str(self.bodies), may_create=False).fetch(hashes) if has_table(str(self.bodies)) else {}
        gone = self._gone(rows, kept)
        found = self._in_their_order([self._one(row, kept, gone) for row in rows])
        return [replace(one, stream=self.stream) for one in found]

    def _gone(self, rows: Sequence[JournalRow], kept: Collection[str]) -> dict[str, str]:
        """Why bodies aren't there."""
        without = [row for row in rows if row.body_sha256 not in kept and row.body_sha256 != EMPTY_SHA256]
        return {one.body_sha256: str(one) for one in body_statuses(self.stream, self.bodies, self.redactions, without)}

    def _one(self, row: JournalRow, kept: Mapping[str, bytes], gone: Mapping[str, str]) -> Forecast:
        sha256 = row.body_sha256 or ""
        if sha256 not in kept and sha256 != EMPTY_SHA256:
            return Forecast(row, Verdict.NO_BODY, gone.get(sha256, "the row names no body"))
        body, adapter = kept.get(sha256, b""), self.adapters.get(row.provider or "")
        if adapter is None:
            return Forecast(row, Verdict.IGNORED, f"no adapter for {row.provider}")
        named = (row.event_key or "", row.event_type or "", body, cast(Mode, row.mode), row.tenant)
        try:
            names = renamed(adapter, *named)
        except Unparseable as unreadable:
            return Forecast(row, Verdict.UNREADABLE, unreadable.problem)
        return self._handled(row, body, names)

    def _handled(self, row: JournalRow, body: bytes, names: Names) -> Forecast:
        entity_key = names.entity_key or row.entity_key or ""
        item = WorkItem(
            item_seq=row.item_seq,
            event_key=row.event_key or "",
            entity_key=entity_key,
            provider=row.provider or "",
            account=row.account or "",
            event_type=row.event_type or "",
            body=body,
            fact_key=names.fact_key,
            attempt=0,
            tenant=row.tenant,
            fact_sha256=names.fact_sha256,
        )
        try:
            outcome = self.handler(item)
        except Exception as failure:  # whatever it raises would be its event's error
            return Forecast(row, Verdict.FAILS, f"{type(failure).__name__}: {failure}")
        if isinstance(outcome, Applied):
            found = Forecast(row, Verdict.BOOKS, postings=outcome.postings, fact_key=names.fact_key)
            return replace(found, entity_key=entity_key, after=outcome.after, unless=outcome.unless)
        if isinstance(outcome, IgnoredAgain):
            return Forecast(row, Verdict.IGNORED, outcome.reason)
        return Forecast(row, Verdict.FAILS, f"{outcome.downstream} {outcome.reason}")

    def _in_their_order(self, found: Sequence[Forecast]) -> list[Forecast]:
        """What the journal says of the facts and the entities of those that would be booked."""
        books = [one for one in found if one.verdict is Verdict.BOOKS]
        keys = {key for one in books for key in (one.fact_key, one.after, one.unless) if key is not None}
        applied = self._applied_facts(keys)
        last = self._last_applied({one.entity_key for one in books if one.entity_key is not None})
        reported = []
        for one in found:
            if one.verdict is Verdict.BOOKS and one.fact_key is not None:
                if one.fact_key in applied or one.fact_key in self._facts:
                    where = f"in row {applied[one.fact_key]}" if one.fact_key in applied else "by one before it"
                    reported.append(Forecast(one.row, Verdict.BOOKED_BEFORE, f"{one.fact_key} is booked {where}"))
                    continue
                done = self._facts | applied.keys()
                self._facts.add(one.fact_key)
                nothing = one.books_nothing(done)
                if nothing is not None:
                    reported.append(Forecast(one.row, Verdict.NOTHING, nothing))
                    continue
            reported.append(replace(one, late=last.get(one.entity_key or "", 0) > one.row.item_seq))
        return reported

    def _applied_facts(self, facts: Collection[str]) -> dict[str, int]:
        wanted = f"decision = 'applied' AND {one_of('fact_key', sorted(facts))}"
        found = self.lake.ask(f"SELECT fact_key, min(seq) AS seq FROM journal WHERE {wanted} GROUP BY fact_key")
        return {one["fact_key"]: one["seq"] for one in found.to_pylist()}

    def _last_applied(self, entities: Collection[str]) -> dict[str, int]:
        wanted = f"decision = 'applied' AND {one_of('entity_key', sorted(entities))}"
        found = self.lake.ask(
            f"SELECT entity_key, max(item_seq) AS item_seq FROM journal WHERE {wanted} GROUP BY entity_key"
        )
        return {one["entity_key"]: one["item_seq"] for one in found.to_pylist()}
