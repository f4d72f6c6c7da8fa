"""Unknown events, by type and value, and what there is to do about each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from core.decision import NO_STEP_DECISIONS, Decision
from ledger.queries.lake import PinnedTables, TableRows, Tables, list_tables, quote_literal
from operations.command import BOOK_ENTRY

GROUPS_MAX = 1_000
TYPE, UNDO, ADAPTER = "type", "undo", "adapter"
"""Codes of `core.work.Unknown` that aren't a value of a field."""

WITH_AMOUNT = "^.*:(-?[0-9]+):[A-Z]+$"
"""A pair that ends in an amount and its currency; one of another handler's may not."""

SELECT = "payhook dlq select --state unknown"
OR_CLOSE = f"if it moves nothing for you, close it with a reason: {SELECT}, then payhook dlq discard sN"

ADVICE: Mapping[str, str] = {
    TYPE: f"look the type up at the provider; once an update knows it, replay: {SELECT}; {OR_CLOSE}",
    UNDO: "look up at the provider what it takes back or loses; if money moved that isn't booked, book it by hand: "
    f"payhook ledger enter; {OR_CLOSE}",
    ADAPTER: f"install the provider's package where the processor runs, then replay: {SELECT}",
}
OF_A_VALUE = f"look the value up at the provider; once an update knows it, replay: {SELECT}; {OR_CLOSE}"


@dataclass(frozen=True, slots=True)
class UnknownEvents:
    """Events of one type that are unknown for one reason. Times are of their receipt, else of their decision.

    ``code``: ``type``, ``undo``, ``adapter``, or the field and the value that no table has (``status=frozen``).
    ``amounts``: by currency, in minor units, where they are known. ``event_key``: of the newest; ``reason``: what its
    row says. ``streams``: whose journals have them, by name (``ledger``, ``ledger.1``).
    """

    provider: str
    event_type: str
    code: str
    events: int
    first_at: datetime
    last_at: datetime
    event_key: str
    reason: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    streams: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        return self.event_type if self.code == TYPE else f"{self.event_type}, {self.code}"

    @property
    def advice(self) -> str:
        return ADVICE.get(self.code, OF_A_VALUE)


@dataclass(frozen=True, slots=True)
class ClosedUnknown:
    """An unknown event that a person closed: as ``decision`` (purged or resolved), by ``actor``, for a ``reason``."""

    provider: str
    event_type: str
    code: str
    event_key: str
    decision: str
    actor: str
    reason: str
    at: datetime


def find_unknown_events(journal: Tables) -> list[UnknownEvents]:
    """Finds events that are still unknown, the most frequent first.

    Events that were replayed since are left out, and undos whose movement came later. Each late movement takes the
    first undo of its pair off the list. An entry by hand for an entity takes off what was undone of it before.

    :raises LedgerUnreadable: a journal is damaged
    """
    by_reason: dict[tuple[str, str, str], UnknownEvents] = {}
    for rows in list_tables(journal):
        for unknown in _read_journal(rows):
            key = (unknown.provider, unknown.event_type, unknown.code)
            by_reason[key] = unknown if key not in by_reason else _merge_events(by_reason[key], unknown)
    return sorted(by_reason.values(), key=lambda unknown: (-unknown.events, unknown.provider, unknown.what))


def _read_journal(rows: TableRows) -> Sequence[UnknownEvents]:
    lake = PinnedTables(journal=[rows])
    if "journal" not in lake:
        return []
    no_steps = ", ".join(quote_literal(decision.value) for decision in NO_STEP_DECISIONS)
    unknown = quote_literal(Decision.UNKNOWN.value)
    # All unknown undos of a pair have their number in it, also those that were handled again: the engine counts so.
    groups = lake.ask(
        f"""
        SELECT provider, event_type, coalesce(error_code, '{TYPE}') AS code,
               CASE WHEN minor IS NOT NULL THEN regexp_replace(pair, '^.*:', '') END AS currency, count(*) AS events,
               min(coalesce(received_at, decided_at)) AS first_at, max(coalesce(received_at, decided_at)) AS last_at,
               sum(minor) AS minor,
               last_value(event_key ORDER BY seq) AS event_key, last_value(reason ORDER BY seq) AS reason
        FROM (SELECT seq, entity_key, provider, event_type, error_code, received_at, decided_at, event_key, reason,
                     pair,
                     TRY_CAST(CASE WHEN regexp_like(pair, '{WITH_AMOUNT}')
                                   THEN regexp_replace(pair, '{WITH_AMOUNT}', '\\1') END AS bigint) AS minor,
                     row_number() OVER (PARTITION BY substr(pair, 2) ORDER BY seq) AS nth_of_pair
              FROM journal WHERE decision = {unknown})
        LEFT JOIN (SELECT substr(pair, 2) AS came_of, count(*) AS came FROM journal
                   WHERE decision = 'applied' AND postings IS NULL AND pair LIKE '+%' GROUP BY 1)
        ON came_of = substr(pair, 2)
        LEFT JOIN (SELECT entity_key AS entered_for, max(seq) AS entered FROM journal
                   WHERE decision = 'applied' AND event_type = '{BOOK_ENTRY}' GROUP BY 1)
        ON entered_for = entity_key
        WHERE seq > {rows.after} AND (pair IS NULL OR nth_of_pair > coalesce(came, 0))
          AND (coalesce(error_code, '{TYPE}') <> '{UNDO}' OR coalesce(entered, 0) < seq)
          AND seq IN (SELECT max(seq) FROM journal
                      WHERE decision NOT IN ({no_steps})
                        AND item_seq IN (SELECT item_seq FROM journal WHERE decision = {unknown})
                      GROUP BY item_seq)
        GROUP BY 1, 2, 3, 4 ORDER BY events DESC LIMIT {GROUPS_MAX}
        """
    ).to_pylist()
    return [
        UnknownEvents(
            *(group["provider"] or "", group["event_type"] or "", group["code"], group["events"]),
            *(group["first_at"], group["last_at"], group["event_key"] or "", group["reason"] or ""),
            {} if group["currency"] is None else {group["currency"]: group["minor"]},
            (rows.stream,),
        )
        for group in groups
    ]


def find_closed_unknown(journal: Tables) -> list[ClosedUnknown]:
    """Finds events that were unknown until a person closed them, the newest `GROUPS_MAX` first.

    :raises LedgerUnreadable: a journal is damaged
    """
    closed = [unknown for rows in list_tables(journal) for unknown in _read_closed(rows)]
    return sorted(closed, key=lambda unknown: unknown.at, reverse=True)[:GROUPS_MAX]


def _read_closed(rows: TableRows) -> Sequence[ClosedUnknown]:
    lake = PinnedTables(journal=[rows])
    if "journal" not in lake:
        return []
    no_steps = ", ".join(quote_literal(decision.value) for decision in NO_STEP_DECISIONS)
    closed = ", ".join(quote_literal(decision.value) for decision in (Decision.PURGED, Decision.RESOLVED))
    rows_closed = lake.ask(
        f"""
        SELECT provider, event_type, was_code AS code, event_key, decision, actor, reason, decided_at AS at
        FROM (SELECT seq, provider, event_type, event_key, decision, actor, reason, decided_at, first,
                     lag(decision) OVER (PARTITION BY item_seq ORDER BY seq) AS was,
                     lag(error_code) OVER (PARTITION BY item_seq ORDER BY seq) AS was_code
              FROM journal WHERE decision NOT IN ({no_steps})
                    AND item_seq IN (SELECT item_seq FROM journal WHERE decision =
                    {quote_literal(Decision.UNKNOWN.value)})) WHERE seq > {rows.after} AND NOT first AND decision IN
                    ({closed}) AND was = {quote_literal(Decision.UNKNOWN.value)} ORDER BY seq DESC LIMIT {GROUPS_MAX}
        """
    ).to_pylist()
    return [
        ClosedUnknown(
            *(row["provider"] or "", row["event_type"] or "", row["code"] or TYPE, row["event_key"] or ""),
            *(row["decision"], row["actor"] or "", row["reason"] or "", row["at"]),
        )
        for row in rows_closed
    ]


def _merge_events(first: UnknownEvents, other: UnknownEvents) -> UnknownEvents:
    newest = max(first, other, key=lambda each: each.last_at)
    currencies = first.amounts.keys() | other.amounts.keys()
    return UnknownEvents(
        *(first.provider, first.event_type, first.code, first.events + other.events),
        *(min(first.first_at, other.first_at), newest.last_at, newest.event_key, newest.reason),
        {name: first.amounts.get(name, 0) + other.amounts.get(name, 0) for name in sorted(currencies)},
        tuple(sorted({*first.streams, *other.streams})),
    )
