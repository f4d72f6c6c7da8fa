"""Decisions that match: the newest first, never more than a limit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.decision import Decision
from core.keys import key_part
from core.routing import row_name
from journal.schema import JournalRow, from_arrow
from ledger.postings import flatten_postings
from ledger.queries.journals import Cursor, CursorInvalid
from ledger.queries.lake import (
    PinnedTables,
    TableRows,
    Tables,
    format_time,
    join_conditions,
    list_tables,
    match_any,
    match_decided_within,
    quote_literal,
)

LIMIT_MAX = 10_000
_COLUMNS = (
    *("seq", "item_seq", "first", "topic", "partition", "offset", "decision", "attempt", "decided_at", "received_at"),
    *("occurred_at", "event_key", "fact_key", "entity_key", "event_type", "provider", "account", "reason"),
    *("error_class", "error_message", "postings"),
)


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """A filter of decisions; None matches everything. ``since`` is included, ``until`` isn't.

    Merchant, amount and currency are those of what was booked: a decision that books nothing has none. ``in_keys`` is a
    text within the event's, the fact's or the entity's key.
    """

    event_type: str | None = None
    provider: str | None = None
    merchant: str | None = None
    decision: Decision | None = None
    since: datetime | None = None
    until: datetime | None = None
    amount_minor: int | None = None
    currency: str | None = None
    in_keys: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A decision and its booking, of which each line has the same amount. Without a booking these are None.

    ``stream``: whose journal has the row.
    """

    row: JournalRow
    merchant: str | None
    amount_minor: int | None
    currency: str | None
    stream: str = ""

    @property
    def name(self) -> str:
        return row_name(self.stream, self.row.seq)

    @property
    def cursor(self) -> str:
        return Cursor(self.row.decided_at, (self.row.seq,), self.stream).text


def search_decisions(
    journal: Tables, postings: Tables, filters: DecisionFilter, limit: int = 50, cursor: str | None = None
) -> list[Hit]:
    """Finds the newest ``limit`` decisions (`LIMIT_MAX` at most) that match.

    Tables of several journals come in the same order in both.

    :param cursor: `Hit.cursor` of the last decision of the page before
    :raises CursorInvalid: no decision gave the cursor
    :raises LedgerUnreadable: a table is damaged
    """
    assert 1 <= limit <= LIMIT_MAX
    begin = None if cursor is None else Cursor.read(cursor, numbers=1)
    journals = list_tables(journal)
    by_journal = [
        _read_newest(rows, lines, filters, limit, _match_older(begin, rows, journals))
        for rows, lines in zip(journals, list_tables(postings), strict=True)
    ]
    if len(by_journal) == 1:
        return by_journal[0]
    return sorted(itertools.chain(*by_journal), key=lambda hit: (hit.row.decided_at, hit.row.seq), reverse=True)[:limit]


def _match_older(begin: Cursor | None, rows: TableRows, journals: Sequence[TableRows]) -> list[str]:
    """Returns the conditions on a journal's rows after a page. At the same moment earlier journals' rows come first."""
    if begin is None:
        return []
    [seq] = begin.numbers
    if len(journals) == 1:
        return [f"seq < {seq}"]
    streams = [rows.stream for rows in journals]
    if begin.stream not in streams:
        raise CursorInvalid(begin.text)
    sign = "<=" if streams.index(rows.stream) > streams.index(begin.stream) else "<"
    at = format_time(begin.at)
    return [f"decided_at < {at} OR (decided_at = {at} AND seq {sign} {seq})"]


def _read_newest(
    journal: TableRows, postings: TableRows, filters: DecisionFilter, limit: int, older: Sequence[str]
) -> list[Hit]:
    lake = PinnedTables(journal=[journal], postings=[postings])
    booked = _match_bookings(filters)
    if "journal" not in lake or (booked and "postings" not in lake):
        return []
    conditions = [*_match_rows(filters), *older]
    if journal.after:
        conditions.append(f"seq > {journal.after}")
    if booked:
        conditions.append(f"seq IN (SELECT seq FROM postings {join_conditions(booked)})")
    # First which, then what: only of those few are the wide columns read.
    newest = lake.ask(f"SELECT seq FROM journal {join_conditions(conditions)} ORDER BY seq DESC LIMIT {limit}")
    seqs = newest["seq"].to_pylist()
    listed = ", ".join(f'"{name}"' for name in _COLUMNS)
    rows = from_arrow(lake.ask(f"SELECT {listed} FROM journal WHERE {match_any('seq', seqs)} ORDER BY seq DESC"))
    return [_build_hit(row, journal.stream) for row in rows]


def _match_rows(filters: DecisionFilter) -> list[str]:
    conditions = []
    if filters.event_type is not None:
        conditions.append(f"event_type = {quote_literal(filters.event_type)}")
    if filters.provider is not None:
        conditions.append(f"provider = {quote_literal(filters.provider)}")
    if filters.decision is not None:
        conditions.append(f"decision = {quote_literal(filters.decision.value)}")
    if filters.in_keys is not None:
        keys = ("event_key", "fact_key", "entity_key")
        conditions.append(" OR ".join(f"strpos({key}, {quote_literal(filters.in_keys)}) > 0" for key in keys))
    return conditions + match_decided_within(filters.since, filters.until)


def _match_bookings(filters: DecisionFilter) -> list[str]:
    conditions = []
    if filters.merchant is not None:
        conditions.append(match_any("merchant", sorted({filters.merchant, key_part(filters.merchant)})))
    if filters.amount_minor is not None:
        conditions.append(f"amount_minor = {filters.amount_minor}")
    if filters.currency is not None:
        conditions.append(f"currency = {quote_literal(filters.currency)}")
    return conditions + match_decided_within(filters.since, filters.until) if conditions else []


def _build_hit(row: JournalRow, stream: str) -> Hit:
    line = next(iter(flatten_postings([row]).to_pylist()), None)
    if line is None:
        return Hit(row, None, None, None, stream)
    return Hit(row, line["merchant"], line["amount_minor"], line["currency"], stream)
