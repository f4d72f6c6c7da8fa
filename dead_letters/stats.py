"""Statistics of the dead items: how many, how old, of which kind, and how fast they come and go."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from core.clock import from_micros, to_micros
from core.decision import ErrorKind
from dead_letters.follow import HOUR_US
from dead_letters.item import ItemState
from dead_letters.listing import Filter, SqlCondition, build_condition, count_items, counted_in, in_cube, seq_of
from dead_letters.rates import WINDOWS, Rate
from dlq.settings import AgeLimits

_BY_CLASS: Mapping[str, str] = {
    "MerchantUnknown": "add the account that the error names to the merchant directory, then replay them all: no dead "
    "event is retried by itself",
    "MerchantClosed": "open the account in the directory and replay, or have finance settle by hand and resolve",
    "EventConflict": "send both bodies to the provider. If the first was booked, it stays booked: discard this one. If "
    "it is dead, discard the wrong one",
    "FactConflict": "ask the provider which of the two reports holds. If it is this one, reverse the booking, book "
    "this one by hand and resolve it: a replay dies again",
    "FactMismatch": "bring receiver and processor to one version and the same provider settings, then replay",
    "IdentityFailed": "correct the stream's identity function or its schema, restart, then replay",
    "RecordGone": "its topic no longer holds the record: have its sender publish it again, then resolve this one",
    "PreviousEventDead": "fix and replay the first item that they died with, with followers: it is their cause",
    "Poison": "ask the provider what it sends, or fix the adapter and restart the processor; then replay",
    "Forged": "it can't be replayed: give all services one kafka.record_keys_file, or find out who else writes to the "
    "topics; have the provider send the event again",
    "WrongMode": "find out who else writes to the topics: only a receiver may",
    "WorkerLost": "look for native crashes or memory in the handler; replay one before the others",
    "HandlerTimeout": "find what the handler waits for; a breaker or a shorter timeout of its own keeps others going",
    "HeadOfLineBlocked": "fix what its last error names, then replay; if it comes back every week, find the root cause",
    "PayloadUndecodable": "the stream's schema doesn't fit what is sent: fix it in streams.toml, restart, replay",
    "PayloadTooLarge": "raise payload_bytes_max of the stream if such sizes are meant, restart, replay",
    "NotTaken": "the subscriber refuses: ask its owner to fix it, then replay with --stream notify",
    "Unreachable": "the subscriber doesn't answer: ask its owner to fix it, then replay with --stream notify",
    "AddressRefused": "the subscriber's address isn't allowed: fix its URL or allow the network, then replay",
}
_BY_KIND: Mapping[ErrorKind, str] = {
    ErrorKind.NRE: "no retry helps: fix the handler or the data that it needs, then replay one, then the others",
    ErrorKind.SLE: "it should have been gone in a moment: if it comes back every week, classify it "
    "as SNBE, or fix what is called",
    ErrorKind.SNBE: "all its tries were used up: what it waits for took longer than the retry policy. Fix that, "
    "replay, and consider a longer policy",
    ErrorKind.SBE: "such errors should block the stream and never die: look at the rules that classify it",
}
_UNKNOWN = "look at one of them: payhook dlq show"
_WAITS = "nothing: they were never tried; each waits behind another event or for a failing downstream"


def give_advice(error_class: str | None, kind: ErrorKind | None) -> str:
    if error_class is None:
        return _WAITS
    plain = error_class.rsplit(".", 1)[-1]
    return _BY_CLASS.get(plain) or (_BY_KIND[kind] if kind is not None else _UNKNOWN)


HOURS = 7 * 24
LISTED_MAX = 50
_HELD = (
    *(ItemState.OPEN, ItemState.WAITING, ItemState.REPLAYED, ItemState.PURGED, ItemState.RESOLVED),
    ItemState.RELEASED,
)


@dataclass(frozen=True, slots=True)
class Count:
    """A count of open items that have one value; None: they have none."""

    value: str | None
    items: int


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour from ``at`` on: items that died first in it, and items that had died and were closed in it."""

    at: datetime
    died: int
    closed: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics of the items that a filter selects, whatever its states, as of ``at``; ``seq``: the journal's row up
    to which they go.

    ``open``: dead; ``waiting``: for a try. ``oldest``: since when the oldest open one is dead. ``over_24h``: open ones
    that are older than ``age_h_max``, 24 h unless it is set; ``over_48h``: older than ``escalate_h``.
    ``next_over_24h``: when the next one will be past ``age_h_max``. Of ``by_*`` the largest come
    first, `LISTED_MAX` at most. ``hours``: the last `HOURS`, oldest first, the one that isn't over last.
    ``rates``: how fast they come and go right now, by window (`dead_letters.rates.WINDOWS`).
    """

    at: datetime
    seq: int
    open: int
    waiting: int
    oldest: datetime | None
    over_24h: int
    over_48h: int
    next_over_24h: datetime | None
    by_kind: tuple[Count, ...]
    by_class: tuple[Count, ...]
    by_provider: tuple[Count, ...]
    by_type: tuple[Count, ...]
    hours: tuple[Hour, ...]
    rates: tuple[Rate, ...]
    age_h_max: float
    escalate_h: float


def read_stats(connection: sqlite3.Connection, wanted: Filter, now: datetime, ages: AgeLimits) -> Stats:
    is_open = build_condition(wanted, (ItemState.OPEN,))
    counted = _Counted(connection, wanted)
    of_state = dict(counted.sum_by_column("state", (ItemState.OPEN, ItemState.WAITING)))
    hours = _count_hours(counted, now)
    depth = of_state.get(ItemState.OPEN.value, 0)
    age_max, escalated = timedelta(hours=ages.age_h_max), timedelta(hours=ages.escalate_h)
    following = _find_first(connection, is_open, now - age_max)
    return Stats(
        at=now,
        seq=seq_of(connection),
        open=depth,
        waiting=of_state.get(ItemState.WAITING.value, 0),
        oldest=_find_first(connection, is_open),
        over_24h=_count_older(connection, is_open, now - age_max),
        over_48h=_count_older(connection, is_open, now - escalated),
        next_over_24h=None if following is None else following + age_max,
        by_kind=counted.find_largest("kind"),
        by_class=counted.find_largest("error_class"),
        by_provider=counted.find_largest("provider"),
        by_type=counted.find_largest("event_type"),
        hours=hours,
        rates=_compute_rates(connection, wanted, hours, now, depth),
        age_h_max=ages.age_h_max,
        escalate_h=ages.escalate_h,
    )


def read_amounts(connection: sqlite3.Connection) -> dict[str, int]:
    """Sums open items by currency, in minor units, as far as their amounts are known; within a transaction."""
    condition = build_condition(Filter())
    rows = connection.execute(
        f"SELECT currency, sum(amount_minor) FROM items WHERE {condition.sql} AND amount_minor IS NOT NULL"
        " GROUP BY currency ORDER BY currency",
        condition.values,
    )
    return {currency: int(minor) for currency, minor in rows}


def read_rates(connection: sqlite3.Connection, wanted: Filter, now: datetime) -> tuple[Rate, ...]:
    depth = count_items(connection, replace(wanted, states=(ItemState.OPEN,)))
    hours = _count_hours(_Counted(connection, wanted), now) if in_cube(wanted) else ()
    return _compute_rates(connection, wanted, hours, now, depth)


def _compute_rates(
    connection: sqlite3.Connection, wanted: Filter, hours: Sequence[Hour], now: datetime, depth: int
) -> tuple[Rate, ...]:
    since = [now - timedelta(seconds=window_s) for window_s in WINDOWS]
    if in_cube(wanted):
        counts = [
            [_count_by_hour(connection, wanted, column, moment, hours) for moment in since] for column in _HELD_AT
        ]
    else:
        counts = [_count_since(connection, wanted, column, since) for column in _HELD_AT]
    return tuple(
        Rate.from_counts(window_s, inflow, outflow, depth)
        for window_s, inflow, outflow in zip(WINDOWS, *counts, strict=True)
    )


_HELD_AT: Mapping[str, str] = {"since_at": "items_by_age", "closed_at": "items_closed"}
"""When an item died first, and when it was closed; each with its index, which SQLite wouldn't choose by itself."""


def _count_by_hour(
    connection: sqlite3.Connection, wanted: Filter, column: str, since: datetime, hours: Sequence[Hour]
) -> int:
    whole_hours = [hour for hour in hours if hour.at >= since]
    counted = sum(hour.died if column == "since_at" else hour.closed for hour in whole_hours)
    return counted + _count_since(connection, wanted, column, [since], whole_hours[0].at if whole_hours else None)[0]


def _count_since(
    connection: sqlite3.Connection,
    wanted: Filter,
    column: str,
    since: Sequence[datetime],
    until: datetime | None = None,
) -> list[int]:
    condition, moments = build_condition(wanted, _HELD), [to_micros(moment) for moment in since]
    sums = ", ".join(f"coalesce(sum({column} >= ?), 0)" for _ in moments)
    before, values = ("", ()) if until is None else (f" AND {column} < ?", (to_micros(until),))
    rows = connection.execute(
        f"SELECT {sums} FROM items INDEXED BY {_HELD_AT[column]}"
        f" WHERE {column} >= ?{before} AND first_dead_at IS NOT NULL AND {condition.sql}",
        (*moments, min(moments), *values, *condition.values),
    )
    return list(map(int, rows.fetchone()))


class _Counted:
    def __init__(self, connection: sqlite3.Connection, wanted: Filter) -> None:
        self._connection = connection
        self._wanted = wanted
        self._in_cube = in_cube(wanted)

    def sum_by_column(
        self, column: str, states: Sequence[ItemState], only: str = "", values: Sequence[Any] = ()
    ) -> list[tuple[Any, int]]:
        condition = build_condition(self._wanted, states)
        source, counted = counted_in(self._wanted)
        expression = column if self._in_cube else _ON_ITEMS.get(column, column)
        more = f" AND {only if self._in_cube else _on_items(only)}" if only else ""
        rows = self._connection.execute(
            f"SELECT {expression} AS value, {counted} FROM {source} WHERE {condition.sql}{more} GROUP BY value",
            (*condition.values, *values),
        )
        return [(value, int(n)) for value, n in rows]

    def find_largest(self, column: str) -> tuple[Count, ...]:
        sums = self.sum_by_column(column, (ItemState.OPEN,))
        ordered = sorted(sums, key=lambda pair: (-pair[1], pair[0] or ""))
        return tuple(Count(value or None, n) for value, n in ordered[:LISTED_MAX])


_ON_ITEMS = {
    "since_hour": f"since_at / {HOUR_US}",
    "closed_hour": f"coalesce(closed_at, 0) / {HOUR_US}",
    "died": "(first_dead_at IS NOT NULL)",
}


def _on_items(only: str) -> str:
    for name, expression in _ON_ITEMS.items():
        only = only.replace(name, expression)
    return only


def _count_hours(counted: _Counted, now: datetime) -> tuple[Hour, ...]:
    this = to_micros(now) // HOUR_US
    first = this - HOURS + 1
    died = dict(counted.sum_by_column("since_hour", _HELD, "died = 1 AND since_hour >= ?", (first,)))
    closed = dict(counted.sum_by_column("closed_hour", _HELD, "died = 1 AND closed_hour >= ?", (first,)))
    return tuple(
        Hour(from_micros(hour * HOUR_US), died.get(hour, 0), closed.get(hour, 0)) for hour in range(first, this + 1)
    )


def _find_first(
    connection: sqlite3.Connection, condition: SqlCondition, since: datetime | None = None
) -> datetime | None:
    more, values = ("", ()) if since is None else (" AND since_at >= ?", (to_micros(since),))
    row = connection.execute(
        f"SELECT since_at FROM items WHERE {condition.sql}{more} ORDER BY since_at LIMIT 1",
        (*condition.values, *values),
    ).fetchone()
    return None if row is None else from_micros(row[0])


def _count_older(connection: sqlite3.Connection, condition: SqlCondition, than: datetime) -> int:
    rows = connection.execute(
        f"SELECT count(*) FROM items WHERE {condition.sql} AND since_at < ?", (*condition.values, to_micros(than))
    )
    return int(rows.fetchone()[0])


GROUPS_MAX = 500
PROVIDERS_MAX = 20


@dataclass(frozen=True, slots=True)
class Group:
    """Items with one fingerprint. ``fingerprint`` is None for those that never failed (they wait behind others).
    ``shape``: their message with ids and numbers masked; ``place``: file and function. ``oldest`` and ``newest``: since
    when the first and the last one are what they are. ``sample``: the number of the newest one. ``advice``: what to do
    next.
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
    advice: str

    @property
    def sample_name(self) -> str:
        return str(self.sample)


def read_groups(connection: sqlite3.Connection, wanted: Filter, limit: int) -> list[Group]:
    """Reads the largest groups first, `GROUPS_MAX` at most; of as many, the one with the smaller fingerprint."""
    counts, kinds, providers = _count_causes(connection, wanted)
    order = sorted(counts, key=lambda fingerprint: (-counts[fingerprint], fingerprint))[: min(limit, GROUPS_MAX)]
    return [
        _make_group(
            connection,
            wanted,
            fingerprint,
            counts[fingerprint],
            sorted(kinds[fingerprint]),
            sorted(providers[fingerprint])[:PROVIDERS_MAX],
        )
        for fingerprint in order
    ]


def _count_causes(
    connection: sqlite3.Connection, wanted: Filter
) -> tuple[dict[str, int], dict[str, set[str]], dict[str, set[str]]]:
    condition = build_condition(wanted)
    source, counted = counted_in(wanted)
    counts: dict[str, int] = defaultdict(int)
    kinds: dict[str, set[str]] = defaultdict(set)
    providers: dict[str, set[str]] = defaultdict(set)
    rows = connection.execute(
        f"SELECT coalesce(fingerprint, '') AS cause, kind, provider, {counted} FROM {source}"
        f" WHERE {condition.sql} GROUP BY cause, kind, provider",
        condition.values,
    )
    for cause, kind, provider, n in rows:
        counts[cause] += n
        kinds[cause] |= {kind} if kind else set()
        providers[cause] |= {provider} if provider else set()
    return counts, kinds, providers


def _make_group(
    connection: sqlite3.Connection, wanted: Filter, cause: str, n: int, kinds: list[str], providers: list[str]
) -> Group:
    ends = [_find_end(connection, wanted, cause, order) for order in ("ASC", "DESC")]
    cause_row = connection.execute(
        "SELECT error_class, error_code, shape, place FROM causes WHERE fingerprint = ?", (cause,)
    ).fetchone()
    error_class, error_code, shape, place = cause_row if cause_row is not None else (None, None, "", None)
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
        advice=give_advice(error_class, ErrorKind(kinds[0]) if kinds else None),
    )


def _find_end(connection: sqlite3.Connection, wanted: Filter, cause: str, order: str) -> tuple[int, int]:
    is_it = SqlCondition("fingerprint = ?", (cause,)) if cause else SqlCondition("fingerprint IS NULL")
    ends = []
    for state in wanted.wanted_states:
        condition = build_condition(wanted, (state,))
        row = connection.execute(
            f"SELECT since_at, item_seq FROM items WHERE {condition.sql} AND {is_it.sql}"
            f" ORDER BY since_at {order}, item_seq {order} LIMIT 1",
            (*condition.values, *is_it.values),
        ).fetchone()
        if row is not None:
            ends.append(row)
    pick = min if order == "ASC" else max
    since_at, item_seq = pick(ends)
    return since_at, item_seq
