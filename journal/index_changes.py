"""Collects what rows, in their order, change in the index, for one atomic write."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from rocksdict import WriteBatch

from core.clock import to_micros
from core.decision import TAKES_FACT, WITHOUT_EFFECT, Decision
from core.keys import hash_key
from journal import index_layout as layout
from journal.open_item import (
    Life,
    OpenItem,
    frees_key,
    holds_key,
    is_conflict,
    is_other_content,
    leaves_open,
    life_after,
    pack_item,
    releases_key,
    takes_key,
    unpack_item,
)
from journal.reader import JournalReader
from journal.rocksdb_store import RocksDbStore
from journal.schema import UNDOES, JournalRow

_CLOSES = frozenset({Decision.PURGED, Decision.RESOLVED, Decision.RELEASED})
_WAITS = frozenset({Decision.RETRY, Decision.PARKED, Decision.REPLAYED})

SETTLED_COLUMNS = (
    *("seq", "first", "decision", "entity_key", "event_key", "content_sha256", "content_version"),
    *("original_content_sha256", "fact_key", "fact_sha256", "pair", "row_hash"),
)
_APPLIED, _DUPLICATE = Decision.APPLIED.value, Decision.DUPLICATE.value
_SETTLED_VALUES = tuple(name for name in SETTLED_COLUMNS if name not in ("first", "row_hash"))
_SETTLES = pa.array(
    [Decision.APPLIED, Decision.IGNORED, Decision.UNKNOWN, Decision.DUPLICATE, Decision.DUPLICATE_FACT], pa.string()
)

EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def read_count(kept: bytes | None) -> int:
    return 0 if kept is None else int(layout.COUNT.unpack(kept)[0])


def read_item(store: RocksDbStore, item_seq: int) -> OpenItem | None:
    key = layout.ITEM + layout.SEQ.pack(item_seq)
    value = store.get(key)
    return None if value is None else unpack_item(value, store.get_apart(key) or b"")


@dataclass(frozen=True, slots=True)
class EntityLine:
    """An entity with ``beside`` open items that hold nothing back: the highest item that was applied meanwhile."""

    beside: int
    applied_upto: int


def read_line(store: RocksDbStore, entity_key: str | None) -> EntityLine | None:
    value = store.get(layout.line_key(entity_key))
    return None if value is None else EntityLine(*layout.LINE_VALUE.unpack(value))


@dataclass(slots=True)
class IndexChanges:
    """The changes of one write. ``items`` and lines can be read before they are written.

    ``any_line``: the store may hold lines at all. ``queued``: by entity hash, how many more events of it hold later
    ones back than before.
    """

    store: RocksDbStore
    bodies: Mapping[str, bytes]
    open: int
    dead: int
    any_line: bool
    batch: WriteBatch = field(default_factory=lambda: WriteBatch(raw_mode=True))
    queued: Counter[bytes] = field(default_factory=Counter)
    _items: dict[int, OpenItem | None] = field(default_factory=dict)
    _lines: dict[str, EntityLine | None] = field(default_factory=dict)
    _freed: dict[str, bool] = field(default_factory=dict)
    _reopened: set[int] = field(default_factory=set)
    _pairs: dict[str, int] = field(default_factory=dict)

    def reflect_row(self, row: JournalRow) -> None:
        self._reflect_keys(row)
        if not row.first or leaves_open(row):
            self._reflect_item(row)
        if row.decision is Decision.APPLIED:
            self._advance_line(row.entity_key or "", row.item_seq)

    def reflect_table(self, table: pa.Table, reader: JournalReader) -> None:
        """Takes in the next rows, of which a table has the `SETTLED_COLUMNS`.

        A whole row is read only if it leaves something open, or ends what an earlier one left.
        """
        settled = pc.and_(table["first"], pc.is_in(table["decision"], value_set=_SETTLES))
        others = iter(reader.rows_of(table["seq"].filter(pc.invert(settled)).to_pylist()))
        for is_settled, row in zip(settled.to_pylist(), _values_of(table), strict=True):
            if is_settled:
                self._reflect_settled(*row)
            else:
                self.reflect_row(next(others))

    def _reflect_settled(
        self,
        item_seq: int,
        decision: str,
        entity_key: str | None,
        event_key: str | None,
        content: str | None,
        version: int | None,
        original: str | None,
        fact_key: str | None,
        fact: str | None,
        pair: str | None,
    ) -> None:
        if event_key is not None and decision != _DUPLICATE:
            if original is not None:
                self._hold_original(event_key, original)
            self._hold_event(event_key, content or "", version or 0)
        if decision in TAKES_FACT and fact_key is not None:
            self._hold_fact(fact_key, fact or "")
        if pair is not None:
            self._count_pair(pair)
        if decision == _APPLIED and self.any_line:
            self._advance_line(entity_key or "", item_seq)

    def _hold_original(self, event_key: str, content_sha256: str) -> None:
        self.batch.put(layout.conflict_key(event_key, content_sha256), layout.ORIGINAL)

    def forget_item(self, item: OpenItem) -> None:
        self._remove_item(item)
        self._items[item.row.item_seq] = None
        self._count_beside(item, None)

    def put_off(self, item: OpenItem, due_at: datetime, reason: str | None) -> None:
        known = self._find_item(item.row.item_seq)
        if known is None or known.last_seq != item.last_seq or known.row.due_at is None:
            return
        row, seq = copy.copy(known.row), layout.SEQ.pack(item.row.item_seq)
        self.batch.delete(layout.DUE + layout.SEQ.pack(to_micros(known.row.due_at)) + seq)
        row.due_at, row.reason = due_at, reason
        later = self._items[row.item_seq] = replace(known, row=row)
        self.batch.put(layout.ITEM + seq, pack_item(later))
        self.batch.put(layout.DUE + layout.SEQ.pack(to_micros(due_at)) + seq, b"")

    def finish_batch(self, mark: bytes) -> WriteBatch:
        for entity_key, line in self._lines.items():
            if line is None:
                self.batch.delete(layout.line_key(entity_key))
            else:
                self.batch.put(layout.line_key(entity_key), layout.LINE_VALUE.pack(line.beside, line.applied_upto))
        self.batch.put(layout.MARK, mark)
        return self.batch

    def _reflect_keys(self, row: JournalRow) -> None:
        if row.event_key is not None:
            content = row.content_sha256 or ""
            original = row.original_content_sha256
            if holds_key(row):
                self._hold_event(row.event_key, content, row.content_version or 0)
                if original is not None:
                    self._hold_original(row.event_key, original)
            elif row.first and is_other_content(row):
                self.batch.put(layout.conflict_key(row.event_key, content), b"")
                if original is not None:
                    self.batch.put(layout.conflict_key(row.event_key, original), b"")
        if row.decision in TAKES_FACT and row.fact_key is not None:
            self._hold_fact(row.fact_key, row.fact_sha256 or "")
        if row.pair is not None and row.decision in TAKES_FACT:
            self._count_pair(row.pair)
        if row.decision is Decision.REVERSED and not row.first:
            self.batch.put(layout.REVERSED + layout.SEQ.pack(row.item_seq), b"")

    def _reflect_person(self, row: JournalRow, before: OpenItem) -> None:
        if row.decision in _CLOSES and before.row.blocking:
            closed = orjson.dumps([row.seq, row.event_key or "", row.decision.value, before.row.retry_policy])
            self.batch.put(layout.place_key(layout.CLOSED, row.entity_key, row.item_seq), closed)
        if row.event_key is None:
            return
        content, version = row.content_sha256 or "", row.content_version or 0
        if frees_key(row, before.row):
            self._hold_event(row.event_key, content, version, layout.PURGED)
            self.batch.put(layout.conflict_key(row.event_key, content), b"")
            self._freed[row.event_key] = True
        elif releases_key(row, before.row):
            self._release_event(row.event_key, content, row.original_content_sha256)
        elif takes_key(row, before.row) and self._is_freed(row.event_key):
            self._hold_event(row.event_key, content, version)
            self._freed[row.event_key] = False

    def _reflect_reopened(self, row: JournalRow, *, is_open: bool) -> None:
        key = layout.REOPENED + layout.SEQ.pack(row.item_seq)
        again = not is_open and (row.decision is Decision.REPLAYED or row.decision in _CLOSES)
        is_reopened = row.item_seq in self._reopened or self.store.get(key) is not None
        if again or (row.decision in WITHOUT_EFFECT and is_reopened):
            self.batch.put(key, layout.SEQ.pack(row.seq))
            self._reopened.add(row.item_seq)

    def _is_freed(self, event_key: str) -> bool:
        if event_key in self._freed:
            return self._freed[event_key]
        value = self.store.get(layout.EVENT + hash_key(event_key))
        return value is not None and value[layout.CONTENT_BYTES + 1 :] == layout.PURGED

    def _hold_event(self, event_key: str, content_sha256: str, content_version: int, mark: bytes = b"") -> None:
        held = layout.shorten_content_hash(content_sha256) + bytes([content_version]) + mark
        self.batch.put(layout.EVENT + hash_key(event_key), held)

    def _release_event(self, event_key: str, content_sha256: str, original: str | None) -> None:
        self.batch.delete(layout.EVENT + hash_key(event_key))
        for content in (content_sha256, original):
            if content is not None:
                self.batch.delete(layout.conflict_key(event_key, content))
        self._freed[event_key] = False

    def _count_pair(self, signed: str) -> None:
        pair, key = signed[1:], layout.PAIR + hash_key(signed[1:])
        known = self._pairs[pair] if pair in self._pairs else read_count(self.store.get(key))
        self._pairs[pair] = known + (-1 if signed.startswith(UNDOES) else 1)
        self.batch.put(key, layout.COUNT.pack(self._pairs[pair]))

    def _hold_fact(self, fact_key: str, fact_sha256: str) -> None:
        self.batch.put(layout.FACT + hash_key(fact_key), bytes.fromhex(fact_sha256[: 2 * layout.CONTENT_BYTES]))

    def _reflect_item(self, row: JournalRow) -> None:
        before = None if row.first else self._find_item(row.item_seq)
        if before is not None:
            self._reflect_person(row, before)
        if not row.first:
            self._reflect_reopened(row, is_open=before is not None)
        after = _make_open_item(row, before, self.bodies) if leaves_open(row) else None
        if before is not None:
            self._remove_item(before)
        self._items[row.item_seq] = after
        if after is not None:
            self._put_item(after)
        self._count_beside(before, after)

    def _advance_line(self, entity_key: str, item_seq: int) -> None:
        line = self._find_line(entity_key)
        if line is not None and line.applied_upto < item_seq:
            self._lines[entity_key] = EntityLine(line.beside, item_seq)

    def _count_beside(self, before: OpenItem | None, after: OpenItem | None) -> None:
        change: Counter[str] = Counter()
        for item, step in ((before, -1), (after, 1)):
            if item is not None and not item.row.blocking:
                change[item.row.entity_key or ""] += step
        for entity_key, step in change.items():
            if step:
                line = self._find_line(entity_key) or EntityLine(0, 0)
                beside = line.beside + step
                self._lines[entity_key] = EntityLine(beside, line.applied_upto) if beside else None
                self.any_line = True

    def _find_line(self, entity_key: str) -> EntityLine | None:
        if not self.any_line:
            return None
        if entity_key in self._lines:
            return self._lines[entity_key]
        return read_line(self.store, entity_key)

    def _find_item(self, item_seq: int) -> OpenItem | None:
        if item_seq in self._items:
            return self._items[item_seq]
        return read_item(self.store, item_seq)

    def _remove_item(self, item: OpenItem) -> None:
        row, seq = item.row, layout.SEQ.pack(item.row.item_seq)
        self.batch.delete(layout.ITEM + seq)
        self.batch.delete(layout.ITEM + seq, self.store.apart)
        self.batch.delete(_find_place_key(item))
        self._count_queued(row, -1)
        self.open -= 1
        self.dead -= row.decision is Decision.DEAD
        if row.due_at is not None:
            self.batch.delete(layout.DUE + layout.SEQ.pack(to_micros(row.due_at)) + seq)
        if not item.body:
            self.batch.delete(layout.BODILESS + seq)

    def _put_item(self, item: OpenItem) -> None:
        row, seq = item.row, layout.SEQ.pack(item.row.item_seq)
        self.batch.put(layout.ITEM + seq, pack_item(item))
        if item.body:
            self.batch.put(layout.ITEM + seq, item.body, self.store.apart)
        self.batch.put(_find_place_key(item), b"")
        self._count_queued(row, 1)
        self.open += 1
        self.dead += row.decision is Decision.DEAD
        if row.due_at is not None and row.decision in _WAITS:
            self.batch.put(layout.DUE + layout.SEQ.pack(to_micros(row.due_at)) + seq, b"")
        if not item.body and row.body_sha256 not in (None, EMPTY_SHA256):
            self.batch.put(layout.BODILESS + seq, b"")

    def _count_queued(self, row: JournalRow, step: int) -> None:
        if row.blocking:
            self.queued[hash_key(row.entity_key or "")] += step


def _make_open_item(row: JournalRow, before: OpenItem | None, bodies: Mapping[str, bytes]) -> OpenItem:
    kept = copy.copy(row)
    body = bodies.get(row.body_sha256 or "", b"")
    known: Life[datetime] | None = None
    if before is not None:
        body = before.body or body
        kept.headers = kept.headers or before.row.headers
        known = Life(before.row.decision, passed_over=before.died, replays=before.replays)
    life = life_after(known, row.decision, row.decided_at, blocking=row.blocking, conflict=is_conflict(row))
    return OpenItem(kept, body, row.seq, life.passed_over, life.replays)


def _find_place_key(item: OpenItem) -> bytes:
    place = layout.QUEUE if item.row.blocking else layout.DIED if item.died else layout.BESIDE
    return layout.place_key(place, item.row.entity_key, item.row.item_seq)


def _values_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in _SETTLED_VALUES), strict=True)
