"""Payments by whatever a person has in hand: a key, a provider's id, an order id, an amount, an account.

What is found are stories to choose from: each is an entity (a payment, say), or an event that belongs to none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson

from core.decision import Decision
from core.keys import key_part
from core.layout import StreamLayout
from core.money import AMOUNT_MINOR_MAX, CURRENCIES_BY_DECIMALS, decimals_of
from ledger.queries.journals import LedgerJournals
from ledger.queries.lake import Lake, all_of, one_of, text

FOUND_MAX = 50
TEXT_CHARS_MAX = 500
BODIES_MAX = 200
"""Bodies that are read to see whether they really hold an order id where the setting says."""

DEPTH_MAX = 20
_KEY = "coalesce(entity_key, event_key)"
_AMOUNT = re.compile(r"(?:([A-Za-z]{3}) ?)?(\d{1,3}(?:,\d{3})+|\d{1,16})(\.\d{1,4})?(?: ?([A-Za-z]{3}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Payment:
    """One story: ``entity_key``, or where there is none the key of its one event. ``events``: how many of it match.

    ``decision``, ``event_type`` and ``at`` are of its newest row that matches; ``amounts`` what its first booking came
    to, by currency, in minor units. ``stream``: whose journal has it.
    """

    key: str
    is_entity: bool
    events: int
    decision: str
    event_type: str | None
    at: datetime
    stream: str
    merchant: str | None = None
    amounts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Payments:
    """The newest first. ``more``: there are others, so that the text should say more."""

    found: tuple[Payment, ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class AmountWanted:
    """An amount as a person types it, in any currency where none is named."""

    amount: Decimal
    currency: str | None

    def condition(self) -> str:
        """What holds of a posting of this amount; ``12.50`` is 1250 minor units of EUR and 12500 of KWD."""
        if self.currency is not None:
            minor = self._minor(decimals_of(self.currency))
            return "false" if minor is None else f"currency = {text(self.currency)} AND amount_minor = {minor}"
        special = sorted(currency for currencies in CURRENCIES_BY_DECIMALS.values() for currency in currencies)
        parts = [
            f"{one_of('currency', sorted(currencies))} AND amount_minor = {minor}"
            for decimals, currencies in CURRENCIES_BY_DECIMALS.items()
            if (minor := self._minor(decimals)) is not None
        ]
        if (minor := self._minor(2)) is not None:
            parts.append(f"NOT ({one_of('currency', special)}) AND amount_minor = {minor}")
        return " OR ".join(f"({one})" for one in parts) or "false"

    def _minor(self, decimals: int) -> int | None:
        scaled = self.amount.scaleb(decimals)
        return int(scaled) if scaled == scaled.to_integral_value() and scaled <= AMOUNT_MINOR_MAX else None


def read_amount(words: str) -> AmountWanted | None:
    """``12.50``, ``12.50 EUR``, ``EUR 1,250``; None: it is no amount."""
    found = _AMOUNT.fullmatch(words)
    if found is None or (found[1] and found[4]):
        return None
    currency = found[1] or found[4]
    return AmountWanted(Decimal(found[2].replace(",", "") + (found[3] or "")), currency.upper() if currency else None)


def find_payments(
    ledger: LedgerJournals,
    words: str,
    order_field: str = "",
    limit: int = FOUND_MAX,
    only: Collection[Decision] = (),
) -> Payments:
    """The payments that a text names. A whole key of an event, a fact or an entity is that one alone; else whatever
    has it in a key, as its account or merchant, or as its amount. An order id is looked for in bodies where nothing
    else is found.

    :param order_field: the field of bodies that holds order ids, such as ``metadata.order_id``; empty: none is asked
    :param only: payments of which an event was decided so; of nothing: all
    :raises LedgerUnreadable: a table is damaged
    """
    words = words.strip()[:TEXT_CHARS_MAX]
    if not words:
        return Payments(())
    exact = " OR ".join(f"{name} = {text(words)}" for name in ("event_key", "entity_key", "fact_key"))
    for conditions in ([exact], _conditions(words), _of_orders(ledger, words, order_field)):
        if conditions and (found := _found(ledger, conditions, limit, only)) is not None:
            return found
    return Payments(())


def _conditions(words: str) -> list[str]:
    """What holds of a row that has the text, of which one is enough."""
    texts, amount = sorted({words, key_part(words)}), read_amount(words)
    if amount is not None and (amount.currency is not None or "." in words or "," in words):
        return [f"seq IN (SELECT seq FROM postings WHERE {amount.condition()})"]
    keys = [f"strpos({name}, {text(one)}) > 0" for name in ("event_key", "fact_key", "entity_key") for one in texts]
    booked = [one_of("merchant", texts), f"account = {text(words)}"]
    if amount is not None:
        booked.append(amount.condition())
    of_bookings = " OR ".join(f"({one})" for one in booked)
    return [*keys, one_of("account", texts), f"seq IN (SELECT seq FROM postings WHERE {of_bookings})"]


def _found(
    ledger: LedgerJournals, conditions: Sequence[str], limit: int, only: Collection[Decision]
) -> Payments | None:
    """None: nothing is like that."""
    payments = [one for at in ledger.places for one in _of_journal(ledger, at, conditions, limit + 1, only)]
    # Of a payment that moved to another shard, the newest row says where it stands.
    newest = {one.key: one for one in sorted(payments, key=lambda one: one.at)}
    payments = sorted(newest.values(), key=lambda one: one.at, reverse=True)
    return Payments(tuple(payments[:limit]), len(payments) > limit) if payments else None


def _of_journal(
    ledger: LedgerJournals, at: StreamLayout, conditions: Sequence[str], limit: int, only: Collection[Decision]
) -> list[Payment]:
    lake = Lake(journal=str(at.journal), postings=str(at.postings))
    if "journal" not in lake:
        return []
    if "postings" not in lake:
        conditions = [one for one in conditions if "FROM postings" not in one]
    every = [" OR ".join(f"({one})" for one in conditions), "provider IS NOT NULL", f"seq > {ledger.own_after(at)}"]
    if only:
        decided = one_of("decision", sorted(one.value for one in only))
        every.append(f"{_KEY} IN (SELECT {_KEY} FROM journal WHERE {decided})")
    # First which, then what: only of those few are the other columns read.
    groups = lake.ask(
        f"SELECT {_KEY} AS key, max(seq) AS seq, count(DISTINCT item_seq) AS events FROM journal {all_of(every)} "
        f"GROUP BY 1 HAVING {_KEY} IS NOT NULL ORDER BY 2 DESC LIMIT {limit}"
    ).to_pylist()
    columns = "seq, entity_key, decision, event_type, decided_at"
    seqs = [one["seq"] for one in groups]
    rows = {
        one["seq"]: one for one in lake.ask(f"SELECT {columns} FROM journal WHERE {one_of('seq', seqs)}").to_pylist()
    }
    payments = [_payment(one, rows[one["seq"]], at.stream) for one in groups]
    return _with_amounts(lake, payments) if "postings" in lake else payments


def _payment(group: Mapping[str, Any], row: Mapping[str, Any], stream: str) -> Payment:
    return Payment(
        key=group["key"],
        is_entity=row["entity_key"] is not None,
        events=group["events"],
        decision=row["decision"],
        event_type=row["event_type"],
        at=row["decided_at"],
        stream=stream,
    )


def _with_amounts(lake: Lake, payments: Sequence[Payment]) -> list[Payment]:
    """Each line of a booking has the same amount: one of the first booking is what it came to."""
    keys = [one.key for one in payments]
    found = lake.ask(
        f"SELECT {_KEY} AS key, seq, merchant, currency, amount_minor FROM postings "
        f"WHERE side = 'debit' AND ({one_of('entity_key', keys)} OR {one_of('event_key', keys)}) ORDER BY seq, line"
    ).to_pylist()
    first: dict[str, Mapping[str, Any]] = {}
    for one in found:
        first.setdefault(one["key"], one)
    return [
        one
        if (line := first.get(one.key)) is None
        else replace(one, merchant=line["merchant"], amounts={line["currency"]: line["amount_minor"]})
        for one in payments
    ]


def _of_orders(ledger: LedgerJournals, words: str, order_field: str) -> list[str]:
    """What holds of the rows whose bodies have an order id."""
    hashes: list[str] = []
    for at in ledger.places if order_field else ():
        lake = Lake(bodies=str(at.bodies))
        if "bodies" not in lake:
            continue
        quoted = orjson.dumps(order_field.rpartition(".")[2]).decode()
        body = "TRY_CAST(body AS varchar)"
        rows = lake.ask(
            f"SELECT body_sha256, body FROM bodies WHERE strpos({body}, {text(words)}) > 0 "
            f"AND strpos({body}, {text(quoted)}) > 0 LIMIT {BODIES_MAX}"
        ).to_pylist()
        path = tuple(order_field.split("."))
        hashes += [one["body_sha256"] for one in rows if words in _values(_parsed(one["body"]), path)]
    return [one_of("body_sha256", sorted(hashes))] if hashes else []


def _parsed(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _values(tree: object, path: tuple[str, ...], depth: int = 0) -> Iterator[str]:
    """The texts that stand at the path, wherever in the tree it begins."""
    if depth > DEPTH_MAX:
        return
    if isinstance(tree, dict):
        value: object = tree
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, str | int) and not isinstance(value, bool):
            yield str(value)
    for one in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _values(one, path, depth + 1)
