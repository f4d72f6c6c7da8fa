"""Money is whole minor units of a currency, and a fact's hash is what two reports of it agree on."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from core.money import AMOUNT_MINOR_MAX, Money, MoneyFact, MoneyInvalid, Movement
from core.work import Posting, postings_from_json, postings_to_json

FACT = MoneyFact("stripe:re_1:refund", Movement.REFUND, "acct_1", "pi_1", Money(500, "EUR"))


@pytest.mark.parametrize("amount", [1.0, "1", True, None, Decimal(1), AMOUNT_MINOR_MAX + 1, -AMOUNT_MINOR_MAX - 1])
def test_an_amount_is_a_bounded_integer(amount: Any) -> None:
    with pytest.raises(MoneyInvalid):
        Money(amount, "EUR")


@pytest.mark.parametrize("currency", ["", "eur", "EU", "EURO", "E1R", "EUR\n", None, "ÉUR"])
def test_a_currency_is_three_capital_letters(currency: Any) -> None:
    with pytest.raises(MoneyInvalid):
        Money(1, currency)


def test_the_bounds_themselves_are_money() -> None:
    assert Money(AMOUNT_MINOR_MAX, "EUR").amount_minor == AMOUNT_MINOR_MAX
    assert Money(-AMOUNT_MINOR_MAX, "EUR").amount_minor == -AMOUNT_MINOR_MAX


@pytest.mark.parametrize(
    "change",
    [
        {"fact_key": "stripe:re_2:refund"},
        {"movement": Movement.CAPTURE},
        {"account": "acct_2"},
        {"money": Money(501, "EUR")},
        {"money": Money(500, "USD")},
    ],
)
def test_another_movement_has_another_hash(change: dict[str, Any]) -> None:
    assert replace(FACT, **change).sha256 != FACT.sha256


def test_a_report_that_names_the_payment_otherwise_is_of_the_same_fact() -> None:
    """A refund of a charge without its payment intent names the charge."""
    assert replace(FACT, payment="ch_1").sha256 == FACT.sha256


def test_money_invalid_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(MoneyInvalid("the amount is a float")))
    assert error.problem == "the amount is a float"


def test_postings_come_back_from_their_json() -> None:
    postings = (Posting("a:b:c", "debit", Money(1, "EUR")), Posting("d:é:f", "credit", Money(1, "EUR")))
    assert postings_from_json(postings_to_json(postings)) == postings
    assert postings_to_json(()) is None
    assert postings_from_json(None) == ()
