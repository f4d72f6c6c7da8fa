"""Bookings balance by themselves, in any order, and undo what they should."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.money import AMOUNT_MINOR_MAX, Money, MoneyFact, MoneyInvalid, Movement, Outside
from core.work import Posting
from ledger.accounts import BOOKINGS, AccountRole, AmountNotPositive, account_name, book_fact, is_account, merchants_of

CURRENCIES = ("EUR", "USD", "JPY")


def fact(movement: Movement, amount_minor: int = 1_000, currency: str = "EUR", number: int = 1) -> MoneyFact:
    return MoneyFact(f"p:{movement}:{number}", movement, "acct_1", "pay_1", Money(amount_minor, currency))


def net(postings: Iterable[Posting], owner: str = "") -> Counter[str]:
    """Debits minus credits by currency, over the accounts whose names begin with ``owner``."""
    sums: Counter[str] = Counter()
    for posting in postings:
        if posting.account.startswith(owner):
            sign = 1 if posting.side == "debit" else -1
            sums[posting.money.currency] += sign * posting.money.amount_minor
    return sums


def booked(*movements: Movement) -> list[Posting]:
    return [line for movement in movements for line in book_fact(fact(movement), "stripe", "m-1")]


facts = st.builds(
    fact,
    st.sampled_from(Movement),
    st.integers(0, AMOUNT_MINOR_MAX),
    st.sampled_from(CURRENCIES),
    st.integers(1, 9),
)


def test_every_movement_has_a_booking() -> None:
    """A movement that an adapter can report and nobody can book would die in the handler."""
    assert set(BOOKINGS) == set(Movement)
    assert all(debit is not credit for debit, credit in BOOKINGS.values())


@pytest.mark.row("F3")
@given(st.lists(st.tuples(facts, st.sampled_from(["stripe", "adyen"]), st.sampled_from(["m-1", "m:2"])), max_size=30))
def test_any_facts_in_any_order_keep_debits_equal_to_credits(
    reported: list[tuple[MoneyFact, str, str]],
) -> None:
    """Each booking balances per currency by itself, so every prefix of every sequence does."""
    every: list[Posting] = []
    for one, provider, merchant in reported:
        lines = book_fact(one, provider, merchant)
        assert all(line.money.amount_minor > 0 for line in lines)
        every += lines
        assert not any(net(every).values())


@given(st.permutations([Movement.CAPTURE, Movement.REFUND]))
def test_capture_and_full_refund_leave_the_merchant_with_nothing(order: list[Movement]) -> None:
    lines = booked(*order)
    assert net(lines, "merchant:m-1:")["EUR"] == 0
    assert net(lines, "provider:stripe:clearing")["EUR"] == 0


@given(st.permutations([Movement.CAPTURE, Movement.REFUND, Movement.REFUND_FAILED]))
def test_a_failed_refund_is_as_if_it_had_not_been(order: list[Movement]) -> None:
    assert net(booked(*order)) == net(booked(Movement.CAPTURE))
    assert net(booked(*order), "merchant:m-1:") == net(booked(Movement.CAPTURE), "merchant:m-1:")
    assert net(booked(*order), "merchant:m-1:refunds")["EUR"] == 0


@given(st.permutations([Movement.CAPTURE, Movement.CAPTURE_FAILED]))
def test_a_capture_that_failed_in_the_end_nets_to_zero_on_every_account(order: list[Movement]) -> None:
    lines = booked(*order)
    assert all(net(lines, line.account)["EUR"] == 0 for line in lines)


@given(st.permutations([Movement.DISPUTE_OPENED, Movement.DISPUTE_WON]))
def test_a_dispute_that_is_won_nets_to_zero_on_every_account(order: list[Movement]) -> None:
    lines = booked(*order)
    assert all(net(lines, line.account)["EUR"] == 0 for line in lines)


def test_a_lost_dispute_costs_the_merchant_once_and_leaves_nothing_receivable() -> None:
    lines = booked(Movement.CAPTURE, Movement.DISPUTE_OPENED, Movement.DISPUTE_LOST)
    assert net(lines, "merchant:m-1:disputes")["EUR"] == 0
    assert net(lines, "merchant:m-1:dispute_losses")["EUR"] == 1_000
    assert net(lines, "merchant:m-1:")["EUR"] == 0
    assert net(lines, "provider:stripe:clearing")["EUR"] == 0


def test_a_capture_is_owed_to_the_merchant_until_it_is_paid_out() -> None:
    assert net(booked(Movement.CAPTURE), "merchant:m-1:")["EUR"] == -1_000
    assert net(booked(Movement.CAPTURE, Movement.PAYOUT_PAID), "merchant:m-1:")["EUR"] == 0
    returned = booked(Movement.CAPTURE, Movement.PAYOUT_PAID, Movement.PAYOUT_FAILED)
    assert net(returned, "merchant:m-1:")["EUR"] == -1_000


def test_an_amount_of_zero_books_nothing() -> None:
    assert book_fact(fact(Movement.CAPTURE, 0), "stripe", "m-1") == ()


def test_a_payout_below_zero_is_booked_the_other_way_round() -> None:
    """The provider takes from the bank account: the same accounts, sides swapped, a positive amount."""
    taken = book_fact(fact(Movement.PAYOUT_PAID, -500), "stripe", "m-1")
    assert net(taken, "merchant:m-1:payouts")["EUR"] == -500
    assert all(line.money.amount_minor == 500 for line in taken)


@pytest.mark.parametrize("movement", [one for one in Movement if AccountRole.CLEARING in BOOKINGS[one]])
@pytest.mark.parametrize("part_minor", [1, 300, 1_000])
def test_what_is_outside_of_the_provider_clears_on_the_account_of_its_method(
    movement: Movement, part_minor: int
) -> None:
    whole = book_fact(fact(movement), "shop-a~mollie", "m-1", "shop-a")
    lines = book_fact(replace(fact(movement), outside=Outside("paypal", part_minor)), "shop-a~mollie", "m-1", "shop-a")
    assert net(lines)["EUR"] == 0
    assert net(lines, "merchant:") == net(whole, "merchant:")
    sign = 1 if BOOKINGS[movement][0] is AccountRole.CLEARING else -1
    assert net(lines, "outside:shop-a~paypal:clearing")["EUR"] == sign * part_minor
    assert net(lines, "provider:shop-a~mollie:clearing")["EUR"] == sign * (1_000 - part_minor)
    assert all(is_account(line.account) and line.money.amount_minor > 0 for line in lines)
    assert len(lines) == (2 if part_minor == 1_000 else 3)


@pytest.mark.parametrize("movement", [one for one in Movement if AccountRole.CLEARING not in BOOKINGS[one]])
def test_what_clears_nothing_is_booked_the_same_wherever_its_money_is(movement: Movement) -> None:
    outside = replace(fact(movement), outside=Outside("paypal", 1_000))
    assert book_fact(outside, "braintree", "m-1") == book_fact(fact(movement), "braintree", "m-1")
    assert outside.sha256 == fact(movement).sha256


@pytest.mark.parametrize("outside", [("paypal", 0), ("paypal", -1), ("Pay:Pal", 1), ("", 1), ("paypal", 1_001)])
def test_no_more_than_what_moved_is_outside_and_its_method_is_a_plain_name(outside: tuple[str, int]) -> None:
    with pytest.raises(MoneyInvalid):
        replace(fact(Movement.CAPTURE), outside=Outside(*outside))


def test_what_is_outside_is_part_of_what_two_reports_agree_on_where_there_is_any() -> None:
    plain = fact(Movement.CAPTURE)
    parts = [plain.fact_key, "capture", "acct_1", "1000", "EUR"]
    assert plain.sha256 == hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
    hashes = {replace(plain, outside=Outside(*one)).sha256 for one in (("paypal", 1), ("paypal", 2), ("voucher", 1))}
    assert len(hashes | {plain.sha256}) == 4


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        ("outside:paypal:clearing", True),
        ("merchant:m-1:fees", True),
        ("outside:paypal:payable", False),
        ("provider:stripe:fees", False),
        ("inside:paypal:clearing", False),
    ],
)
def test_the_chart_has_accounts_of_fees_and_of_what_is_outside(name: str, is_known: bool) -> None:
    assert is_account(name) == is_known


def test_a_fee_that_is_given_back_is_booked_the_other_way_round() -> None:
    given_back = book_fact(fact(Movement.FEE, -320), "stripe", "m-1")
    assert net(given_back, "merchant:m-1:fees")["EUR"] == -320
    assert net(given_back, "provider:stripe:clearing")["EUR"] == 320


def test_a_capture_below_zero_is_refused() -> None:
    with pytest.raises(AmountNotPositive, match="ask the provider"):
        book_fact(fact(Movement.CAPTURE, -1), "stripe", "m-1")


@given(st.text(min_size=1, max_size=40))
def test_an_account_name_splits_into_three_whatever_the_merchant_is_called(merchant: str) -> None:
    assert len(account_name(AccountRole.PAYABLE, "stripe", merchant).split(":")) == 3
    lines = book_fact(fact(Movement.CAPTURE), "stripe", merchant)
    owner = merchants_of([line.account for line in lines])[0]
    assert owner is not None and account_name(AccountRole.PAYABLE, "stripe", merchant) == f"merchant:{owner}:payable"


def test_each_merchants_account_is_its_owners_and_any_other_the_first_owners() -> None:
    accounts = ["provider:stripe:clearing", "merchant:m-1:payable", "merchant:m-2:payable"]
    assert merchants_of(accounts) == ["m-1", "m-1", "m-2"]
    assert merchants_of(["provider:stripe:clearing", "provider:adyen:clearing"]) == [None, None]
