"""Pages of items in a stable order, and what is counted, looked up or frozen of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any

from dlq.board.file import BoardFile
from dlq.board.filter import Filter, FilterInvalid, Sort, Where, in_cube, where
from dlq.board.follow import read_entries
from dlq.board.item import COLUMNS, Entry, Item, ItemState, Seen, item_of

PAGE_MAX = 1_000
SEEN_PER_READ = 10_000


@dataclass(frozen=True, slots=True)
class Page:
    """Some items in their order. ``next``: the cursor of the page after it; None: there is none.

    ``total``: of the whole filter. ``seq``: the journal's row up to which the board goes.
    """

    items: tuple[Item, ...]
    next: str | None
    total: int
    seq: int


@dataclass(frozen=True, slots=True)
class _Order:
    """``key``: the column that comes first, then the number; ``descending``: both."""

    key: str
    descending: bool
    only: str = ""


_ORDERS = {
    Sort.OLDEST: (_Order("since_at", False),),
    Sort.NEWEST: (_Order("since_at", True),),
    # Items without an amount come after all others, the oldest first: two stretches, each with an index.
    Sort.LARGEST: (
        _Order("amount_minor", True, "amount_minor IS NOT NULL"),
        _Order("since_at", False, "amount_minor IS NULL"),
    ),
}


class Listing:
    """Reads one board."""

    def __init__(self, file: BoardFile) -> None:
        self._file = file

    def page(self, wanted: Filter, cursor: str | None, limit: int, sort: Sort) -> Page:
        """The next ``limit`` items. What arrives or leaves meanwhile moves no other item to another page.

        :raises FilterInvalid: the cursor isn't one of this order
        """
        if not 1 <= limit <= PAGE_MAX:
            raise FilterInvalid("limit", f"1 to {PAGE_MAX} is wanted")
        stretch, after = _place(cursor, sort)
        with self._file.reading() as connection:
            found: list[tuple[int, Entry]] = []
            for number in range(stretch, len(_ORDERS[sort])):
                left = limit + 1 - len(found)
                some = _entries(connection, wanted, _ORDERS[sort][number], after, left)
                found += [(number, entry) for entry in some]
                after = None
                if len(found) > limit:
                    break
            total, seq = count(connection, wanted), seq_of(connection)
        following = _cursor(sort, *found[limit - 1]) if len(found) > limit else None
        return Page(tuple(item_of(entry) for _, entry in found[:limit]), following, total, seq)

    def count(self, wanted: Filter) -> int:
        with self._file.reading() as connection:
            return count(connection, wanted)

    def look_up(self, item_seqs: Iterable[int]) -> dict[int, Item]:
        """Those that the board holds, by number."""
        with self._file.reading() as connection:
            return {entry.item_seq: item_of(entry) for entry in read_entries(connection, item_seqs)}

    def seen(self, wanted: Filter) -> Iterator[Seen]:
        """All that match, as of one moment, in the order of their numbers; none is held in memory.

        Take it to its end or close it: until then it holds on to that moment.
        """
        condition = where(wanted)
        columns = ", ".join(Seen._fields)
        with self._file.reading() as connection:
            found = connection.execute(
                f"SELECT {columns} FROM items WHERE {condition.sql} ORDER BY item_seq", condition.values
            )
            while some := found.fetchmany(SEEN_PER_READ):
                yield from map(Seen._make, some)


def count(connection: sqlite3.Connection, wanted: Filter) -> int:
    """Items that match."""
    condition = where(wanted)
    source, counted = ("cube", "coalesce(sum(n), 0)") if in_cube(wanted) else ("items", "count(*)")
    found = connection.execute(f"SELECT {counted} FROM {source} WHERE {condition.sql}", condition.values)
    return int(found.fetchone()[0])


def seq_of(connection: sqlite3.Connection) -> int:
    """The journal's row up to which the board goes."""
    found = connection.execute("SELECT seq FROM mark").fetchone()
    return int(found[0]) if found is not None else 0


def _entries(
    connection: sqlite3.Connection, wanted: Filter, order: _Order, after: tuple[int, int] | None, limit: int
) -> list[Entry]:
    """A list a state, each by an index in its order, merged: an index over several states isn't in that order."""
    lists = [_of_state(connection, wanted, state, order, after, limit) for state in wanted.wanted_states]
    merged = merge(*lists, key=lambda entry: _key(order, entry), reverse=order.descending)
    return list(islice(merged, limit))


def _of_state(
    connection: sqlite3.Connection,
    wanted: Filter,
    state: ItemState,
    order: _Order,
    after: tuple[int, int] | None,
    limit: int,
) -> list[Entry]:
    parts = [where(wanted, (state,))]
    if order.only:
        parts.append(Where(order.only))
    if after is not None:
        sign = "<" if order.descending else ">"
        parts.append(Where(f"({order.key}, item_seq) {sign} (?, ?)", after))
    direction = "DESC" if order.descending else "ASC"
    sql = " AND ".join(part.sql for part in parts)
    values: tuple[Any, ...] = tuple(value for part in parts for value in part.values)
    found = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM items WHERE {sql}"
        f" ORDER BY {order.key} {direction}, item_seq {direction} LIMIT ?",
        (*values, limit),
    )
    return [Entry(*one) for one in found]


def _key(order: _Order, entry: Entry) -> tuple[int, int]:
    return getattr(entry, order.key), entry.item_seq


def _cursor(sort: Sort, number: int, entry: Entry) -> str:
    key, item_seq = _key(_ORDERS[sort][number], entry)
    return f"{sort}.{number}.{key}.{item_seq}"


def _place(cursor: str | None, sort: Sort) -> tuple[int, tuple[int, int] | None]:
    """In which stretch a page begins, and after which place of it."""
    if cursor is None:
        return 0, None
    problem = FilterInvalid("cursor", "it isn't one of this list in this order; begin with its first page")
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
