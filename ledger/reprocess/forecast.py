"""What would become of an ignored event if it were taken up again: today's handler is asked, and nothing is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import cast

from core.errors import Unparseable
from core.event import Mode
from core.location import Location
from core.work import Applied, Handler, Ignored, Posting, WorkItem
from journal.bodies import BodyStore
from journal.index_changes import EMPTY_SHA256
from journal.lake import has_table
from journal.schema import JournalRow
from ledger.queries.lake import Lake, one_of
from ledger.redactions import body_statuses
from providers.reread import Names, Reader, renamed


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
        return {one.body_sha256: str(one) for one in body_statuses(self.bodies, self.redactions, without)}

    def _one(self, row: JournalRow, kept: Mapping[str, bytes], gone: Mapping[str, str]) -> Forecast:
        sha256 = row.body_sha256 or ""
        if sha256 not in kept and sha256 != EMPTY_SHA256:
            return Forecast(row, Verdict.NO_BODY, gone.get(sha256, "the row names no body"))
        body, adapter = kept.get(sha256, b""), self.adapters.get(row.provider or "")
        if adapter is None:
            return Forecast(row, Verdict.IGNORED, f"no adapter for {row.provider}")
        named = (row.event_key or "", row.event_type or "", body, cast(Mode, row.mode), row.tenant, row.zone)
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
            found = Forecast(row, Verdict.BOOKS, "", outcome.postings, False, names.fact_key, entity_key)
            return replace(found, after=outcome.after, unless=outcome.unless)
        why = outcome.reason if isinstance(outcome, Ignored) else f"{outcome.downstream} {outcome.reason}"
        return Forecast(row, Verdict.IGNORED if isinstance(outcome, Ignored) else Verdict.FAILS, why)

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
