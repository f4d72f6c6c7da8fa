"""Open items as operators see them, read from the journal alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from core.decision import OPEN_DECISIONS, Decision
from core.errors import PayhookError
from dlq.commands import Target
from journal.bodies import BodyStore
from journal.schema import JournalRow, from_arrow

LIST_MAX = 1_000


class ItemUnknown(PayhookError):
    """No journal row has this item's number."""

    def __init__(self, item_seq: int) -> None:
        self.item_seq = item_seq
        super().__init__(f"there is no item {item_seq}; `payhook dlq list` shows the open ones")


@dataclass(frozen=True, slots=True)
class Item:
    """One open item. ``row`` is its last row."""

    row: JournalRow

    @property
    def item_seq(self) -> int:
        return self.row.item_seq

    @property
    def target(self) -> Target:
        """The item as it was seen: what a command names."""
        return Target(self.row.item_seq, self.row.seq)


@dataclass(frozen=True, slots=True)
class Story:
    """Everything that was decided of one item, oldest first, and its bytes where they are still kept."""

    rows: list[JournalRow]
    body: bytes | None

    @property
    def target(self) -> Target:
        return Target(self.rows[-1].item_seq, self.rows[-1].seq)

    @property
    def is_open(self) -> bool:
        return _is_open(self.rows[-1])


def list_items(
    journal: str, decisions: Collection[Decision] = (Decision.DEAD,), limit: int = LIST_MAX, after: int = 0
) -> list[Item]:
    """Items whose last row is one of ``decisions``, in item order, those with a greater number than ``after``.

    :param journal: the path of the stream's journal
    """
    dataset = DeltaTable(journal).to_pyarrow_dataset()
    open_now = pa.array([decision.value for decision in OPEN_DECISIONS])
    touched = dataset.to_table(
        columns=["item_seq", "seq", "first", "decision"],
        filter=(pc.field("item_seq") > after) & (pc.field("decision").isin(open_now) | ~pc.field("first")),
    )
    last = touched.group_by("item_seq").aggregate([("seq", "max")])
    is_last = pc.is_in(touched["seq"], value_set=last["seq_max"].combine_chunks())
    wanted = pc.is_in(touched["decision"], value_set=pa.array([decision.value for decision in decisions]))
    is_command = pc.and_(touched["first"], pc.equal(touched["decision"], Decision.REPLAYED.value))
    chosen = touched.filter(pc.and_(pc.and_(is_last, wanted), pc.invert(is_command)))
    seqs = chosen.sort_by("item_seq")["seq"].slice(0, limit).combine_chunks()
    rows = from_arrow(dataset.to_table(filter=pc.field("seq").isin(seqs)).sort_by("item_seq"))
    return [Item(row) for row in rows]


def show_item(journal: str, bodies: str, item_seq: int) -> Story:
    """One item's whole story.

    :raises ItemUnknown: there is no such item
    """
    dataset = DeltaTable(journal).to_pyarrow_dataset()
    rows = from_arrow(dataset.to_table(filter=pc.field("item_seq") == item_seq).sort_by("seq"))
    if not rows:
        raise ItemUnknown(item_seq)
    sha256 = rows[0].body_sha256
    body = BodyStore(bodies).fetch([sha256]).get(sha256) if sha256 is not None else None
    return Story(rows, body)


def _is_open(row: JournalRow) -> bool:
    is_command = row.first and row.decision is Decision.REPLAYED
    return row.decision in OPEN_DECISIONS and not is_command
