"""Gathers an item's story: its rows and its entity's events from the journal, what is like it from the index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import fields

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from dlq.index.file import IndexFile
from dlq.index.fold import ROW_COLUMNS, fold
from dlq.index.follow import records
from dlq.index.item import COLUMNS, Entry, Item, ItemState, item_of
from dlq.index.payload import Payloads
from dlq.index.story import ItemStory, ItemUnknown, Neighbour, acts_of, attempts_of, headers_of
from journal.errors import JournalBroken
from journal.reader import dataset_of
from journal.schema import JournalRow, from_arrow, to_arrow
from journal.shards import decides, shard_at

ROWS_MAX = 500
"""Of an item that was tried for ever: half of them its first, half its last."""

NEIGHBOURS_MAX = 20
LISTED_MAX = 20
_NEIGHBOUR_COLUMNS = (
    *("seq", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at", "event_key", "event_type"),
    *("occurred_at", "received_at", "reason", "out_of_order"),
)


class Context:
    """Reads stories of one stream's items."""

    def __init__(self, stream: str, file: IndexFile, journal: str, payloads: Payloads) -> None:
        self._stream = stream
        self._file = file
        self._journal = journal
        self._payloads = payloads

    def story(self, item_seq: int) -> ItemStory:
        """One item's story, whether the index holds it or not.

        :raises ItemUnknown: no row has this number, or another shard goes on with the item
        :raises JournalBroken: the journal or the bodies can't be read
        :raises OriginUnreadable: only Kafka has its bytes, and doesn't answer
        """
        rows = self._rows(item_seq)
        shown, cut = _bounded(rows)
        item = self._item(item_seq, rows)
        before, after = self._neighbours(item_seq, item.entity_key)
        with self._file.reading() as connection:
            held, held_total = _held(connection, item, {row.seq for row in rows})
            alike, alike_total = _alike(connection, item)
        return ItemStory(
            stream=self._stream,
            item=item,
            rows=tuple(shown),
            rows_cut=cut,
            attempts=attempts_of(shown),
            acts=acts_of(shown),
            headers=headers_of(rows[0]),
            payload=self._payloads.of(rows[0]),
            before=before,
            after=after,
            held=held,
            held_total=held_total,
            alike=alike,
            alike_total=alike_total,
        )

    def _rows(self, item_seq: int) -> list[JournalRow]:
        if not DeltaTable.is_deltatable(self._journal):
            raise ItemUnknown(item_seq)
        rows = from_arrow(self._read(pc.field("item_seq") == item_seq, None).sort_by("seq"))
        if not (rows and decides(shard_at(self._journal), rows[-1])):
            raise ItemUnknown(item_seq)
        return rows

    def _item(self, item_seq: int, rows: Sequence[JournalRow]) -> Item:
        """As the rows tell it, which may be more than the index knows yet; the amount is the index's."""
        entry: Entry | None = None
        for record in records(to_arrow(rows).select(ROW_COLUMNS)):
            entry = fold(entry, record).entry
        assert entry is not None
        if entry.amount_minor is None:
            with self._file.reading() as connection:
                found = connection.execute(
                    "SELECT amount_minor, currency FROM items WHERE item_seq = ?", (item_seq,)
                ).fetchone()
            entry.amount_minor, entry.currency = found if found is not None else (None, None)
        return item_of(entry)

    def _neighbours(self, item_seq: int, entity_key: str | None) -> tuple[tuple[Neighbour, ...], tuple[Neighbour, ...]]:
        """Events of its entity: the last before it and the first after it."""
        if entity_key is None:
            return (), ()
        is_its = pc.field("entity_key") == entity_key
        items = sorted(set(self._read(is_its, ["item_seq"])["item_seq"].to_pylist()) - {item_seq})
        before = [seq for seq in items if seq < item_seq][-NEIGHBOURS_MAX:]
        after = [seq for seq in items if seq > item_seq][:NEIGHBOURS_MAX]
        if not (before or after):
            return (), ()
        wanted = is_its & pc.field("item_seq").isin([*before, *after])
        rows = from_arrow(self._read(wanted, _NEIGHBOUR_COLUMNS).sort_by("seq"))
        last = {row.item_seq: row for row in rows}
        return tuple(_neighbour(last[seq]) for seq in before), tuple(_neighbour(last[seq]) for seq in after)

    def _read(self, wanted: pc.Expression, columns: Sequence[str] | None) -> pa.Table:
        try:
            dataset = dataset_of(DeltaTable(self._journal))
            return dataset.to_table(columns=None if columns is None else list(columns), filter=wanted)
        except (OSError, DeltaError, pa.ArrowException) as unreadable:
            raise JournalBroken(self._journal, f"it can't be read: {unreadable}") from unreadable


def _bounded(rows: list[JournalRow]) -> tuple[list[JournalRow], bool]:
    if len(rows) <= ROWS_MAX:
        return rows, False
    half = ROWS_MAX // 2
    return [*rows[:half], *rows[-half:]], True


def _neighbour(row: JournalRow) -> Neighbour:
    return Neighbour(**{field.name: getattr(row, field.name) for field in fields(Neighbour)})


def _held(connection: sqlite3.Connection, item: Item, seqs: Iterable[int]) -> tuple[tuple[Item, ...], int]:
    """Later events of its entity that wait behind it, or that its death took along."""
    if item.entity_key is None or not item.is_open:
        return (), 0
    causes = sorted(seqs)[-ROWS_MAX:]
    marks = ", ".join("?" * len(causes))
    because = f"(decision = 'parked' AND due_at IS NULL) OR cause_seq IN ({marks})"
    condition = f"entity_key = ? AND item_seq > ? AND state IN ('open', 'waiting') AND ({because})"
    return _some(connection, condition, (item.entity_key, item.item_seq, *causes), "item_seq")


def _alike(connection: sqlite3.Connection, item: Item) -> tuple[tuple[Item, ...], int]:
    """Earlier items with the same fingerprint that the index still holds, the latest first."""
    if item.fingerprint is None:
        return (), 0
    states = [state.value for state in ItemState if state != ItemState.SETTLED]
    condition = f"state IN ({', '.join('?' * len(states))}) AND fingerprint = ? AND item_seq < ?"
    return _some(connection, condition, (*states, item.fingerprint, item.item_seq), "item_seq DESC")


def _some(
    connection: sqlite3.Connection, condition: str, values: Sequence[object], order: str
) -> tuple[tuple[Item, ...], int]:
    """The first of the items that match, and how many do."""
    total = connection.execute(f"SELECT count(*) FROM items WHERE {condition}", values).fetchone()[0]
    found = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM items WHERE {condition} ORDER BY {order} LIMIT ?", (*values, LISTED_MAX)
    )
    return tuple(item_of(Entry(*one)) for one in found), int(total)
