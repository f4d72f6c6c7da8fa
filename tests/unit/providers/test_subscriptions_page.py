"""The finance guide names every type that books and every one that is left to a person."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[3] / "docs" / "finance.md").read_text("utf-8")
LISTED = {
    "stripe": "Stripe",
    "checkout": "Checkout.com",
    "square": "Square",
    "paddle": "Paddle",
    "razorpay": "Razorpay",
    "mollie": "Mollie",
    "gocardless": "GoCardless",
    "braintree": "Braintree",
}


@pytest.mark.parametrize("name", LISTED)
def test_its_row_has_every_type_and_no_other(name: str) -> None:
    modules = [import_module(f"providers.{name}")]
    if name == "braintree":
        modules.append(import_module("providers.braintree_money"))
    books: set[str] = set()
    left: set[str] = set()
    for module in modules:
        books |= set(getattr(module, "_READERS", ())) | set(getattr(module, "_MOVEMENTS", ()))
        left |= set(getattr(module, "LEFT_TO_A_PERSON", ()))
    [row] = [line for line in GUIDE.splitlines() if line.startswith(f"| {LISTED[name]} | ")]
    _, _, of_books, of_left, _ = (cell.strip() for cell in row.split("|"))
    assert (named(of_books), named(of_left)) == (books, left)


def named(cell: str) -> set[str]:
    return {word.strip(" `") for word in cell.split(",")} - {"none"}
