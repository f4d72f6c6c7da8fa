"""Payments by whatever a person has in hand: a key, a provider's id, an order id, an amount, an account.

What is found are stories to choose from: each is an entity (a payment, say), or an event that belongs to none.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus

import orjson

from core.clock import Deadline
from core.decision import Decision
from core.keys import key_part
from core.layout import StreamLayout
from core.money import AMOUNT_MINOR_MAX, CURRENCIES_BY_DECIMALS, decimals_of
from ledger.queries.journals import LedgerJournals
from ledger.queries.lake import PinnedTables, join_conditions, match_any, quote_literal

FOUND_MAX = 50
SEARCH_S_MAX = 15.0
"""Less than a page waits for its answer."""

WINDOW_ROWS = 1_000_000
"""The newest rows, which are looked at first; then as many more as all before, and so on."""

TEXT_CHARS_MAX = 500
ROWS_PER_PAYMENT = 20
"""So many of the newest rows that match are looked at for each payment that is listed: an account has most rows."""

BODIES_MAX = 200
"""Bodies that are read to see whether they really hold an order id where the setting says."""

DEPTH_MAX = 20
FORM_FIELDS_MAX = 1_000
_KEY = "coalesce(entity_key, event_key)"
_AMOUNT = re.compile(r"(?:([A-Za-z]{3}) ?)?(\d{1,3}(?:,\d{3})+|\d{1,16})(\.\d{1,4})?(?: ?([A-Za-z]{3}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment's story: an entity's by its key, or where an event has no entity that event's.

    ``decision``, ``event_type`` and ``at`` are of its newest row that matches; ``amounts``: the sums of its first
    booking by currency, in minor units. ``stream``: whose journal has it.
    """

    key: str
    is_entity: bool
    decision: str
    event_type: str | None
    at: datetime
    stream: str
    merchant: str | None = None
    amounts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Payments:
    """The newest payments first.

    ``more``: there are, or may be, others, so that the person should type more. ``looked_since``: older decisions
    weren't looked at, because the time was over; None: all were.
    """

    found: tuple[Payment, ...]
    more: bool = False
    looked_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class AmountQuery:
    amount: Decimal
    currency: str | None

    def build_condition(self) -> str:
        """Returns the SQL condition on a posting of it; ``12.50`` is 1250 minor units of EUR and 12500 of KWD."""
        if self.currency is not None:
            minor = self._scale_amount(decimals_of(self.currency))
            return "false" if minor is None else f"currency = {quote_literal(self.currency)} AND amount_minor = {minor}"
        special = sorted(currency for currencies in CURRENCIES_BY_DECIMALS.values() for currency in currencies)
        parts = [
            f"{match_any('currency', sorted(currencies))} AND amount_minor = {minor}"
            for decimals, currencies in CURRENCIES_BY_DECIMALS.items()
            if (minor := self._scale_amount(decimals)) is not None
        ]
        if (minor := self._scale_amount(2)) is not None:
            parts.append(f"NOT ({match_any('currency', special)}) AND amount_minor = {minor}")
        return " OR ".join(f"({part})" for part in parts) or "false"

    def list_minors(self) -> set[int]:
        decimals = {2, *CURRENCIES_BY_DECIMALS} if self.currency is None else {decimals_of(self.currency)}
        return {minor for places in decimals if (minor := self._scale_amount(places)) is not None}

    def is_of(self, amount_minor: int | None, currency: str | None) -> bool:
        if amount_minor is None or currency is None or self.currency not in (None, currency):
            return False
        return self._scale_amount(decimals_of(currency)) == amount_minor

    def _scale_amount(self, decimals: int) -> int | None:
        scaled = self.amount.scaleb(decimals)
        return int(scaled) if scaled == scaled.to_integral_value() and scaled <= AMOUNT_MINOR_MAX else None


def read_amount(words: str) -> AmountQuery | None:
    """Parses ``12.50``, ``12.50 EUR`` or ``EUR 1,250``; None: it is no amount."""
    match = _AMOUNT.fullmatch(words)
    if match is None or (match[1] and match[4]):
        return None
    currency = match[1] or match[4]
    return AmountQuery(Decimal(match[2].replace(",", "") + (match[3] or "")), currency.upper() if currency else None)


def find_payments(
    ledger: LedgerJournals,
    words: str,
    deadline: Deadline,
    order_field: str = "",
    limit: int = FOUND_MAX,
    only: Collection[Decision] = (),
) -> Payments:
    """Finds the payments that a text names.

    The whole key of an event, a fact or an entity finds that one alone. Otherwise the text may be part of a key, an
    account or a merchant, or an amount. Where that finds nothing, order ids in bodies are searched.

    :param deadline: once it has passed, older rows aren't looked at
    :param order_field: the field of JSON and form bodies that holds order ids, such as ``metadata.order_id``; empty:
    bodies aren't searched
    :param only: payments of which an event was decided so; of nothing: all
    :raises LedgerUnreadable: a table is damaged
    """
    words = words.strip()[:TEXT_CHARS_MAX]
    if not words:
        return Payments(())
    # One after the other: each looks through the journal, or through the bodies, and mostly the first one finds it.
    widest = Payments(())
    for conditions_of in (_match_whole_keys, _match_parts, functools.partial(_match_order_id, ledger, order_field)):
        if conditions := conditions_of(words):
            payments = _find_matching(ledger, conditions, limit, only, deadline)
            if payments.found:
                return payments
            widest = max(widest, payments, key=lambda answer: answer.more)
    return widest


def _match_whole_keys(words: str) -> list[str]:
    return (
        [f"{name} = {quote_literal(words)}" for name in ("event_key", "entity_key", "fact_key")] if ":" in words else []
    )


def _match_parts(words: str) -> list[str]:
    texts, amount = sorted({words, key_part(words)}), read_amount(words)
    if amount is not None and (amount.currency is not None or "." in words or "," in words):
        return [f"seq IN (SELECT seq FROM postings WHERE {amount.build_condition()})"]
    keys = [
        f"strpos({name}, {quote_literal(given)}) > 0"
        for name in ("event_key", "fact_key", "entity_key")
        for given in texts
    ]
    booked = [match_any("merchant", texts), f"account = {quote_literal(words)}"]
    if amount is not None:
        booked.append(amount.build_condition())
    of_bookings = " OR ".join(f"({condition})" for condition in booked)
    return [*keys, match_any("account", texts), f"seq IN (SELECT seq FROM postings WHERE {of_bookings})"]


def _find_matching(
    ledger: LedgerJournals, conditions: Sequence[str], limit: int, only: Collection[Decision], deadline: Deadline
) -> Payments:
    parts = [_find_in_journal(ledger, at, conditions, limit, only, deadline) for at in ledger.places]
    # Of a payment that moved to another shard, the newest row says where it stands.
    newest = {
        payment.key: payment
        for payment in sorted((payment for part in parts for payment in part.found), key=lambda payment: payment.at)
    }
    payments = sorted(newest.values(), key=lambda payment: payment.at, reverse=True)
    is_more = len(payments) > limit or any(part.more for part in parts)
    since = max((part.looked_since for part in parts if part.looked_since is not None), default=None)
    return Payments(tuple(payments[:limit]), is_more, since)


def _find_in_journal(
    ledger: LedgerJournals,
    at: StreamLayout,
    conditions: Sequence[str],
    limit: int,
    only: Collection[Decision],
    deadline: Deadline,
) -> Payments:
    lake = PinnedTables(journal=str(at.journal), postings=str(at.postings))
    if "journal" not in lake:
        return Payments(())
    if "postings" not in lake:
        conditions = [condition for condition in conditions if "FROM postings" not in condition]
    every = [" OR ".join(f"({condition})" for condition in conditions), "provider IS NOT NULL"]
    if only:
        decided = match_any("decision", sorted(decision.value for decision in only))
        every.append(f"{_KEY} IN (SELECT {_KEY} FROM journal WHERE {decided})")
    # First which, then what: only of those few are the other columns read.
    newest, since = _read_newest(
        lake, join_conditions([*every, f"{_KEY} IS NOT NULL"]), ledger.own_after(at), limit, deadline
    )
    last: dict[str, int] = {}
    for row in newest:
        last.setdefault(row["key"], row["seq"])
    listed = dict(itertools.islice(last.items(), limit))
    columns = f"SELECT {_KEY} AS key, entity_key, decision, event_type, decided_at FROM journal"
    rows = lake.ask(f"{columns} WHERE {match_any('seq', listed.values())} ORDER BY seq DESC").to_pylist()
    payments = [_parse_payment(row, at.stream) for row in rows]
    with_amounts = _add_amounts(lake, payments) if "postings" in lake else payments
    is_more = len(last) > limit or len(newest) == ROWS_PER_PAYMENT * limit or since is not None
    return Payments(tuple(with_amounts), is_more, since)


def _read_newest(
    lake: PinnedTables, where: str, after: int, limit: int, deadline: Deadline
) -> tuple[list[dict[str, Any]], datetime | None]:
    """Reads the newest matching rows after ``after``, by their seq and key.

    Where the time wasn't enough for all, it also returns since when it looked at rows.
    """
    rows_found: list[dict[str, Any]] = []
    most, rows = ROWS_PER_PAYMENT * limit, WINDOW_ROWS
    [upto] = lake.ask("SELECT coalesce(max(seq), 0) AS seq FROM journal")["seq"].to_pylist()
    while upto > after and len(rows_found) < most:
        low = max(after, upto - rows)
        rows_found += lake.ask(
            f"SELECT seq, {_KEY} AS key FROM journal {where} AND seq > {low} AND seq <= {upto} "
            f"ORDER BY seq DESC LIMIT {most - len(rows_found)}"
        ).to_pylist()
        upto, rows = low, 2 * rows
        if deadline.remaining_s <= 0:
            break
    if upto <= after or len(rows_found) >= most:
        return rows_found, None
    oldest = lake.ask(f"SELECT decided_at FROM journal WHERE seq = {upto + 1}")["decided_at"].to_pylist()
    return rows_found, oldest[0] if oldest else None


def _parse_payment(row: Mapping[str, Any], stream: str) -> Payment:
    return Payment(
        key=row["key"],
        is_entity=row["entity_key"] is not None,
        decision=row["decision"],
        event_type=row["event_type"],
        at=row["decided_at"],
        stream=stream,
    )


def _add_amounts(lake: PinnedTables, payments: Sequence[Payment]) -> list[Payment]:
    """Adds each payment's amounts. All lines of a booking have one amount, so one of the first has it."""
    keys = [payment.key for payment in payments]
    lines = lake.ask(
        f"SELECT {_KEY} AS key, seq, merchant, currency, amount_minor FROM postings "
        f"WHERE side = 'debit' AND ({match_any('entity_key', keys)} OR {match_any('event_key', keys)}) ORDER BY "
        "seq, line"
    ).to_pylist()
    first: dict[str, Mapping[str, Any]] = {}
    for row in lines:
        first.setdefault(row["key"], row)
    return [
        payment
        if (line := first.get(payment.key)) is None
        else replace(payment, merchant=line["merchant"], amounts={line["currency"]: line["amount_minor"]})
        for payment in payments
    ]


def _match_order_id(ledger: LedgerJournals, order_field: str, words: str) -> list[str]:
    hashes: list[str] = []
    for at in ledger.places if order_field else ():
        lake = PinnedTables(bodies=str(at.bodies_table))
        if "bodies" not in lake:
            continue
        path = tuple(order_field.split("."))
        body = "TRY_CAST(body AS varchar)"
        written = [words, quote(words, safe=""), quote_plus(words)]
        holds = " OR ".join(f"strpos({body}, {quote_literal(spelling)}) > 0" for spelling in dict.fromkeys(written))
        rows = lake.ask(
            f"SELECT body_sha256, body FROM bodies WHERE strpos({body}, {quote_literal(path[-1])}) > 0 AND ({holds}) "
            f"LIMIT {BODIES_MAX}"
        ).to_pylist()
        hashes += [row["body_sha256"] for row in rows if words in _find_values_in_body(row["body"], path)]
    return [match_any("body_sha256", sorted(hashes))] if hashes else []


def _find_values_in_body(body: bytes, path: tuple[str, ...]) -> Iterator[str]:
    try:
        tree = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _find_values_in_form(body, path)
    return _find_values(tree, path)


def _find_values_in_form(body: bytes, path: tuple[str, ...]) -> Iterator[str]:
    try:
        fields = parse_qsl(body.decode("utf-8"), max_num_fields=FORM_FIELDS_MAX)
    except ValueError:
        return
    for name, value in fields:
        names = tuple(name.replace("]", "").replace("[", ".").split("."))
        if names[-len(path) :] == path:
            yield value


def _find_values(tree: object, path: tuple[str, ...], depth: int = 0) -> Iterator[str]:
    if depth > DEPTH_MAX:
        return
    if isinstance(tree, dict):
        value: object = tree
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, str | int) and not isinstance(value, bool):
            yield str(value)
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _find_values(child, path, depth + 1)
