"""Balances over time: each point is the balance as of its moment."""

from __future__ import annotations

from datetime import datetime, timedelta

from core.money import AMOUNT_MINOR_MAX, Movement
from ledger.queries import AsOf, balances, balances_over_time
from ledger.queries.balances import STRETCHES_MAX
from tests.small_ledger import START, SmallLedger

CLEARING = "provider:stripe:clearing"


def as_of(ledger: SmallLedger, account: str, currency: str, before: datetime) -> int:
    found = balances(ledger.postings, currency=currency, as_of=AsOf(before))
    return sum(one.balance_minor for one in found if one.account == account)


def test_each_point_is_the_balance_as_of_then(ledger: SmallLedger) -> None:
    for number in range(40):
        movement = Movement.REFUND if number % 3 == 2 else Movement.CAPTURE
        ledger.add(movement, 100 + number, at=START + timedelta(hours=7 * number))
    ledger.add(Movement.CAPTURE, 9_999, "JPY")
    ledger.commit()
    found = balances_over_time(ledger.postings, "EUR")
    assert {one.account for one in found.accounts} == {CLEARING, "merchant:m-1:payable", "merchant:m-1:refunds"}
    for one in found.accounts:
        assert len(one.points) <= STRETCHES_MAX + 1
        for at, balance in one.points[1:]:
            assert balance == as_of(ledger, one.account, "EUR", at)
        assert one.points[-1][1] == as_of(ledger, one.account, "EUR", datetime.max.replace(tzinfo=START.tzinfo))


def test_the_greatest_are_shown_and_the_others_counted(ledger: SmallLedger) -> None:
    for number in range(9):
        ledger.add(Movement.CAPTURE, 10 ** (number + 1), merchant=f"m-{number}")
    ledger.commit()
    found = balances_over_time(ledger.postings, "EUR")
    greatest = [f"merchant:m-{number}:payable" for number in (8, 7, 6, 5, 4)]
    assert [one.account for one in found.accounts] == [CLEARING, *greatest]
    assert found.left_out == 4


def test_sums_are_exact_however_large(ledger: SmallLedger) -> None:
    for _ in range(30):
        ledger.add(Movement.CAPTURE, AMOUNT_MINOR_MAX)
    ledger.add(Movement.CAPTURE, 1)
    ledger.commit()
    found = balances_over_time(ledger.postings, "EUR", merchant="m-1")
    assert sorted(one.points[-1][1] for one in found.accounts) == [
        -(30 * AMOUNT_MINOR_MAX + 1),
        30 * AMOUNT_MINOR_MAX + 1,
    ]


def test_nothing_booked_has_no_accounts(ledger: SmallLedger) -> None:
    assert balances_over_time(ledger.postings, "EUR").accounts == ()
    ledger.add(Movement.CAPTURE)
    ledger.commit()
    assert balances_over_time(ledger.postings, "CHF").accounts == ()
    assert balances_over_time(ledger.postings, "EUR", until=START).accounts == ()
