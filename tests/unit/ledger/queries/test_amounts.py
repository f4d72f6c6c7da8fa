"""Amounts as texts and back, with each currency's decimals."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.money import AMOUNT_MINOR_MAX, AmountInvalid, decimals_of, format_decimal, parse_minor_units
from ledger.queries.export import format_decimals

CURRENCIES = ("EUR", "JPY", "KWD", "CLF")
amounts = st.integers(-AMOUNT_MINOR_MAX, AMOUNT_MINOR_MAX)


@pytest.mark.parametrize(
    ("amount_minor", "currency", "text"),
    [
        (123_450, "EUR", "1,234.50"),
        (5, "EUR", "0.05"),
        (0, "EUR", "0.00"),
        (-5, "EUR", "-0.05"),
        (-123_456, "USD", "-1,234.56"),
        (1_234, "JPY", "1,234"),
        (1_234_567, "KWD", "1,234.567"),
        (1, "CLF", "0.0001"),
        (AMOUNT_MINOR_MAX, "EUR", "10,000,000,000,000.00"),
    ],
)
def test_an_amount_has_the_decimals_of_its_currency(amount_minor: int, currency: str, text: str) -> None:
    assert format_decimal(amount_minor, currency) == text


@given(amounts, st.sampled_from(CURRENCIES))
def test_an_amount_is_read_back_from_its_text(amount_minor: int, currency: str) -> None:
    assert parse_minor_units(format_decimal(amount_minor, currency).replace(",", ""), currency) == amount_minor


@pytest.mark.parametrize(
    ("text", "currency", "problem"),
    [
        ("12.505", "EUR", "EUR has 2 decimals"),
        ("0.5", "JPY", "JPY has no decimals"),
        ("1,250", "EUR", "a point and nothing else"),
        ("12,50", "EUR", "a point and nothing else"),
        ("NaN", "EUR", "a number"),
        ("1e3", "EUR", "a number"),
        ("", "EUR", "a number"),
        ("12.", "EUR", "a number"),
        ("٣", "EUR", "a number"),
        ("10000000000000.01", "EUR", "beyond"),
        ("9" * 19, "EUR", "beyond"),
        ("9" * 40, "EUR", "a number"),
    ],
)
def test_what_is_no_amount_of_the_currency_is_refused_with_the_reason(text: str, currency: str, problem: str) -> None:
    with pytest.raises(AmountInvalid, match=problem):
        parse_minor_units(text, currency)


def test_whole_units_need_no_decimals() -> None:
    assert (parse_minor_units("12", "EUR"), parse_minor_units("12.5", "KWD"), parse_minor_units("12.000", "JPY")) == (
        1_200,
        12_500,
        12,
    )


@given(st.lists(st.tuples(amounts, st.sampled_from(CURRENCIES))))
def test_a_column_of_amounts_reads_as_each_of_them_does(money: list[tuple[int, str]]) -> None:
    minor = pa.chunked_array([pa.array([one for one, _ in money], pa.int64())])
    codes = pa.chunked_array([pa.array([code for _, code in money], pa.string())])
    assert format_decimals(minor, codes).to_pylist() == [
        format_decimal(one, code).replace(",", "") for one, code in money
    ]


def test_the_currencies_here_have_each_number_of_decimals() -> None:
    assert [decimals_of(code) for code in CURRENCIES] == [2, 0, 3, 4]
