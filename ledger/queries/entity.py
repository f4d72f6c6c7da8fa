"""One entity: its events in Kafka's order, what was decided of each, and what that left on its accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.money import decimals_of
from journal.schema import JournalRow, from_arrow
from ledger.postings import flat
from ledger.queries.lake import Lake, text

EVENTS_MAX = 1_000
_COLUMNS = (
    *("seq", "item_seq", "first", "topic", "partition", "offset", "decision", "attempt", "decided_at", "received_at"),
    *("occurred_at", "event_key", "fact_key", "entity_key", "event_type", "provider", "reason", "cause_seq", "actor"),
    *("error_class", "error_message", "out_of_order", "blocking", "postings"),
)


@dataclass(frozen=True, slots=True)
class RunningLine:
    """One line of a booking, and the entity's balance (debits minus credits) on its account after it."""

    seq: int
    account: str
    side: str
    amount_minor: int
    currency: str
    decimals: int
    balance_minor: int


@dataclass(frozen=True, slots=True)
class EntityEvent:
    """One of an entity's events: its rows, oldest first, and what they book."""

    rows: tuple[JournalRow, ...]
    lines: tuple[RunningLine, ...]

    @property
    def first(self) -> JournalRow:
        return self.rows[0]


@dataclass(frozen=True, slots=True)
class EntityStory:
    """The first of an entity's ``total`` events in the order in which Kafka holds them.

    ``stream``: whose journal has the rows.
    """

    entity_key: str
    total: int
    events: tuple[EntityEvent, ...]
    stream: str = ""

    def balances(self) -> Mapping[tuple[str, str], int]:
        """By account and currency, after the events that are here."""
        return {(line.account, line.currency): line.balance_minor for event in self.events for line in event.lines}


def entity_story(journal: str, entity_key: str, limit: int = EVENTS_MAX, stream: str = "") -> EntityStory:
    """The first ``limit`` events of an entity; none of one that nothing is known of.

    A running balance is that in Kafka's order. Where an event was applied late, after later ones (``out_of_order``),
    the order of booking was another; the last balance is the same.

    :raises LedgerUnreadable: the journal is damaged
    """
    lake = Lake(journal=journal)
    if "journal" not in lake:
        return EntityStory(entity_key, 0, (), stream)
    is_its = f"entity_key = {text(entity_key)}"
    found = lake.ask(f"SELECT item_seq FROM journal WHERE {is_its} GROUP BY item_seq ORDER BY item_seq")
    items = found["item_seq"].to_pylist()
    rows: list[JournalRow] = []
    if shown := items[:limit]:
        between = f"item_seq BETWEEN {shown[0]} AND {shown[-1]}"
        rows = from_arrow(
            lake.ask(f"SELECT {_listed()} FROM journal WHERE {is_its} AND {between} ORDER BY item_seq, seq")
        )
    return EntityStory(entity_key, len(items), tuple(_events(rows)), stream)


def _listed() -> str:
    return ", ".join(f'"{name}"' for name in _COLUMNS)


def _events(rows: Sequence[JournalRow]) -> list[EntityEvent]:
    by_item: dict[int, list[JournalRow]] = {}
    for row in rows:
        by_item.setdefault(row.item_seq, []).append(row)
    balances: dict[tuple[str, str], int] = {}
    return [EntityEvent(tuple(of_item), _lines(of_item, balances)) for of_item in by_item.values()]


def _lines(rows: Sequence[JournalRow], balances: dict[tuple[str, str], int]) -> tuple[RunningLine, ...]:
    lines = []
    for line in flat(rows).to_pylist():
        account, currency = line["account"], line["currency"]
        signed = line["amount_minor"] if line["side"] == "debit" else -line["amount_minor"]
        balances[account, currency] = balance = balances.get((account, currency), 0) + signed
        amount, decimals = line["amount_minor"], decimals_of(currency)
        lines.append(RunningLine(line["seq"], account, line["side"], amount, currency, decimals, balance))
    return tuple(lines)
