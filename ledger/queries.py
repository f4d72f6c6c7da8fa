"""What finance and the command line ask: balances, and one event's story."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from journal.schema import JournalRow, from_arrow


@dataclass(frozen=True, slots=True)
class Balance:
    """One account in one currency, in minor units; ``balance_minor`` is debits minus credits."""

    account: str
    currency: str
    debit_minor: int
    credit_minor: int

    @property
    def balance_minor(self) -> int:
        return self.debit_minor - self.credit_minor


@dataclass(frozen=True, slots=True)
class EventStory:
    """Every journal row of an event key or fact key, oldest first, and the lines that they booked."""

    rows: list[JournalRow]
    postings: list[dict[str, Any]]


def balances(postings: str, merchant: str | None = None, currency: str | None = None) -> list[Balance]:
    """Balances by account and currency; empty while there is no postings table.

    :param postings: the path of the postings table
    """
    if not DeltaTable.is_deltatable(postings):
        return []
    wanted = pc.scalar(True)
    if merchant is not None:
        wanted = wanted & (pc.field("merchant") == merchant)
    if currency is not None:
        wanted = wanted & (pc.field("currency") == currency)
    columns = ["account", "currency", "side", "amount_minor"]
    lines = DeltaTable(postings).to_pyarrow_dataset().to_table(columns=columns, filter=wanted)
    sums = lines.group_by(["account", "currency", "side"]).aggregate([("amount_minor", "sum")])
    totals: dict[tuple[str, str], dict[str, int]] = {}
    for row in sums.to_pylist():
        totals.setdefault((row["account"], row["currency"]), {})[row["side"]] = row["amount_minor_sum"]
    return [
        Balance(account, code, sides.get("debit", 0), sides.get("credit", 0))
        for (account, code), sides in sorted(totals.items())
    ]


def event_story(journal: str, postings: str, key: str) -> EventStory:
    """The story of an event key, or of a fact key."""
    named = (pc.field("event_key") == key) | (pc.field("fact_key") == key)
    table = DeltaTable(journal).to_pyarrow_dataset().to_table(filter=named)
    rows = from_arrow(table.sort_by("seq"))
    lines: list[dict[str, Any]] = []
    if rows and DeltaTable.is_deltatable(postings):
        seqs = pa.array([row.seq for row in rows], pa.int64())
        booked = DeltaTable(postings).to_pyarrow_dataset().to_table(filter=pc.field("seq").isin(seqs))
        lines = booked.sort_by([("seq", "ascending"), ("line", "ascending")]).to_pylist()
    return EventStory(rows, lines)
