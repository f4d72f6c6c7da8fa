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
SECTION = re.compile(r"^## Every rule by example$(.*?)^## ", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """One line of the guide's table, as it stands there."""

    movement: str
    reported: str
    debit: str
    credit: str
    amount: str
    owed: str

    def booked(self) -> tuple[Money, str, str]:
        """Debit, credit and amount as the ledger books what was reported."""
        amount_minor, currency = self.reported.split()
        fact = MoneyFact("stripe:f:x", Movement(self.movement), "acct", "pi", Money(int(amount_minor), currency))
        debit, credit = book_fact(fact, "stripe", "m-1")
        assert debit.money == credit.money
        return debit.money, debit.account, credit.account


def examples() -> list[Example]:
    section = SECTION.search(GUIDE.read_text("utf-8"))
    assert section is not None
    rows = [line.strip("|").split("|") for line in section[1].splitlines() if line.startswith("|")][2:]
    return [Example(*(cell.strip().strip("`") for cell in cells[1:])) for cells in rows]


def shown(amount_minor: int, currency: str) -> str:
    return f"{format_decimal(amount_minor, currency)} {currency}"


@pytest.mark.row("G8")
def test_each_example_is_booked_as_the_guide_says() -> None:
    for example in examples():
        money, debit, credit = example.booked()
        assert (debit, credit, shown(money.amount_minor, money.currency)) == (
            example.debit,
            example.credit,
            example.amount,
        ), example


def test_what_is_owed_after_each_example_is_what_the_guide_says() -> None:
    owed: dict[str, int] = defaultdict(int)
    for example in examples():
        money, debit, credit = example.booked()
        owed[money.currency] += money.amount_minor * (credit.startswith("merchant:") - debit.startswith("merchant:"))
        assert shown(owed[money.currency], money.currency) == example.owed, example


def test_there_is_an_example_of_every_movement_and_every_number_of_decimals() -> None:
    assert {example.movement for example in examples()} == {movement.value for movement in BOOKINGS}
    assert {example.reported.split()[1] for example in examples()} == {"EUR", "JPY", "KWD"}
