"""What events booked, and what a reversal of it would book."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from core.decision import Decision
from core.errors import PayhookError
from core.work import Posting, postings_from_json, reversed_postings
from dlq.commands import Target
from journal.reader import dataset_of
from journal.schema import JournalRow, from_arrow


class NotReversible(PayhookError):
    """Nothing was sent."""

    def __init__(self, key: str, problem: str) -> None:
        self.key = key
        self.problem = problem
        super().__init__(f"{key}: {problem}; nothing was sent")


@dataclass(frozen=True, slots=True)
class Booking:
    """An applied event that booked something. ``row`` is the journal's."""

    row: JournalRow

    @property
    def target(self) -> Target:
        return Target.of(self.row)

    @property
    def would_book(self) -> tuple[Posting, ...]:
        """What a reversal of it books."""
        return reversed_postings(postings_from_json(self.row.postings))


def bookings_of(journal: str, keys: Sequence[str]) -> list[Booking]:
    """What each event key or fact key booked.

    :param journal: the path of the ledger's journal
    :raises NotReversible: one of them booked nothing, or was reversed before
    """
    names = pa.array(keys, pa.string())
    rows = rows_where(journal, pc.field("event_key").isin(names) | pc.field("fact_key").isin(names))
    return [_booking(key, [row for row in rows if key in (row.event_key, row.fact_key)]) for key in dict.fromkeys(keys)]


def rows_where(journal: str, wanted: pc.Expression) -> list[JournalRow]:
    """Rows in seq order; none of a journal that hasn't begun."""
    if not DeltaTable.is_deltatable(journal):
        return []
    return from_arrow(dataset_of(DeltaTable(journal)).to_table(filter=wanted).sort_by("seq"))


def _booking(key: str, rows: Collection[JournalRow]) -> Booking:
    booked = [row for row in rows if row.decision is Decision.APPLIED and row.postings is not None]
    if not rows:
        raise NotReversible(key, "there is no such event or fact")
    if not booked:
        raise NotReversible(key, f"it booked nothing: {', '.join(sorted({row.decision.value for row in rows}))}")
    items = {row.item_seq for row in booked}
    if any(row.decision is Decision.REVERSED and row.item_seq in items for row in rows):
        raise NotReversible(key, "it was reversed before")
    return Booking(booked[0])
