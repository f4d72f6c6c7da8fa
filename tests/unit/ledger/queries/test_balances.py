"""Balances: exact, as of any moment, in balance by currency, and how they came to be."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from core.money import AMOUNT_MINOR_MAX, Movement
from ledger.queries.balances import STRETCHES_MAX, AsOf, Balance, read_balances_over_time, sum_balances, sum_totals
from ledger.queries.lake import LedgerUnreadable
from tests.small_ledger import START, SmallLedger

LEAST = timedelta(microseconds=1)


@pytest.fixture
def reported(ledger: SmallLedger) -> SmallLedger:
    """Two captures and a refund a minute apart from each other: two merchants, two currencies."""
    ledger.add(Movement.CAPTURE, 1_000, "EUR", merchant="m-1")
    ledger.add(Movement.CAPTURE, 700, "JPY", merchant="m-2")
    refund = ledger.add(Movement.REFUND, 400, "EUR", merchant="m-1")
    ledger.again(refund)
    ledger.commit()
    return ledger


def seen(found: list[Balance]) -> dict[tuple[str, str], int]:
    return {(one.account, one.currency): one.balance_minor for one in found}


def test_balances_are_debits_minus_credits_by_account_and_currency(reported: SmallLedger) -> None:
    found = sum_balances(reported.postings)
    assert seen(found) == {
        ("provider:stripe:clearing", "EUR"): 600,
        ("provider:stripe:clearing", "JPY"): 700,
        ("merchant:m-1:payable", "EUR"): -1_000,
        ("merchant:m-1:refunds", "EUR"): 400,
        ("merchant:m-2:payable", "JPY"): -700,
    }
    assert Balance.build("provider:stripe:clearing", "EUR", 1_000, 400) in found
    assert {one.currency: one.decimals for one in found} == {"EUR": 2, "JPY": 0}


def test_a_merchants_bookings_are_shown_whole_with_the_other_side(reported: SmallLedger) -> None:
    assert sum(one.balance_minor for one in sum_balances(reported.postings, merchant="m-1")) == 0
    assert {one.account for one in sum_balances(reported.postings, merchant="m-2")} == {
        "provider:stripe:clearing",
        "merchant:m-2:payable",
    }
    assert {one.currency for one in sum_balances(reported.postings, currency="JPY")} == {"JPY"}


@pytest.mark.parametrize("name", ["ab:c", "it's", "x' OR '1'='1", "Zoë", "\\", "%3A"])
def test_a_merchant_is_found_by_its_name_and_by_what_its_accounts_say(name: str, ledger: SmallLedger) -> None:
    row = ledger.add(Movement.CAPTURE, merchant=name)
    ledger.add(Movement.CAPTURE, merchant="another")
    ledger.commit()
    spelled = row.postings.split("merchant:")[1].split(":payable")[0] if row.postings else ""
    for asked in (name, spelled):
        assert len(sum_balances(ledger.postings, merchant=asked)) == 2


def test_as_of_counts_what_was_decided_before_and_nothing_at_or_after(reported: SmallLedger) -> None:
    second = START + timedelta(minutes=2)
    assert ("merchant:m-2:payable", "JPY") not in seen(sum_balances(reported.postings, as_of=AsOf(before=second)))
    assert ("merchant:m-2:payable", "JPY") in seen(sum_balances(reported.postings, as_of=AsOf(before=second + LEAST)))
    assert sum_balances(reported.postings, as_of=AsOf(before=START)) == []


@pytest.mark.parametrize(("seq", "lines"), [(0, 0), (1, 2), (2, 4), (3, 5), (4, 5), (2**63 - 1, 5)])
def test_as_of_a_row_counts_that_row(seq: int, lines: int, reported: SmallLedger) -> None:
    assert len(sum_balances(reported.postings, as_of=AsOf(seq=seq))) == lines


def test_each_currency_is_in_balance_by_itself(reported: SmallLedger) -> None:
    found = sum_balances(reported.postings)
    assert [(one.currency, one.debit_minor, one.credit_minor) for one in sum_totals(found)] == [
        ("EUR", 1_400, 1_400),
        ("JPY", 700, 700),
    ]
    assert all(one.balanced for one in sum_totals(found))
    assert [one.balanced for one in sum_totals([*found, Balance.build("a", "EUR", 1, 0)])] == [False, True]


def test_sums_beyond_64_bits_are_exact(ledger: SmallLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten trillion a line is allowed; ten thousand such lines aren't a 64-bit number any more."""
    from ledger import postings as module
    from ledger.postings import PostingsWriter
    from tests.small_ledger import lines_of

    row = ledger.add(Movement.CAPTURE, AMOUNT_MINOR_MAX)
    ledger.commit()
    lines = [line for line in lines_of([row]) for _ in range(10_000)]
    table = module.POSTINGS_SCHEMA.empty_table().from_pylist(lines, schema=module.POSTINGS_SCHEMA)
    PostingsWriter.open(ledger.postings)._commit_lines(table, 2)
    assert {abs(one.balance_minor) for one in sum_balances(ledger.postings)} == {10_001 * AMOUNT_MINOR_MAX}
    assert 10_001 * AMOUNT_MINOR_MAX > 2**63


def test_there_are_no_balances_before_the_first_start(tmp_path: Path) -> None:
    assert sum_balances(str(tmp_path / "postings")) == []


def test_a_damaged_file_is_an_error_that_names_the_table(reported: SmallLedger) -> None:
    for file in Path(reported.postings).glob("*.parquet"):
        file.write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(LedgerUnreadable, match=f"{reported.postings} can't be read"):
        sum_balances(reported.postings)


def test_a_missing_file_is_an_error_and_no_smaller_balance(reported: SmallLedger) -> None:
    for file in Path(reported.postings).glob("*.parquet"):
        file.unlink()
    with pytest.raises(LedgerUnreadable, match="payhook verify"):
        sum_balances(reported.postings)


CLEARING = "provider:stripe:clearing"


def as_of(ledger: SmallLedger, account: str, currency: str, before: datetime) -> int:
    found = sum_balances(ledger.postings, currency=currency, as_of=AsOf(before))
    return sum(one.balance_minor for one in found if one.account == account)


def test_each_point_is_the_balance_as_of_then(ledger: SmallLedger) -> None:
    for number in range(40):
        movement = Movement.REFUND if number % 3 == 2 else Movement.CAPTURE
        ledger.add(movement, 100 + number, at=START + timedelta(hours=7 * number))
    ledger.add(Movement.CAPTURE, 9_999, "JPY")
    ledger.commit()
    found = read_balances_over_time(ledger.postings, "EUR")
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
    found = read_balances_over_time(ledger.postings, "EUR")
    greatest = [f"merchant:m-{number}:payable" for number in (8, 7, 6, 5, 4)]
    assert [one.account for one in found.accounts] == [CLEARING, *greatest]
    assert found.left_out == 4


def test_sums_are_exact_however_large(ledger: SmallLedger) -> None:
    for _ in range(30):
        ledger.add(Movement.CAPTURE, AMOUNT_MINOR_MAX)
    ledger.add(Movement.CAPTURE, 1)
    ledger.commit()
    found = read_balances_over_time(ledger.postings, "EUR", merchant="m-1")
    assert sorted(one.points[-1][1] for one in found.accounts) == [
        -(30 * AMOUNT_MINOR_MAX + 1),
        30 * AMOUNT_MINOR_MAX + 1,
    ]


def test_nothing_booked_has_no_accounts(ledger: SmallLedger) -> None:
    assert read_balances_over_time(ledger.postings, "EUR").accounts == ()
    ledger.add(Movement.CAPTURE)
    ledger.commit()
    assert read_balances_over_time(ledger.postings, "CHF").accounts == ()
    assert read_balances_over_time(ledger.postings, "EUR", until=START).accounts == ()
