"""The postings of one account, the newest first, each with the balance after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.money import decimals_of
from core.routing import row_name
from ledger.queries.balances import SIGNED, AsOf, build_conditions
from ledger.queries.journals import Cursor
from ledger.queries.lake import PinnedTables, Tables, format_time, join_conditions, list_tables, quote_literal

POSTINGS_MAX = 1_000
"""Of one page."""

_COLUMNS = (
    "seq, line, stream, account, side, amount_minor, currency, merchant, provider, event_key, fact_key, entity_key, "
    "occurred_at, decided_at"
)
_NEWEST_FIRST = "ORDER BY decided_at DESC, stream DESC, seq DESC, line DESC"


@dataclass(frozen=True, slots=True)
class PostingLine:
    """A line of a booking, and the account's balance (debits minus credits) in its currency after it.

    ``seq`` is the row of the journal of ``stream`` that booked it.
    """

    seq: int
    line: int
    stream: str
    account: str
    side: str
    amount_minor: int
    currency: str
    decimals: int
    balance_minor: int
    merchant: str | None
    provider: str | None
    event_key: str | None
    fact_key: str | None
    entity_key: str | None
    occurred_at: datetime | None
    decided_at: datetime

    @property
    def name(self) -> str:
        return row_name(self.stream, self.seq)

    @property
    def cursor(self) -> str:
        return Cursor(self.decided_at, (self.seq, self.line), self.stream).text

    @property
    def signed_minor(self) -> int:
        return self.amount_minor if self.side == "debit" else -self.amount_minor


@dataclass(frozen=True, slots=True)
class PostingsPage:
    """``count``: how many postings match on all pages. ``next``: the cursor of the page after this one."""

    lines: tuple[PostingLine, ...]
    count: int
    next: str | None


def _match_older(begin: Cursor) -> str:
    (seq, line), at, stream = begin.numbers, format_time(begin.at), quote_literal(begin.stream)
    in_stream = f"stream = {stream} AND (seq < {seq} OR (seq = {seq} AND line < {line}))"
    return f"decided_at < {at} OR (decided_at = {at} AND (stream < {stream} OR ({in_stream})))"


def read_postings_page(
    tables: Tables,
    account: str,
    currency: str | None = None,
    merchant: str | None = None,
    as_of: AsOf | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> PostingsPage:
    """Reads a page of the postings that `sum_balances` sums for the account, with the same ``merchant`` and ``as_of``.

    :param tables: the path of the postings table, or those of several journals
    :param cursor: ``next`` of the page before
    :raises CursorInvalid: no page gave the cursor
    :raises LedgerUnreadable: a table is damaged
    """
    assert 1 <= limit <= POSTINGS_MAX
    begin = None if cursor is None else Cursor.read(cursor, numbers=2)
    lake = PinnedTables(postings=tables)
    if "postings" not in lake:
        return PostingsPage((), 0, None)
    single = list_tables(tables)[0].stream
    source = (
        "postings" if len(list_tables(tables)) > 1 else f"(SELECT *, {quote_literal(single)} AS stream FROM postings)"
    )
    conditions = [f"account = {quote_literal(account)}", *build_conditions(merchant, currency, as_of or AsOf())]
    [counted] = lake.ask(f"SELECT count(*) AS lines FROM {source} {join_conditions(conditions)}").to_pylist()
    older = [*conditions, *([] if begin is None else [_match_older(begin)])]
    rows = lake.ask(
        f"SELECT {_COLUMNS} FROM {source} {join_conditions(older)} {_NEWEST_FIRST} LIMIT {limit + 1}"
    ).to_pylist()
    sums = lake.ask(f"SELECT currency, {SIGNED} AS balance FROM {source} {join_conditions(older)} GROUP BY currency")
    page, more = rows[:limit], len(rows) > limit
    lines = _add_balances(page, {row["currency"]: int(row["balance"]) for row in sums.to_pylist()})
    return PostingsPage(lines, counted["lines"], lines[-1].cursor if more else None)


def _add_balances(rows: Sequence[Mapping[str, Any]], balances: dict[str, int]) -> tuple[PostingLine, ...]:
    lines = []
    for row in rows:
        currency = row["currency"]
        line = PostingLine(decimals=decimals_of(currency), balance_minor=balances[currency], **row)
        balances[currency] -= line.signed_minor
        lines.append(line)
    return tuple(lines)
