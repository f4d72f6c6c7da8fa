"""Amounts as people write them: minor units with the decimals that ISO 4217 gives their currency."""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from core.errors import PayhookError
from core.money import AMOUNT_MINOR_MAX, decimals_of

_NUMBER = re.compile(r"-?\d{1,19}(\.\d{1,8})?", re.ASCII)


class AmountInvalid(PayhookError):
    def __init__(self, text: str, currency: str, problem: str) -> None:
        self.text = text
        self.currency = currency
        self.problem = problem
        super().__init__(f"{text!r} isn't an amount in {currency}: {problem}")


def format_decimal(amount_minor: int, currency: str) -> str:
    """Formats an amount: ``1,234.50`` of 123450 EUR, ``1,234`` of 1234 JPY."""
    decimals = decimals_of(currency)
    units, rest = divmod(abs(amount_minor), 10**decimals)
    sign = "-" if amount_minor < 0 else ""
    fraction = f".{rest:0{decimals}}" if decimals else ""
    return f"{sign}{units:,}{fraction}"


def parse_minor_units(text: str, currency: str) -> int:
    """Parses an amount: 1250 of ``12.50`` EUR.

    :raises AmountInvalid: no number, or finer or greater than what is booked
    """
    if not _NUMBER.fullmatch(text):
        raise AmountInvalid(text, currency, "write a number such as 1234.50, with a point and nothing else in it")
    decimals = decimals_of(currency)
    amount = Decimal(text).scaleb(decimals)
    if abs(amount) > AMOUNT_MINOR_MAX:
        raise AmountInvalid(text, currency, f"it is beyond {AMOUNT_MINOR_MAX} minor units")
    if amount != amount.to_integral_value():
        has = f"{decimals} decimals" if decimals else "no decimals"
        raise AmountInvalid(text, currency, f"{currency} has {has}")
    return int(amount)


def format_decimals(amounts_minor: pa.ChunkedArray, currencies: pa.ChunkedArray) -> pa.ChunkedArray:
    """Formats a column of amounts for machines: ``1234.50`` of 123450 EUR."""
    by_code = {code: decimals_of(code) for code in pc.unique(currencies).to_pylist() if code is not None}
    texts = amounts_minor.cast(pa.string())
    for decimals in sorted(set(by_code.values()) - {0}):
        codes = pa.array([code for code, has in by_code.items() if has == decimals], pa.string())
        moved = pc.multiply(amounts_minor.cast(pa.decimal128(19, 0)), pa.scalar(Decimal(1).scaleb(-decimals)))
        texts = pc.if_else(pc.is_in(currencies, codes), moved.cast(pa.string()), texts)
    return texts
