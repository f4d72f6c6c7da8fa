"""Reads everything that is known of one item, for an operator who decides about it. Its rows and its entity's events
are from the journal, similar items from the index."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from core.decision import Decision, ErrorKind
from core.errors import PayhookError
from dead_letters.file import IndexFile, select_entries
from dead_letters.fold import ROW_COLUMNS, fold_row
from dead_letters.follow import unpack_rows
from dead_letters.item import Item, ItemEntry, ItemState, item_of
from dead_letters.payload import Payload, Payloads
from journal.journals import own_items
from journal.lake import has_table, open_table
from journal.reader import read_rows
from journal.schema import JournalRow, from_arrow, to_arrow

ACTED = frozenset({Decision.REPLAYED, Decision.PURGED, Decision.RESOLVED, Decision.RELEASED, Decision.REVERSED})


class ItemUnknown(PayhookError):
    def __init__(self, item_seq: int) -> None:
        self.item_seq = item_seq
        super().__init__(f"there is no item {item_seq}; `payhook dlq list` shows the open ones")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A try, with how it ended. ``number`` counts all of them from 1; the error's fields are None if it went well.

    ``log_lines``: the last lines that were logged during it.
    """

    number: int
    seq: int
    at: datetime
    decision: Decision
    kind: ErrorKind | None
    error_class: str | None
    error_code: str | None
    message: str | None
    stack: str | None
    log_lines: str | None
    handler_version: str | None


@dataclass(frozen=True, slots=True)
class Act:
    """An act of a person on the item. ``cause_seq``: the row of the command that did it."""

    seq: int
    at: datetime
    decision: Decision
    actor: str | None
    reason: str | None
    cause_seq: int | None


@dataclass(frozen=True, slots=True)
class Neighbour:
    item_seq: int
    seq: int
    event_key: str | None
    event_type: str | None
    occurred_at: datetime | None
    received_at: datetime | None
    decided_at: datetime
    decision: Decision
    reason: str | None
    out_of_order: bool


@dataclass(frozen=True, slots=True)
class ItemStory:
    """An item with its whole context. Its JSON has the same fields, but for the payload (`console.as_json.item_story`).

    ``item``: where it stands. ``rows``: every decision, oldest first (``rows_cut``: the first and the last of more).
    ``headers``: as they were received. ``before``, ``after``: events of its entity around it, in Kafka's order.
    ``held``: the first of the ``held_total`` that wait or died because of it. ``alike``: earlier ones with its
    fingerprint, the latest of ``alike_total``.
    """

    stream: str
    item: Item
    rows: tuple[JournalRow, ...]
    rows_cut: bool
    attempts: tuple[Attempt, ...]
    acts: tuple[Act, ...]
    headers: dict[str, str]
    payload: Payload
    before: tuple[Neighbour, ...]
    after: tuple[Neighbour, ...]
    held: tuple[Item, ...]
    held_total: int
    alike: tuple[Item, ...]
    alike_total: int

    @property
    def first_row(self) -> JournalRow:
        return self.rows[0]

    @property
    def died_of(self) -> Attempt | None:
        """Returns the latest try that failed: its class, message, stack and log lines are what the item died of."""
        return next((attempt for attempt in reversed(self.attempts) if attempt.error_class is not None), None)


def _list_attempts(rows: Sequence[JournalRow]) -> tuple[Attempt, ...]:
    tried = [row for row in rows if row.error_class is not None or row.handler_version is not None]
    tried = [row for row in tried if row.decision not in ACTED]
    return tuple(
        Attempt(
            number=number,
            seq=row.seq,
            at=row.decided_at,
            decision=row.decision,
            kind=row.error_kind,
            error_class=row.error_class,
            error_code=row.error_code,
            message=row.error_message,
            stack=row.error_stack or None,
            log_lines=row.log_lines,
            handler_version=row.handler_version,
        )
        for number, row in enumerate(tried, 1)
    )


def _list_acts(rows: Sequence[JournalRow]) -> tuple[Act, ...]:
    return tuple(
        Act(row.seq, row.decided_at, row.decision, row.actor, row.reason, row.cause_seq)
        for row in rows
        if row.decision in ACTED
    )


def _read_headers(first: JournalRow) -> dict[str, str]:
    headers = json.loads(first.headers) if first.headers else {}
    return {str(name): str(value) for name, value in headers.items()} if isinstance(headers, dict) else {}


ROWS_MAX = 500
"""Most rows of an item that was tried for ever: half of them its first, half its last."""

NEIGHBOURS_MAX = 20
LISTED_MAX = 20
_NEIGHBOUR_COLUMNS = (
    *("seq", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at", "event_key", "event_type"),
    *("occurred_at", "received_at", "reason", "out_of_order"),
)


class StoryReader:
    def __init__(self, stream: str, file: IndexFile, journal: str, payloads: Payloads) -> None:
        self._stream = stream
        self._file = file
        self._journal = journal
        self._payloads = payloads

    def read_story(self, item_seq: int) -> ItemStory:
        """Reads an item's story, whether the index holds it or not.

        :raises ItemUnknown: no row has this number, or another journal continues the item
        :raises TableUnreadable, JournalBroken: the journal can't be read, or the bodies
        :raises OriginUnreadable: only Kafka has its bytes, and doesn't answer
        """
        rows = self._rows(item_seq)
        shown, cut = _bound_rows(rows)
        item = self._item(item_seq, rows)
        before, after = self._find_neighbours(item_seq, item.entity_key)
        with self._file.begin_read() as connection:
            held, held_total = _find_held(connection, item, {row.seq for row in rows})
            alike, alike_total = _find_alike(connection, item)
        return ItemStory(
            stream=self._stream,
            item=item,
            rows=tuple(shown),
            rows_cut=cut,
            attempts=_list_attempts(shown),
            acts=_list_acts(shown),
            headers=_read_headers(rows[0]),
            payload=self._payloads.find_payload(rows[0]),
            before=before,
            after=after,
            held=held,
            held_total=held_total,
            alike=alike,
            alike_total=alike_total,
        )

    def _rows(self, item_seq: int) -> list[JournalRow]:
        if not has_table(self._journal):
            raise ItemUnknown(item_seq)
        rows = from_arrow(self._read(pc.field("item_seq") == item_seq, None).sort_by("seq"))
        if not (rows and own_items(self._journal)(rows[-1])):
            raise ItemUnknown(item_seq)
        return rows

    def _item(self, item_seq: int, rows: Sequence[JournalRow]) -> Item:
        entry: ItemEntry | None = None
        for record in unpack_rows(to_arrow(rows).select(ROW_COLUMNS)):
            entry = fold_row(entry, record).entry
        assert entry is not None
        if entry.amount_minor is None:
            with self._file.begin_read() as connection:
                row = connection.execute(
                    "SELECT amount_minor, currency FROM items WHERE item_seq = ?", (item_seq,)
                ).fetchone()
            entry.amount_minor, entry.currency = row if row is not None else (None, None)
        return item_of(entry)

    def _find_neighbours(
        self, item_seq: int, entity_key: str | None
    ) -> tuple[tuple[Neighbour, ...], tuple[Neighbour, ...]]:
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
        return tuple(_make_neighbour(last[seq]) for seq in before), tuple(_make_neighbour(last[seq]) for seq in after)

    def _read(self, wanted: pc.Expression, columns: Sequence[str] | None) -> pa.Table:
        return read_rows(open_table(self._journal), wanted, columns)


def _bound_rows(rows: list[JournalRow]) -> tuple[list[JournalRow], bool]:
    if len(rows) <= ROWS_MAX:
        return rows, False
    half = ROWS_MAX // 2
    return [*rows[:half], *rows[-half:]], True


def _make_neighbour(row: JournalRow) -> Neighbour:
    return Neighbour(**{field.name: getattr(row, field.name) for field in fields(Neighbour)})


def _find_held(connection: sqlite3.Connection, item: Item, seqs: Iterable[int]) -> tuple[tuple[Item, ...], int]:
    if item.entity_key is None or not item.is_open:
        return (), 0
    causes = sorted(seqs)[-ROWS_MAX:]
    marks = ", ".join("?" * len(causes))
    because = f"(decision = 'parked' AND due_at IS NULL) OR cause_seq IN ({marks})"
    condition = f"entity_key = ? AND item_seq > ? AND state IN ('open', 'waiting') AND ({because})"
    return _select_items(connection, condition, (item.entity_key, item.item_seq, *causes), "item_seq")


def _find_alike(connection: sqlite3.Connection, item: Item) -> tuple[tuple[Item, ...], int]:
    if item.fingerprint is None:
        return (), 0
    states = [state.value for state in ItemState if state != ItemState.SETTLED]
    condition = f"state IN ({', '.join('?' * len(states))}) AND fingerprint = ? AND item_seq < ?"
    return _select_items(connection, condition, (*states, item.fingerprint, item.item_seq), "item_seq DESC")


def _select_items(
    connection: sqlite3.Connection, condition: str, values: Sequence[object], order: str
) -> tuple[tuple[Item, ...], int]:
    total = connection.execute(f"SELECT count(*) FROM items WHERE {condition}", values).fetchone()[0]
    shown = select_entries(connection, f"WHERE {condition} ORDER BY {order} LIMIT ?", (*values, LISTED_MAX))
    return tuple(map(item_of, shown)), int(total)
