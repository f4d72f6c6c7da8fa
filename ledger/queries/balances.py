"""Balances of accounts, now or as of a moment, and how they changed over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self, TypeAlias

from core.clock import from_micros, to_micros
from core.keys import decode_name, key_part
from core.money import decimals_of
from ledger.accounts import AccountRole, merchant_of
from ledger.queries.lake import (
    PinnedTables,
    Tables,
    format_time,
    join_conditions,
    match_any,
    match_decided_within,
    quote_literal,
)


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance of an account in one currency, in minor units, of which the currency has ``decimals``.

    ``balance_minor`` is debits minus credits.
    """

    account: str
    currency: str
    debit_minor: int
    credit_minor: int
    balance_minor: int
    decimals: int

    @classmethod
    def build(cls, account: str, currency: str, debit_minor: int, credit_minor: int) -> Self:
        return cls(account, currency, debit_minor, credit_minor, debit_minor - credit_minor, decimals_of(currency))


@dataclass(frozen=True, slots=True)
class Total:
    """All accounts of one currency, of whose minor unit it has ``decimals``."""

    currency: str
    debit_minor: int
    credit_minor: int
    decimals: int
    balanced: bool

    @classmethod
    def build(cls, currency: str, debit_minor: int, credit_minor: int) -> Self:
        return cls(currency, debit_minor, credit_minor, decimals_of(currency), debit_minor == credit_minor)


@dataclass(frozen=True, slots=True)
class AsOf:
    """The lines that count: decided before ``before``, and up to ``seq``. Without either all count.

    Of several journals ``seq`` is a row of ``stream``; of the others those count that were decided no later than
    ``at``, when it was.
    """

    before: datetime | None = None
    seq: int | None = None
    stream: str | None = None
    at: datetime | None = None


def sum_balances(
    postings: Tables, merchant: str | None = None, currency: str | None = None, as_of: AsOf | None = None
) -> list[Balance]:
    """Sums balances by account and currency; none while there is no postings table.

    A merchant's bookings are counted whole, with the provider's side of them. Sums are exact however large they are.

    :param postings: the path of the postings table, or those of several journals
    :param merchant: as it is named in the merchant directory, or as its accounts spell it
    :raises LedgerUnreadable: the table is damaged
    """
    lake = PinnedTables(postings=postings)
    if "postings" not in lake:
        return []
    conditions = build_conditions(merchant, currency, as_of or AsOf())
    sums = lake.ask(
        "SELECT account, currency, side, sum(CAST(amount_minor AS DECIMAL(38, 0))) AS total "
        f"FROM postings {join_conditions(conditions)} GROUP BY account, currency, side"
    )
    sides: dict[tuple[str, str], dict[str, int]] = {}
    for row in sums.to_pylist():
        sides.setdefault((row["account"], row["currency"]), {})[row["side"]] = int(row["total"])
    return [
        Balance.build(account, code, by_side.get("debit", 0), by_side.get("credit", 0))
        for (account, code), by_side in sorted(sides.items())
    ]


def sum_totals(balances: Sequence[Balance]) -> list[Total]:
    """Sums balances by currency: in double entry a currency's debits are its credits."""
    codes = sorted({balance.currency for balance in balances})
    return [
        Total.build(
            code,
            sum(balance.debit_minor for balance in balances if balance.currency == code),
            sum(balance.credit_minor for balance in balances if balance.currency == code),
        )
        for code in codes
    ]


@dataclass(frozen=True, slots=True)
class OwedAmount:
    """The debt to a merchant in one currency, in minor units: credits minus debits over all of its accounts.

    ``parts``: the same by account (``payable``, ``refunds``, …). Below zero the merchant owes it.
    """

    merchant: str
    currency: str
    parts: Mapping[str, int]
    owed_minor: int
    decimals: int


def sum_owed(balances: Sequence[Balance]) -> list[OwedAmount]:
    parts: dict[tuple[str, str], dict[str, int]] = {}
    for balance in balances:
        if (merchant := merchant_of(balance.account)) is not None:
            of_merchant = parts.setdefault((decode_name(merchant), balance.currency), {})
            name = balance.account.split(":", 2)[-1]
            of_merchant[name] = of_merchant.get(name, 0) - balance.balance_minor
    return [
        OwedAmount(merchant, currency, of_merchant, sum(of_merchant.values()), decimals_of(currency))
        for (merchant, currency), of_merchant in sorted(parts.items())
    ]


def list_owed_parts(owed: Sequence[OwedAmount]) -> list[str]:
    names = {name for debt in owed for name in debt.parts}
    in_chart = [role.value for role in AccountRole if role.value in names]
    return in_chart + sorted(names - set(in_chart))


def build_conditions(merchant: str | None, currency: str | None, as_of: AsOf) -> list[str]:
    conditions = []
    if merchant is not None:
        conditions.append(match_any("merchant", sorted({merchant, key_part(merchant)})))
    if currency is not None:
        conditions.append(f"currency = {quote_literal(currency)}")
    conditions += match_decided_within(None, as_of.before)
    if as_of.seq is not None:
        conditions.append(_limit_to_seq(as_of.seq, as_of.stream, as_of.at))
    return conditions


def _limit_to_seq(seq: int, stream: str | None, at: datetime | None) -> str:
    if stream is None:
        return f"seq <= {seq}"
    in_stream = f"stream = {quote_literal(stream)} AND seq <= {seq}"
    return (
        in_stream
        if at is None
        else f"({in_stream}) OR (stream <> {quote_literal(stream)} AND decided_at <= {format_time(at)})"
    )


STRETCHES_MAX = 200
ACCOUNTS_MAX = 6

_STRETCHES = tuple(
    timedelta(seconds=seconds)
    for seconds in (1, 10, 60, 300, 900, 3_600, 3 * 3_600, 12 * 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)
)


Change: TypeAlias = tuple[datetime, int]


@dataclass(frozen=True, slots=True)
class AccountOverTime:
    """An account's balance (debits minus credits, minor units) at the end of each stretch in which it changed.

    The first point is 0, at the first booking.
    """

    account: str
    points: tuple[tuple[datetime, int], ...]


@dataclass(frozen=True, slots=True)
class BalancesOverTime:
    currency: str
    accounts: tuple[AccountOverTime, ...]
    left_out: int


def read_balances_over_time(
    postings: Tables, currency: str, *, merchant: str | None = None, until: datetime | None = None
) -> BalancesOverTime:
    """Returns the balances as they changed, by the lines that were decided before ``until``.

    :param postings: the path of the postings table, or those of several journals
    :raises LedgerUnreadable: the table is damaged
    """
    lake = PinnedTables(postings=postings)
    nothing = BalancesOverTime(currency, (), 0)
    if "postings" not in lake:
        return nothing
    conditions = build_conditions(merchant, currency, AsOf(before=until))
    span = lake.ask(
        f"SELECT min(decided_at) AS low, max(decided_at) AS high FROM postings {join_conditions(conditions)}"
    )
    if span["low"][0].as_py() is None:
        return nothing
    low, high = (from_micros(span[name].cast("int64")[0].as_py()) for name in ("low", "high"))
    stretch = _choose_stretch(high - low)
    accounts, left_out = _find_greatest(lake, conditions)
    changes = _read_changes(lake, [*conditions, match_any("account", accounts)], low, stretch)
    over_time = tuple(_sum_changes(account, low, changes[account]) for account in accounts)
    return BalancesOverTime(currency, over_time, left_out)


def _choose_stretch(span: timedelta) -> timedelta:
    return next((stretch for stretch in _STRETCHES if span <= stretch * (STRETCHES_MAX - 1)), _STRETCHES[-1])


def _find_greatest(lake: PinnedTables, conditions: Sequence[str]) -> tuple[list[str], int]:
    by_account = f"SELECT account, {SIGNED} AS balance FROM postings {join_conditions(conditions)} GROUP BY account"
    greatest = f"ORDER BY abs(balance) DESC, account LIMIT {ACCOUNTS_MAX}"
    rows = lake.ask(f"SELECT account, count(*) OVER () AS of FROM ({by_account}) {greatest}").to_pylist()
    return [row["account"] for row in rows], rows[0]["of"] - len(rows)


def _read_changes(
    lake: PinnedTables, conditions: Sequence[str], low: datetime, stretch: timedelta
) -> dict[str, list[Change]]:
    place = f"(arrow_cast(decided_at, 'Int64') - {to_micros(low)}) / {stretch // timedelta(microseconds=1)}"
    rows = lake.ask(
        f"SELECT account, {place} AS place, {SIGNED} AS change FROM postings "
        f"{join_conditions(conditions)} GROUP BY account, {place} ORDER BY account, place"
    )
    changes: dict[str, list[Change]] = {}
    for row in rows.to_pylist():
        changes.setdefault(row["account"], []).append((low + stretch * (row["place"] + 1), int(row["change"])))
    return changes


def _sum_changes(account: str, low: datetime, changes: Sequence[Change]) -> AccountOverTime:
    points = [(low, 0)]
    for at, change in changes:
        points.append((at, points[-1][1] + change))
    return AccountOverTime(account, tuple(points))


SIGNED = "sum(CASE side WHEN 'debit' THEN 1 ELSE -1 END * CAST(amount_minor AS DECIMAL(38, 0)))"
