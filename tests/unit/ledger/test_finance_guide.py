"""The finance guide's bookings are those that the ledger makes."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.money import Money, MoneyFact, Movement, format_decimal
from ledger.accounts import BOOKINGS, book_fact

GUIDE = Path(__file__).parents[3] / "docs" / "finance.md"


def read_table(heading: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    section = re.search(rf"^## {heading}$(.*?)^## ", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert section is not None
    rows = [line.strip("|").split("|") for line in section[1].splitlines() if line.startswith("|")][2:]
    return [[cell.strip().strip("`") for cell in cells] for cells in rows]


def rules() -> dict[str, tuple[str, str]]:
    """Debit and credit of each movement, as the guide says, of one provider and one merchant."""

    def name(account: str) -> str:
        return account.replace(":P:", ":stripe:").replace(":M:", ":m-1:")

    return {movement: (name(debit), name(credit)) for movement, _, debit, credit in read_table("What is booked")}


@dataclass(frozen=True)
class Example:
    """One line of the guide's table, as it stands there."""

    what: str
    movement: str
    reported: str
    owed: str

    def booked(self) -> tuple[Money, str, str]:
        """Amount, debit and credit as the ledger books what was reported."""
        amount_minor, currency = self.reported.split()
        fact = MoneyFact("stripe:f:x", Movement(self.movement), "acct", "pi", Money(int(amount_minor), currency))
        debit, credit = book_fact(fact, "stripe", "m-1")
        assert debit.money == credit.money
        return debit.money, debit.account, credit.account


def examples() -> list[Example]:
    return [Example(*cells) for cells in read_table("Every rule by example")]


def shown(amount_minor: int, currency: str) -> str:
    return f"{format_decimal(amount_minor, currency)} {currency}"


@pytest.mark.row("G8")
def test_each_example_is_booked_as_the_guides_rules_say() -> None:
    for example in examples():
        money, debit, credit = example.booked()
        rule = rules()[example.movement]
        assert (debit, credit) == (rule[::-1] if example.reported.startswith("-") else rule), example
        assert money.amount_minor == abs(int(example.reported.split()[0])), example


def test_what_is_owed_after_each_example_is_what_the_guide_says() -> None:
    owed: dict[str, int] = defaultdict(int)
    for example in examples():
        money, debit, credit = example.booked()
        owed[money.currency] += money.amount_minor * (credit.startswith("merchant:") - debit.startswith("merchant:"))
        assert shown(owed[money.currency], money.currency) == example.owed, example


def test_there_is_an_example_of_every_movement_and_every_number_of_decimals() -> None:
    assert {example.movement for example in examples()} == {movement.value for movement in BOOKINGS} == rules().keys()
    assert {example.reported.split()[1] for example in examples()} == {"EUR", "JPY", "KWD"}
