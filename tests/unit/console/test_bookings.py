"""A booking by hand, as the API is asked for it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from console.bookings import EntryAsked, LineAsked
from core.money import Money
from ingest.idempotency.request import Problem


@pytest.mark.parametrize(
    ("given", "minor"),
    [
        ({"amount": "12.50", "currency": "EUR"}, 1_250),
        ({"amount": "1250", "currency": "JPY"}, 1_250),
        ({"amount": "1.25", "currency": "KWD"}, 1_250),
        ({"amount_minor": 1_250, "currency": "EUR"}, 1_250),
    ],
)
def test_an_amount_is_a_decimal_text_or_in_minor_units(given: dict[str, Any], minor: int) -> None:
    line = LineAsked.model_validate({"account": "merchant:m-1:payable", "side": "debit", **given})
    assert line.posting().money == Money(minor, given["currency"])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"currency": "EUR"}, "amount or amount_minor"),
        ({"amount": "12.50", "amount_minor": 1_250, "currency": "EUR"}, "not both"),
        ({"amount": "12.50", "currency": "JPY"}, "JPY has no decimals"),
        ({"amount": "0.00", "currency": "EUR"}, "above zero"),
        ({"amount": "-1", "currency": "EUR"}, "above zero"),
        ({"amount": 12.5, "currency": "EUR"}, "string"),
        ({"amount": "12,50", "currency": "EUR"}, "1234.50"),
    ],
)
def test_an_amount_that_is_none_of_its_currency_is_not_valid(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        LineAsked.model_validate({"account": "merchant:m-1:payable", "side": "debit", **given})


@pytest.mark.parametrize("occurred_at", ["soon", "2026-01-31T12:00:00", "9999-12-31T23:59:59-01:00"])
def test_a_time_that_cannot_be_read_is_not_valid(occurred_at: str) -> None:
    lines = [
        LineAsked(account="merchant:m-1:payable", side="debit", amount_minor=1, currency="EUR"),
        LineAsked(account="merchant:m-1:disputes", side="credit", amount_minor=1, currency="EUR"),
    ]
    asked = EntryAsked(
        entity="stripe:acct_1:pi_1", occurred_at=occurred_at, evidence_sha256="ab" * 32, lines=lines, reason="moved"
    )
    with pytest.raises(Problem, match="occurred_at") as refused:
        asked.entry()
    assert refused.value.status == 422
