"""What is on each account, now or as of a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from core.keys import key_part
from core.money import decimals_of
from ledger.queries.lake import Lake, Tables, all_of, moment, one_of, text


@dataclass(frozen=True, slots=True)
class Balance:
    """One account in one currency, in minor units, of which the currency has ``decimals``.

    ``balance_minor`` is debits minus credits.
    """

    account: str
    currency: str
    debit_minor: int
    credit_minor: int
    balance_minor: int
    decimals: int

    @classmethod
    def of(cls, account: str, currency: str, debit_minor: int, credit_minor: int) -> Self:
        return cls(account, currency, debit_minor, credit_minor, debit_minor - credit_minor, decimals_of(currency))


@dataclass(frozen=True, slots=True)
class Total:
    """All accounts of one currency."""

    currency: str
    debit_minor: int
    credit_minor: int

    @property
    def balanced(self) -> bool:
        return self.debit_minor == self.credit_minor


@dataclass(frozen=True, slots=True)
class AsOf:
    """Which lines count: those decided before ``before``, and those up to ``seq``. Nothing said: all.

    Of several shards ``seq`` is a row of ``stream``; of the others those count that were decided no later than ``at``,
    when it was.
    """

    before: datetime | None = None
    seq: int | None = None
    stream: str | None = None
    at: datetime | None = None


def balances(
    postings: Tables, merchant: str | None = None, currency: str | None = None, as_of: AsOf | None = None
) -> list[Balance]:
    """Balances by account and currency; empty while there is no postings table.

    A merchant's bookings are counted whole, with the provider's side of them. Sums are exact however large they are.

    :param postings: the path of the postings table, or those of several shards
    :param merchant: as it is named in the merchant directory, or as its accounts spell it
    :raises LedgerUnreadable: the table is damaged
    """
    lake = Lake(postings=postings)
    if "postings" not in lake:
        return []
    conditions = wanted(merchant, currency, as_of or AsOf())
    sums = lake.ask(
        "SELECT account, currency, side, sum(CAST(amount_minor AS DECIMAL(38, 0))) AS total "
        f"FROM postings {all_of(conditions)} GROUP BY account, currency, side"
    )
    sides: dict[tuple[str, str], dict[str, int]] = {}
    for one in sums.to_pylist():
        sides.setdefault((one["account"], one["currency"]), {})[one["side"]] = int(one["total"])
    return [
        Balance.of(account, code, by_side.get("debit", 0), by_side.get("credit", 0))
        for (account, code), by_side in sorted(sides.items())
    ]


def totals(found: Sequence[Balance]) -> list[Total]:
    """By currency: in double entry a currency's debits are its credits."""
    codes = sorted({one.currency for one in found})
    return [
        Total(
            code,
            sum(one.debit_minor for one in found if one.currency == code),
            sum(one.credit_minor for one in found if one.currency == code),
        )
        for code in codes
    ]


def wanted(merchant: str | None, currency: str | None, as_of: AsOf) -> list[str]:
    """What a line must be like to count, as conditions."""
    conditions = []
    if merchant is not None:
        conditions.append(one_of("merchant", sorted({merchant, key_part(merchant)})))
    if currency is not None:
        conditions.append(f"currency = {text(currency)}")
    if as_of.before is not None:
        conditions.append(f"decided_at < {moment(as_of.before)}")
    if as_of.seq is not None:
        conditions.append(_up_to(as_of.seq, as_of.stream, as_of.at))
    return conditions


def _up_to(seq: int, stream: str | None, at: datetime | None) -> str:
    if stream is None:
        return f"seq <= {seq}"
    own = f"stream = {text(stream)} AND seq <= {seq}"
    return own if at is None else f"({own}) OR (stream <> {text(stream)} AND decided_at <= {moment(at)})"
