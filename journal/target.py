"""How an operator's act, or a note of it, names an item as it was seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from journal.schema import JournalRow

HASH_CHARS = 16
"""Characters of a row's hash, in hex: after a restore a seq names another row, and 64 bits tell the two apart."""


@dataclass(frozen=True, slots=True)
class ItemTarget:
    """An item and its last row that the operator saw: that row's seq and the first `HASH_CHARS` of its hash."""

    item_seq: int
    seen_seq: int
    seen_hash: str

    @classmethod
    def of_row(cls, row: JournalRow) -> ItemTarget:
        return cls(row.item_seq, row.seq, hash_head(row.row_hash))

    @property
    def text(self) -> str:
        return f"{self.item_seq}.{self.seen_seq}.{self.seen_hash}"

    def is_row(self, row: JournalRow) -> bool:
        return hash_head(row.row_hash) == self.seen_hash


def hash_head(row_hash: str) -> str:
    return row_hash[:HASH_CHARS]
