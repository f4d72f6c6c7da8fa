"""The story of an event: what was answered, what came, what was decided and booked, and where that is written.

And one entity's: its events in Kafka's order, what was decided of each, and what that left on its accounts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from core.decision import Decision
from core.money import decimals_of
from journal.bodies import BodyStore
from journal.histories import NOWHERE
from journal.lake import has_table
from journal.schema import JournalRow, from_arrow
from journal.state import Commit, commits_of
from ledger.postings import flatten_postings, mark_of
from ledger.queries.lake import PinnedTables, match_any, quote_literal

RECEIPTS_MAX = 1_000
"""Of one event, the first ones."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """An answer of the receiver. ``outcome`` is the receiver's word for it, ``status`` the HTTP status.

    ``partition``, ``offset`` and ``line`` are its place in the receipts' topic.
    """

    at: datetime | None
    outcome: str
    status: int | None
    content_sha256: str | None
    partition: int
    offset: int
    line: int


def read_receipts(lake: PinnedTables, event_keys: Collection[str]) -> list[Receipt]:
    """Reads the answers to deliveries of these events, oldest first; one more than `RECEIPTS_MAX` at most.

    :raises LedgerUnreadable: the table ``receipts`` of ``lake`` is damaged
    """
    if not event_keys:
        return []
    rows = lake.ask(
        'SELECT at, outcome, status, content_sha256, "partition", "offset", line FROM receipts '
        f"WHERE {match_any('event_key', sorted(event_keys))} "
        f'ORDER BY at, "partition", "offset", line LIMIT {RECEIPTS_MAX + 1}'
    )
    return [Receipt(**row) for row in rows.to_pylist()]


ROWS_MAX = 1_000
"""Of one key. An event that a provider sends more often than that is shown by its first rows."""

_SEQ = re.compile(r"seq:(\d{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class RowCause:
    seq: int
    decision: str
    event_key: str | None
    actor: str | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """The record of a Kafka offset, and every row that was decided of it, oldest first.

    ``source`` is the receiver's path. ``body_kept``: None where a row names no body.
    """

    first: JournalRow
    rows: tuple[JournalRow, ...]
    source: str | None
    body_kept: bool | None

    @property
    def kafka_location(self) -> str:
        row = self.first
        if row.offset == NOWHERE:
            return "nowhere: it was accepted as lost"
        several = "" if row.offset_until is None else f" to {row.offset_until - 1}"
        history = "" if row.history is None else f" of its history {row.history}"
        return f"{row.topic}, partition {row.partition}, offset {row.offset}{several}{history}"

    @property
    def replay_count(self) -> int:
        return sum(row.decision is Decision.REPLAYED for row in self.rows)


@dataclass(frozen=True, slots=True)
class EventStory:
    """Every journal row of an event key or fact key, oldest first (``cut``: only the first `ROWS_MAX`), and more.

    ``receipts``: what the receiver answered, as far as that was collected; None: there is no table of them. An event
    that was answered and isn't decided yet has no rows. ``postings``: the lines that the rows book. ``commits`` by
    ``batch_seq``, without those that the log has forgotten. ``causes`` by seq. ``reflected``: up to which seq the
    postings table has the lines. ``stream``: whose journal has the rows; ``others``: the rows by which others decided
    it too.
    """

    rows: list[JournalRow]
    postings: list[dict[str, Any]]
    deliveries: list[Delivery]
    commits: dict[int, Commit]
    causes: dict[int, RowCause]
    reflected: int
    cut: bool
    receipts: list[Receipt] | None = None
    stream: str = ""
    others: tuple[str, ...] = ()


def read_event_story(
    journal: str, postings: str, key: str, bodies: str | None = None, receipts: str | None = None, stream: str = ""
) -> EventStory:
    """Reads the story of an event key, else of a fact key; by ``seq:N`` that of a row's event.

    Paths of ``bodies`` and ``receipts`` add whether bodies are kept, and what was answered. An unknown key has no rows.

    :raises LedgerUnreadable: a table is damaged
    :raises JournalBroken: the journal's log is
    """
    places = {"journal": journal, "postings": postings, "receipts": receipts}
    lake = PinnedTables(**{name: path for name, path in places.items() if path is not None})
    rows = find_rows_named(lake, key) if "journal" in lake else []
    cut = len(rows) > ROWS_MAX
    rows = rows[:ROWS_MAX]
    return EventStory(
        rows=rows,
        postings=flatten_postings(rows).to_pylist(),
        deliveries=_build_deliveries(
            rows, _find_kept_bodies(bodies, rows) if bodies is not None and has_table(bodies) else None
        ),
        commits=commits_of(journal, {row.batch_seq for row in rows}) if rows else {},
        causes=_read_causes(lake, rows),
        reflected=mark_of(lake.table("postings")) if "postings" in lake else 0,
        cut=cut,
        receipts=read_receipts(lake, {row.event_key for row in rows if row.event_key} or {key})
        if "receipts" in lake
        else None,
        stream=stream,
    )


def find_rows_named(lake: PinnedTables, key: str) -> list[JournalRow]:
    """Finds the rows that a key names, whole, in seq order; one more than `ROWS_MAX` at most."""
    by_seq = _SEQ.fullmatch(key)
    if by_seq is None:
        # One after the other: looking through one column of a long journal takes half as long as through both.
        return _find_rows(lake, f"event_key = {quote_literal(key)}") or _find_rows(
            lake, f"fact_key = {quote_literal(key)}"
        )
    named = _read_rows(lake, [int(by_seq[1])])
    if not named:
        return []
    of_item = f"item_seq = {named[0].item_seq}"
    return _find_rows(
        lake, of_item if named[0].event_key is None else f"event_key = {quote_literal(named[0].event_key)}"
    )


def _find_rows(lake: PinnedTables, condition: str) -> list[JournalRow]:
    """Finds seqs first and then reads whole rows: files say which seqs they hold, so only a few are read."""
    rows = lake.ask(f"SELECT seq FROM journal WHERE {condition}")
    return _read_rows(lake, sorted(rows["seq"].to_pylist())[: ROWS_MAX + 1])


def _read_rows(lake: PinnedTables, seqs: Sequence[int]) -> list[JournalRow]:
    if not seqs:
        return []
    return sorted(
        from_arrow(lake.ask(f"SELECT * FROM journal WHERE {match_any('seq', seqs)}")), key=lambda row: row.seq
    )


def _build_deliveries(rows: Sequence[JournalRow], kept: Set[str] | None) -> list[Delivery]:
    return [
        Delivery(of_item[0], of_item, _read_source(of_item[0]), _is_kept(of_item[0], kept))
        for of_item in _group_by_item(rows)
    ]


def _group_by_item(rows: Iterable[JournalRow]) -> list[tuple[JournalRow, ...]]:
    by_item: dict[int, list[JournalRow]] = {}
    for row in rows:
        by_item.setdefault(row.item_seq, []).append(row)
    return [tuple(of_item) for _, of_item in sorted(by_item.items())]


def _read_source(first: JournalRow) -> str | None:
    headers = orjson.loads(first.headers) if first.headers else {}
    source = headers.get("ce_source") if isinstance(headers, dict) else None
    return source if isinstance(source, str) else None


def _is_kept(first: JournalRow, kept: Set[str] | None) -> bool | None:
    return None if kept is None or first.body_sha256 is None else first.body_sha256 in kept


def _find_kept_bodies(bodies: str, rows: Sequence[JournalRow]) -> Set[str]:
    hashes = {row.body_sha256 for row in rows if row.body_sha256 is not None}
    return BodyStore(bodies, may_create=False).find_kept(hashes)


def _read_causes(lake: PinnedTables, rows: Sequence[JournalRow]) -> dict[int, RowCause]:
    causes_here = {row.seq: RowCause(row.seq, row.decision.value, row.event_key, row.actor) for row in rows}
    seqs = {row.cause_seq for row in rows if row.cause_seq is not None}
    causes = {seq: causes_here[seq] for seq in seqs & causes_here.keys()}
    if elsewhere := sorted(seqs - causes_here.keys()):
        rows_there = lake.ask(
            f"SELECT seq, decision, event_key, actor FROM journal WHERE {match_any('seq', elsewhere)}"
        )
        causes |= {row["seq"]: RowCause(**row) for row in rows_there.to_pylist()}
    return causes


EVENTS_MAX = 1_000
_COLUMNS = (
    *("seq", "item_seq", "first", "topic", "partition", "offset", "decision", "attempt", "decided_at", "received_at"),
    *("occurred_at", "event_key", "fact_key", "entity_key", "event_type", "provider", "reason", "cause_seq", "actor"),
    *("error_class", "error_message", "out_of_order", "blocking", "postings"),
)


@dataclass(frozen=True, slots=True)
class RunningLine:
    """A line of a booking, and the entity's balance (debits minus credits) on its account after it."""

    seq: int
    account: str
    side: str
    amount_minor: int
    currency: str
    decimals: int
    balance_minor: int


@dataclass(frozen=True, slots=True)
class EntityEvent:
    """An event of an entity: its rows, oldest first, and what they book."""

    rows: tuple[JournalRow, ...]
    lines: tuple[RunningLine, ...]

    @property
    def first(self) -> JournalRow:
        return self.rows[0]


@dataclass(frozen=True, slots=True)
class EntityStory:
    """The first of an entity's ``total`` events, in Kafka's order. ``stream``: whose journal has the rows."""

    entity_key: str
    total: int
    events: tuple[EntityEvent, ...]
    stream: str = ""

    def last_balances(self) -> Mapping[tuple[str, str], int]:
        return {(line.account, line.currency): line.balance_minor for event in self.events for line in event.lines}


def read_entity_story(journal: str, entity_key: str, limit: int = EVENTS_MAX, stream: str = "") -> EntityStory:
    """Reads the first ``limit`` events of an entity; none of an unknown one.

    A running balance is in Kafka's order. Where an event was applied after later ones (``out_of_order``), the order of
    booking was another; the last balance is the same.

    :raises LedgerUnreadable: the journal is damaged
    """
    lake = PinnedTables(journal=journal)
    if "journal" not in lake:
        return EntityStory(entity_key, 0, (), stream)
    is_its = f"entity_key = {quote_literal(entity_key)}"
    its_items = lake.ask(f"SELECT item_seq FROM journal WHERE {is_its} GROUP BY item_seq ORDER BY item_seq")
    items = its_items["item_seq"].to_pylist()
    rows: list[JournalRow] = []
    if shown := items[:limit]:
        between = f"item_seq BETWEEN {shown[0]} AND {shown[-1]}"
        rows = from_arrow(
            lake.ask(f"SELECT {_list_columns()} FROM journal WHERE {is_its} AND {between} ORDER BY item_seq, seq")
        )
    return EntityStory(entity_key, len(items), tuple(_build_events(rows)), stream)


def _list_columns() -> str:
    return ", ".join(f'"{name}"' for name in _COLUMNS)


def _build_events(rows: Sequence[JournalRow]) -> list[EntityEvent]:
    balances: dict[tuple[str, str], int] = {}
    return [EntityEvent(of_item, _build_lines(of_item, balances)) for of_item in _group_by_item(rows)]


def _build_lines(rows: Sequence[JournalRow], balances: dict[tuple[str, str], int]) -> tuple[RunningLine, ...]:
    lines = []
    for line in flatten_postings(rows).to_pylist():
        account, currency = line["account"], line["currency"]
        signed = line["amount_minor"] if line["side"] == "debit" else -line["amount_minor"]
        balances[account, currency] = balance = balances.get((account, currency), 0) + signed
        amount, decimals = line["amount_minor"], decimals_of(currency)
        lines.append(RunningLine(line["seq"], account, line["side"], amount, currency, decimals, balance))
    return tuple(lines)
