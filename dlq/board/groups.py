"""Items of one cause as one line: 3,000 of it are read as one."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from core.clock import from_micros
from core.decision import ErrorKind
from dlq.board.filter import Filter, Where, in_cube, where

GROUPS_MAX = 500
PROVIDERS_MAX = 20


@dataclass(frozen=True, slots=True)
class Group:
    """Items with one fingerprint. ``fingerprint`` is None for those that never failed (they wait behind others).

    ``shape``: their message with ids and numbers masked; ``place``: file and function. ``oldest`` and ``newest``: since
    when the first and the last one are what they are. ``sample``: the number of the newest one.
    """

    fingerprint: str | None
    error_class: str | None
    error_code: str | None
    shape: str
    place: str | None
    kinds: tuple[ErrorKind, ...]
    providers: tuple[str, ...]
    count: int
    oldest: datetime
    newest: datetime
    sample: int


def read_groups(connection: sqlite3.Connection, wanted: Filter, limit: int) -> list[Group]:
    """The largest groups first, `GROUPS_MAX` at most; of as many, the one with the smaller fingerprint."""
    counts, kinds, providers = _counted(connection, wanted)
    order = sorted(counts, key=lambda fingerprint: (-counts[fingerprint], fingerprint))[: min(limit, GROUPS_MAX)]
    return [
        _group(connection, wanted, one, counts[one], sorted(kinds[one]), sorted(providers[one])[:PROVIDERS_MAX])
        for one in order
    ]


def _counted(
    connection: sqlite3.Connection, wanted: Filter
) -> tuple[dict[str, int], dict[str, set[str]], dict[str, set[str]]]:
    condition = where(wanted)
    source, counted = ("cube", "sum(n)") if in_cube(wanted) else ("items", "count(*)")
    counts: dict[str, int] = defaultdict(int)
    kinds: dict[str, set[str]] = defaultdict(set)
    providers: dict[str, set[str]] = defaultdict(set)
    found = connection.execute(
        f"SELECT coalesce(fingerprint, '') AS cause, kind, provider, {counted} FROM {source}"
        f" WHERE {condition.sql} GROUP BY cause, kind, provider",
        condition.values,
    )
    for cause, kind, provider, n in found:
        counts[cause] += n
        kinds[cause] |= {kind} if kind else set()
        providers[cause] |= {provider} if provider else set()
    return counts, kinds, providers


def _group(
    connection: sqlite3.Connection, wanted: Filter, cause: str, n: int, kinds: list[str], providers: list[str]
) -> Group:
    ends = [_end(connection, wanted, cause, order) for order in ("ASC", "DESC")]
    told = connection.execute(
        "SELECT error_class, error_code, shape, place FROM causes WHERE fingerprint = ?", (cause,)
    ).fetchone()
    error_class, error_code, shape, place = told if told is not None else (None, None, "", None)
    return Group(
        fingerprint=cause or None,
        error_class=error_class,
        error_code=error_code,
        shape=shape,
        place=place,
        kinds=tuple(ErrorKind(kind) for kind in kinds),
        providers=tuple(providers),
        count=n,
        oldest=from_micros(ends[0][0]),
        newest=from_micros(ends[1][0]),
        sample=ends[1][1],
    )


def _end(connection: sqlite3.Connection, wanted: Filter, cause: str, order: str) -> tuple[int, int]:
    """The first or last item of a group that matches: each state has an index in this order."""
    is_it = Where("fingerprint = ?", (cause,)) if cause else Where("fingerprint IS NULL")
    found = []
    for state in wanted.wanted_states:
        condition = where(wanted, (state,))
        one = connection.execute(
            f"SELECT since_at, item_seq FROM items WHERE {condition.sql} AND {is_it.sql}"
            f" ORDER BY since_at {order}, item_seq {order} LIMIT 1",
            (*condition.values, *is_it.values),
        ).fetchone()
        if one is not None:
            found.append(one)
    pick = min if order == "ASC" else max
    since_at, item_seq = pick(found)
    return since_at, item_seq
