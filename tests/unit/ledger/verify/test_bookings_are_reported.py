"""A booking that isn't what its event reported is named, also where a part of it is outside of the provider."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.money import Money, MoneyFact, Movement, Outside
from core.routing import of_tenant
from core.work import Posting, postings_to_json
from journal.schema import JournalRow
from ledger.accounts import BOOKINGS, AccountRole, book_fact, holder_of
from ledger.verify.duckdb_engine import DuckDb
from tests.unit.journal.rows import row
from tests.unit.ledger.verify.ledgers import name_rows, offenders

CLEARED = [movement for movement, roles in BOOKINGS.items() if AccountRole.CLEARING in roles]
HUNDRED = Money(1_000, "EUR")


def fact(movement: Movement = Movement.CAPTURE, part_minor: int = 300, method: str = "paypal") -> MoneyFact:
    return MoneyFact("mollie:tr_1:moved", movement, "pfl_1", "tr_1", HUNDRED, outside=Outside(method, part_minor))


def booked(seq: int, of: MoneyFact, lines: tuple[Posting, ...] | None = None, tenant: str | None = None) -> JournalRow:
    """An applied row of a fact, which booked these lines, or what the fact books."""
    holder = holder_of("mollie", of.account, tenant)
    postings = postings_to_json(book_fact(of, holder, "m-1", tenant) if lines is None else lines)
    about: dict[str, Any] = {
        "fact_key": of_tenant(tenant, of.fact_key),
        "fact_sha256": of.sha256,
        "account": of.account,
    }
    made = row(seq, provider="mollie", tenant=tenant, postings=postings, handler_version="ledger-3.00000000", **about)
    return replace(made, batch_seq=seq, epoch=1, row_hash="")


def named(duckdb: DuckDb, *rows: JournalRow) -> list[object]:
    """The rows that offend."""
    name_rows(duckdb, rows)
    return [one["seq"] for one in offenders(duckdb, "bookings_are_reported")]


@pytest.mark.parametrize("tenant", [None, "shop-a"])
def test_what_is_outside_is_booked_as_it_was_reported(duckdb: DuckDb, tenant: str | None) -> None:
    facts = [fact(movement, part_minor) for movement in CLEARED for part_minor in (300, 1_000)]
    assert named(duckdb, *(booked(seq, one, tenant=tenant) for seq, one in enumerate(facts, 1))) == []


@pytest.mark.parametrize("part_minor", [300, 1_000])
def test_another_part_another_method_another_tenants_and_none_are_named(duckdb: DuckDb, part_minor: int) -> None:
    reported = fact(part_minor=part_minor)
    others = [
        book_fact(fact(part_minor=299), "mollie/pfl_1", "m-1"),
        book_fact(fact(part_minor=part_minor, method="voucher"), "mollie/pfl_1", "m-1"),
        book_fact(replace(reported, outside=None), "mollie/pfl_1", "m-1"),
        book_fact(fact(Movement.REFUND_FAILED, part_minor), "mollie/pfl_1", "m-1"),
        book_fact(reported, "mollie/pfl_1", "m-1", "shop-a"),
    ]
    rows = [booked(seq, reported, lines) for seq, lines in enumerate(others, 1)]
    assert named(duckdb, *rows) == [1, 2, 3, 4, 5]


def test_lines_that_no_such_movement_has_are_named(duckdb: DuckDb) -> None:
    reported = fact()
    here, whole, part = book_fact(reported, "mollie/pfl_1", "m-1")
    wrong: list[tuple[Posting, ...]] = [
        (here, whole, replace(part, account="provider:paypal:clearing")),
        (here, whole, replace(part, account="outside:paypal:payable")),
        (replace(here, account="outside:mollie:clearing"), whole, part),
        (here, replace(whole, account="merchant:m-1:refunds"), part),
        (here, whole, replace(part, side="credit")),
        (here, whole, replace(part, money=Money(299, "EUR"))),
        (here, whole, replace(part, money=Money(300, "USD"))),
        (here, whole, part, part),
    ]
    rows = [booked(seq, reported, lines) for seq, lines in enumerate(wrong, 1)]
    assert named(duckdb, *rows) == list(range(1, len(wrong) + 1))


def test_a_fee_is_named_where_its_sides_are_swapped(duckdb: DuckDb) -> None:
    fee = MoneyFact("mollie:tr_1:fee", Movement.FEE, "pfl_1", "tr_1", Money(320, "EUR"))
    given_back = replace(fee, fact_key="mollie:re_1:fee", money=Money(-320, "EUR"))
    right = [booked(1, fee), booked(2, given_back)]
    swapped = [
        booked(3, fee, book_fact(replace(fee, money=Money(-320, "EUR")), "mollie/pfl_1", "m-1")),
        booked(4, given_back, book_fact(replace(given_back, money=Money(320, "EUR")), "mollie/pfl_1", "m-1")),
    ]
    assert named(duckdb, *right, *swapped) == [3, 4]
