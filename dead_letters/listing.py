"""Filters items, as a value and as SQL, and lists pages of them in a stable order."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any

from core.clock import to_micros
from core.decision import ErrorKind
from core.errors import PayhookError
from dead_letters.file import IndexFile, select_entries
from dead_letters.item import NOT_HELD_STATES, FrozenItem, Item, ItemEntry, ItemState, Mark, item_of

ITEMS_MAX = 5_000
TEXT_CHARS_MAX = 200


class FilterInvalid(PayhookError):
    def __init__(self, what: str, problem: str) -> None:
        self.what = what
        self.problem = problem
        super().__init__(f"{what}: {problem}")


class Sort(StrEnum):
    """The order of a list. Items of one moment, or one amount, stand in the order of their numbers."""

    OLDEST = "oldest"
    NEWEST = "newest"
    LARGEST = "largest"
    """The largest amount in minor units first, whatever the currency; items without a known amount come last."""


_NOT_EMPTY = ("classes", "providers", "types", "entity", "fingerprint", "accounts", "tenants", "receiver")
"""An item that has nothing there is NULL in ``items`` and an empty text in ``cube``: the two would answer otherwise."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects items; a field without a value selects all. Of several values in one field any will do. An empty text is
    no value, so items that have nothing in a field can't be selected.

    ``since`` (counts) and ``until`` (doesn't) are held against `Item.since`. ``entity`` is a whole entity key.
    ``text`` is a part of the event's or entity's key, of the error's class or its message; ASCII case doesn't count.
    ``receiver``: whose the event is in a stream that reads a journal (`core.routing.receiver_of`): a subscriber.
    ``amount_minor``: in whichever currency.
    """

    kinds: tuple[ErrorKind, ...] = ()
    classes: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    entity: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    fingerprint: str | None = None
    states: tuple[ItemState, ...] = (ItemState.OPEN,)
    marks: tuple[Mark, ...] = ()
    accounts: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    items: tuple[int, ...] = ()
    receiver: str | None = None
    amount_minor: int | None = None

    def __post_init__(self) -> None:
        if len(self.items) > ITEMS_MAX:
            raise FilterInvalid("items", f"{len(self.items)} items, above the limit of {ITEMS_MAX}")
        for name in _NOT_EMPTY:
            value = getattr(self, name)
            if value == "" or (isinstance(value, tuple) and "" in value):
                raise FilterInvalid(name, "a value is empty; leave it out to match any")
        if self.text is not None and len(self.text) > TEXT_CHARS_MAX:
            raise FilterInvalid("text", f"it has {len(self.text)} characters, above the limit of {TEXT_CHARS_MAX}")
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise FilterInvalid(name, "its time zone is missing")

    @property
    def wanted_states(self) -> tuple[ItemState, ...]:
        return tuple(dict.fromkeys(self.states)) or tuple(state for state in ItemState if state not in NOT_HELD_STATES)


@dataclass(frozen=True, slots=True)
class SqlCondition:
    sql: str
    values: tuple[Any, ...] = ()


def in_cube(wanted: Filter) -> bool:
    """Tells whether the table of counts can answer: it knows nothing of single items, nor of moments within an hour."""
    return not (wanted.entity or wanted.text or wanted.since or wanted.until or wanted.items) and not (
        wanted.accounts or wanted.tenants or wanted.receiver or wanted.amount_minor is not None
    )


def counted_in(wanted: Filter) -> tuple[str, str]:
    return ("cube", "sum(n)") if in_cube(wanted) else ("items", "count(*)")


def build_condition(wanted: Filter, states: Sequence[ItemState] | None = None) -> SqlCondition:
    parts = [_one_of("state", wanted.wanted_states if states is None else states)]
    for column, listed in (
        ("kind", wanted.kinds),
        ("error_class", wanted.classes),
        ("provider", wanted.providers),
        ("event_type", wanted.types),
        ("mark", wanted.marks),
        ("account", wanted.accounts),
        ("tenant", wanted.tenants),
        ("item_seq", wanted.items),
    ):
        if listed:
            parts.append(_one_of(column, listed))
    for column, value in (("entity_key", wanted.entity), ("fingerprint", wanted.fingerprint)):
        if value is not None:
            parts.append(SqlCondition(f"{column} = ?", (value,)))
    if wanted.amount_minor is not None:
        parts.append(SqlCondition("amount_minor = ?", (wanted.amount_minor,)))
    if wanted.since is not None:
        parts.append(SqlCondition("since_at >= ?", (to_micros(wanted.since),)))
    if wanted.until is not None:
        parts.append(SqlCondition("since_at < ?", (to_micros(wanted.until),)))
    if wanted.receiver is not None:
        # STREAM:RECEIVER:KEY, as `processor.source.feed` names it.
        named = f"{wanted.receiver}:"
        parts.append(SqlCondition("substr(event_key, instr(event_key, ':') + 1, ?) = ?", (len(named), named)))
    if wanted.text:
        parts.append(_with_text(wanted.text))
    return SqlCondition(
        " AND ".join(part.sql for part in parts), tuple(value for part in parts for value in part.values)
    )


def _one_of(column: str, listed: Sequence[Any]) -> SqlCondition:
    texts = tuple(value if isinstance(value, int) else str(value) for value in listed)
    if len(texts) == 1:
        return SqlCondition(f"{column} = ?", texts)
    return SqlCondition(f"{column} IN ({', '.join('?' * len(texts))})", texts)


def _with_text(text: str) -> SqlCondition:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    columns = ("event_key", "entity_key", "error_class", "message")
    sql = " OR ".join(f"{column} LIKE ? ESCAPE '\\'" for column in columns)
    return SqlCondition(f"({sql})", (f"%{escaped}%",) * len(columns))


PAGE_MAX = 1_000
SEEN_PER_READ = 10_000


@dataclass(frozen=True, slots=True)
class Page:
    """Some items in their order. ``next``: the cursor of the page after it; None: there is none.

    ``total``: of the whole filter. ``seq``: the journal's row up to which the index goes.
    """

    items: tuple[Item, ...]
    next: str | None
    total: int
    seq: int


@dataclass(frozen=True, slots=True)
class _SortKey:
    key: str
    descending: bool
    only: str = ""


_ORDERS = {
    Sort.OLDEST: (_SortKey("since_at", False),),
    Sort.NEWEST: (_SortKey("since_at", True),),
    # Items without an amount come after all others, the oldest first: two stretches, each with an index.
    Sort.LARGEST: (
        _SortKey("amount_minor", True, "amount_minor IS NOT NULL"),
        _SortKey("since_at", False, "amount_minor IS NULL"),
    ),
}


def read_page(file: IndexFile, wanted: Filter, cursor: str | None, limit: int, sort: Sort) -> Page:
    """Reads the next ``limit`` items. What arrives or leaves meanwhile moves no other item to another page.

    :raises FilterInvalid: cursor or limit can't be one
    """
    if not 1 <= limit <= PAGE_MAX:
        raise FilterInvalid("limit", f"expected 1 to {PAGE_MAX}")
    stretch, after = _parse_cursor(cursor, sort)
    with file.begin_read() as connection:
        page_entries: list[ItemEntry] = []
        for order in _ORDERS[sort][stretch:]:
            page_entries += _select_entries(connection, wanted, order, after, limit + 1 - len(page_entries))
            after = None
            if len(page_entries) > limit:
                break
        total, seq = count_items(connection, wanted), seq_of(connection)
    items = tuple(map(item_of, page_entries[:limit]))
    return Page(items, cursor_after(items[-1], sort) if len(page_entries) > limit else None, total, seq)


def read_frozen_items(file: IndexFile, wanted: Filter) -> Iterator[FrozenItem]:
    """Yields all that match, as of one moment, in the order of their numbers; none is held in memory.

    Take it to its end or close it: until then it holds on to that moment.
    """
    condition = build_condition(wanted)
    columns = ", ".join(FrozenItem._fields)
    with file.begin_read() as connection:
        rows = connection.execute(
            f"SELECT {columns} FROM items WHERE {condition.sql} ORDER BY item_seq", condition.values
        )
        while some := rows.fetchmany(SEEN_PER_READ):
            yield from map(FrozenItem._make, some)


def count_items(connection: sqlite3.Connection, wanted: Filter) -> int:
    condition = build_condition(wanted)
    source, counted = counted_in(wanted)
    rows = connection.execute(f"SELECT coalesce({counted}, 0) FROM {source} WHERE {condition.sql}", condition.values)
    return int(rows.fetchone()[0])


def seq_of(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT seq FROM mark").fetchone()
    return int(row[0]) if row is not None else 0


def _select_entries(
    connection: sqlite3.Connection, wanted: Filter, order: _SortKey, after: tuple[int, int] | None, limit: int
) -> list[ItemEntry]:
    """Merges one list a state, each by an index in its order: an index over several states isn't in that order."""
    lists = [_select_in_state(connection, wanted, state, order, after, limit) for state in wanted.wanted_states]
    merged = merge(*lists, key=attrgetter(order.key, "item_seq"), reverse=order.descending)
    return list(islice(merged, limit))


def _select_in_state(
    connection: sqlite3.Connection,
    wanted: Filter,
    state: ItemState,
    order: _SortKey,
    after: tuple[int, int] | None,
    limit: int,
) -> list[ItemEntry]:
    parts = [build_condition(wanted, (state,))]
    if order.only:
        parts.append(SqlCondition(order.only))
    if after is not None:
        sign = "<" if order.descending else ">"
        parts.append(SqlCondition(f"({order.key}, item_seq) {sign} (?, ?)", after))
    direction = "DESC" if order.descending else "ASC"
    sql = " AND ".join(part.sql for part in parts)
    values: tuple[Any, ...] = tuple(value for part in parts for value in part.values)
    rest = f"WHERE {sql} ORDER BY {order.key} {direction}, item_seq {direction} LIMIT ?"
    return list(select_entries(connection, rest, (*values, limit)))


def place_of(item: Item, sort: Sort) -> tuple[int, int, int]:
    number, key = _stretch_of(item, sort)
    sign = -1 if _ORDERS[sort][number].descending else 1
    return number, sign * key, sign * item.item_seq


def cursor_after(item: Item, sort: Sort) -> str:
    number, key = _stretch_of(item, sort)
    return f"{sort}.{number}.{key}.{item.item_seq}"


def _stretch_of(item: Item, sort: Sort) -> tuple[int, int]:
    if sort is Sort.LARGEST:
        return (0, item.amount_minor) if item.amount_minor is not None else (1, to_micros(item.since))
    return 0, to_micros(item.since)


def _parse_cursor(cursor: str | None, sort: Sort) -> tuple[int, tuple[int, int] | None]:
    if cursor is None:
        return 0, None
    problem = FilterInvalid("cursor", "it isn't from this list in this order; start at its first page")
    name, *numbers = cursor.split(".")
    if name != sort or len(numbers) != 3 or len(cursor) > 100:
        raise problem
    try:
        number, key, item_seq = map(int, numbers)
    except ValueError:
        raise problem from None
    if not 0 <= number < len(_ORDERS[sort]) or max(abs(key), abs(item_seq)) >= 1 << 63:
        raise problem
    return number, (key, item_seq)
