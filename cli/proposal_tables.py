"""What a proposal would book, shown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from cli.tables import row
from core.work import Posting

APPROVED_WHERE = "an administrator who isn't you approves it: /ledger/reversals at the management listener"


def would_be_booked(first: str) -> Table:
    """An empty table of lines, behind a column of what they are of."""
    return Table(first, "account", "debit", "credit", "currency", title="would be booked, in minor units")


def add_lines(table: Table, of: str, postings: Sequence[Posting]) -> None:
    for line in postings:
        amount = f"{line.money.amount_minor:,}"
        debit, credit = (amount, "") if line.side == "debit" else ("", amount)
        row(table, of, line.account, debit, credit, line.money.currency)
