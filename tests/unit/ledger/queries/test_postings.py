"""The postings of an account: the newest first, each with the balance after it, page by page; and what is owed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.money import Movement
from ledger.queries.balances import AsOf, OwedAmount, sum_balances, sum_owed
from ledger.queries.journals import CursorInvalid
from ledger.queries.lake import TableRows
from ledger.queries.postings import read_postings_page
from tests.small_ledger import START, SmallLedger

CLEARING = "provider:stripe:clearing"


@pytest.fixture
def reported(ledger: SmallLedger) -> SmallLedger:
    """Rows 1 to 6, a minute apart: four in EUR and one in JPY of m-1, one in EUR of m-2."""
    ledger.add(Movement.CAPTURE, 1_000)
    ledger.add(Movement.CAPTURE, 700, "JPY")
    ledger.add(Movement.REFUND, 400)
    ledger.add(Movement.CAPTURE, 250, merchant="m-2")
    ledger.add(Movement.FEE, 30)
    ledger.add(Movement.PAYOUT_PAID, 500)
    ledger.commit()
    return ledger


def shown(ledger: SmallLedger, account: str = CLEARING, **wanted: Any) -> list[tuple[int, str, int, int]]:
    found = read_postings_page(ledger.postings, account, **wanted)
    return [(line.seq, line.side, line.amount_minor, line.balance_minor) for line in found.lines]


def test_each_posting_has_the_balance_after_it_in_its_currency(reported: SmallLedger) -> None:
    assert shown(reported) == [
        (6, "credit", 500, 320),
        (5, "credit", 30, 820),
        (4, "debit", 250, 850),
        (3, "credit", 400, 600),
        (2, "debit", 700, 700),
        (1, "debit", 1_000, 1_000),
    ]
    assert shown(reported, currency="JPY") == [(2, "debit", 700, 700)]
    assert shown(reported, account="merchant:m-2:payable") == [(4, "credit", 250, -250)]


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"merchant": "m-1"},
        {"merchant": "m-1", "currency": "EUR"},
        {"as_of": AsOf(before=START + timedelta(minutes=4))},
        {"as_of": AsOf(seq=3)},
    ],
)
def test_a_balance_is_the_sum_of_its_postings(reported: SmallLedger, wanted: dict[str, Any]) -> None:
    found = sum_balances(reported.postings, **wanted)
    assert found
    for one in found:
        page = read_postings_page(reported.postings, one.account, **{**wanted, "currency": one.currency})
        assert page.count == len(page.lines) and page.next is None
        assert page.lines[0].balance_minor == one.balance_minor
        sides = {
            side: sum(line.amount_minor for line in page.lines if line.side == side) for side in ("debit", "credit")
        }
        assert (sides["debit"], sides["credit"]) == (one.debit_minor, one.credit_minor)


def test_pages_together_are_all_of_it_though_more_is_booked_meanwhile(reported: SmallLedger) -> None:
    whole = shown(reported)
    first = read_postings_page(reported.postings, CLEARING, limit=2)
    assert first.count == 6 and first.next is not None
    reported.add(Movement.CAPTURE, 9)
    reported.commit()
    second = read_postings_page(reported.postings, CLEARING, cursor=first.next, limit=2)
    last = read_postings_page(reported.postings, CLEARING, cursor=second.next, limit=2)
    assert last.next is None
    lines = [*first.lines, *second.lines, *last.lines]
    assert [(line.seq, line.side, line.amount_minor, line.balance_minor) for line in lines] == whole


def test_lines_of_one_booking_and_of_one_moment_have_a_page_break_between_them(ledger: SmallLedger) -> None:
    for amount in (1, 2, 3, 4):
        ledger.add(Movement.CAPTURE, amount, at=START)
    ledger.commit()
    cursor, seen = None, []
    while True:
        page = read_postings_page(ledger.postings, CLEARING, cursor=cursor, limit=1)
        seen += [(line.seq, line.balance_minor) for line in page.lines]
        if (cursor := page.next) is None:
            break
    assert seen == [(4, 10), (3, 6), (2, 3), (1, 1)]


def test_several_journals_are_one_account(tmp_path: Path) -> None:
    parts = [SmallLedger(tmp_path / "data", shard=number) for number in (0, 1)]
    parts[0].add(Movement.CAPTURE, 100, at=START)
    parts[1].add(Movement.CAPTURE, 30, at=START + timedelta(minutes=1))
    parts[0].add(Movement.REFUND, 20, at=START + timedelta(minutes=2))
    for part in parts:
        part.commit()
    tables = [TableRows(part.postings, f"ledger.{part.shard}" if part.shard else "ledger") for part in parts]
    found = read_postings_page(tables, CLEARING).lines
    assert [(line.stream, line.seq, line.balance_minor) for line in found] == [
        ("ledger", 2, 110),
        ("ledger.1", 1, 130),
        ("ledger", 1, 100),
    ]
    page = read_postings_page(tables, CLEARING, limit=1)
    rest = read_postings_page(tables, CLEARING, cursor=page.next)
    assert [line.balance_minor for line in rest.lines] == [130, 100]


def test_nothing_is_booked_on_an_account_that_nobody_used(ledger: SmallLedger, reported: SmallLedger) -> None:
    for account in ("merchant:m-9:payable", "x' OR '1'='1", ""):
        found = read_postings_page(reported.postings, account)
        assert (found.lines, found.count, found.next) == ((), 0, None)
    empty = read_postings_page(str(ledger.data / "nowhere"), CLEARING)
    assert (empty.lines, empty.count) == ((), 0)


@pytest.mark.parametrize("cursor", ["x", "1-2", "1~2~3", "1~2~3~x' OR 1", "9" * 40 + "~1~1~", "-1~1~1~ledger~"])
def test_a_cursor_that_no_page_gave_is_refused(reported: SmallLedger, cursor: str) -> None:
    with pytest.raises(CursorInvalid):
        read_postings_page(reported.postings, CLEARING, cursor=cursor)


def test_what_is_owed_is_credits_minus_debits_of_the_merchants_accounts(reported: SmallLedger) -> None:
    found = sum_owed(sum_balances(reported.postings))
    assert found == [
        OwedAmount("m-1", "EUR", {"payable": 1_000, "refunds": -400, "fees": -30, "payouts": -500}, 70, 2),
        OwedAmount("m-1", "JPY", {"payable": 700}, 700, 0),
        OwedAmount("m-2", "EUR", {"payable": 250}, 250, 2),
    ]


def test_owed_names_a_merchant_as_its_directory_does_and_knows_accounts_of_other_handlers(ledger: SmallLedger) -> None:
    ledger.add(Movement.CAPTURE, 100, merchant="Zoë: 100%")
    ledger.commit()
    [one] = sum_owed(sum_balances(ledger.postings))
    assert one.merchant == "Zoë: 100%"
