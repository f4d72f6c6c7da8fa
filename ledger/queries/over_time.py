"""How balances came to be what they are: one after each stretch of time, for as many stretches as a plot can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from core.clock import from_micros, to_micros
from ledger.queries.balances import AsOf, wanted
from ledger.queries.lake import Lake, Tables, all_of, moment, one_of

STRETCHES_MAX = 200
ACCOUNTS_MAX = 6

_STRETCHES = tuple(
    timedelta(seconds=seconds)
    for seconds in (1, 10, 60, 300, 900, 3_600, 3 * 3_600, 12 * 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)
)


Change: TypeAlias = tuple[datetime, int]


@dataclass(frozen=True, slots=True)
class AccountOverTime:
    """One account's balance (debits minus credits, minor units) at the end of each stretch in which it changed.

    The first point is the balance before all of them.
    """

    account: str
    points: tuple[tuple[datetime, int], ...]


@dataclass(frozen=True, slots=True)
class BalancesOverTime:
    """Of one currency, the accounts with the greatest balances; ``left_out`` counts the others."""

    currency: str
    stretch: timedelta
    accounts: tuple[AccountOverTime, ...]
    left_out: int


def balances_over_time(
    postings: Tables,
    currency: str,
    *,
    merchant: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    accounts_max: int = ACCOUNTS_MAX,
) -> BalancesOverTime:
    """What was decided from ``since`` on and before ``until``, on top of what stood there before.

    :param postings: the path of the postings table, or those of several shards
    :raises LedgerUnreadable: the table is damaged
    """
    lake = Lake(postings=postings)
    nothing = BalancesOverTime(currency, _STRETCHES[0], (), 0)
    if "postings" not in lake:
        return nothing
    before_end = wanted(merchant, currency, AsOf(before=until))
    within = [*before_end, *([f"decided_at >= {moment(since)}"] if since is not None else [])]
    span = lake.ask(f"SELECT min(decided_at) AS low, max(decided_at) AS high FROM postings {all_of(within)}")
    if span["low"][0].as_py() is None:
        return nothing
    low, high = (from_micros(span[name].cast("int64")[0].as_py()) for name in ("low", "high"))
    stretch = _stretch(high - low)
    accounts, left_out = _greatest(lake, before_end, accounts_max)
    shown = [*before_end, one_of("account", accounts)]
    opening = _opening(lake, shown, low) if since is not None else {}
    changes = _changes(lake, shown, low, stretch)
    found = tuple(_over_time(account, opening.get(account, 0), low, changes.get(account, ())) for account in accounts)
    return BalancesOverTime(currency, stretch, found, left_out)


def _stretch(span: timedelta) -> timedelta:
    """The shortest of which the plot holds enough."""
    return next((one for one in _STRETCHES if span <= one * (STRETCHES_MAX - 1)), _STRETCHES[-1])


def _greatest(lake: Lake, conditions: Sequence[str], most: int) -> tuple[list[str], int]:
    by_account = f"SELECT account, {_SIGNED} AS balance FROM postings {all_of(conditions)} GROUP BY account"
    found = lake.ask(
        f"SELECT account, count(*) OVER () AS of FROM ({by_account}) ORDER BY abs(balance) DESC, account LIMIT {most}"
    ).to_pylist()
    return [one["account"] for one in found], found[0]["of"] - len(found)


def _opening(lake: Lake, conditions: Sequence[str], before: datetime) -> dict[str, int]:
    found = lake.ask(
        f"SELECT account, {_SIGNED} AS balance FROM postings "
        f"{all_of([*conditions, f'decided_at < {moment(before)}'])} GROUP BY account"
    )
    return {one["account"]: int(one["balance"]) for one in found.to_pylist()}


def _changes(lake: Lake, conditions: Sequence[str], low: datetime, stretch: timedelta) -> dict[str, list[Change]]:
    """By account: the end of each stretch with a booking, and by how much the balance changed in it."""
    place = f"(arrow_cast(decided_at, 'Int64') - {to_micros(low)}) / {stretch // timedelta(microseconds=1)}"
    found = lake.ask(
        f"SELECT account, {place} AS place, {_SIGNED} AS change FROM postings "
        f"{all_of([*conditions, f'decided_at >= {moment(low)}'])} GROUP BY account, {place} ORDER BY account, place"
    )
    changes: dict[str, list[Change]] = {}
    for one in found.to_pylist():
        changes.setdefault(one["account"], []).append((low + stretch * (one["place"] + 1), int(one["change"])))
    return changes


def _over_time(account: str, opening: int, low: datetime, changes: Sequence[Change]) -> AccountOverTime:
    points = [(low, opening)]
    for at, change in changes:
        points.append((at, points[-1][1] + change))
    return AccountOverTime(account, tuple(points))


_SIGNED = "sum(CASE side WHEN 'debit' THEN 1 ELSE -1 END * CAST(amount_minor AS DECIMAL(38, 0)))"
