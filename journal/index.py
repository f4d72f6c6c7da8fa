"""The key index: what the journal's rows say of keys, facts and open events, in RocksDB.

Derived from rows alone and in their order; carries the seq that it reflects in the same atomic write.
"""

from __future__ import annotations

import copy
import logging
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path

from rocksdict import WriteBatch

from core.clock import to_micros
from core.decision import Decision
from core.keys import hash16
from journal.bodies import BodyStore
from journal.errors import BodyMissing, RowsOutOfOrder
from journal.keystore import KeyStore
from journal.open_item import OpenItem, leaves_open, pack, unpack
from journal.reader import JournalReader
from journal.schema import JournalRow

log = logging.getLogger(__name__)

FORMAT = 2
CONTENT_BYTES = 8
BODIES_PER_FETCH = 1_000

_MARK, _TABLE = b"m", b"t"
_EVENT, _CONFLICT, _FACT = b"e", b"c", b"f"
_ITEM, _QUEUE, _DUE, _BODILESS = b"i", b"q", b"d", b"b"
_SEQ = struct.Struct(">Q")
_COUNTS = struct.Struct(">QQQ")
_WAITS = frozenset({Decision.RETRY, Decision.PARKED, Decision.REPLAYED})
_CONFLICT_CLASS = "EventConflict"
_EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """Who holds an event key: the first 8 bytes of its content hash, and the version of that hash."""

    content8: bytes
    content_version: int


@dataclass(frozen=True, slots=True)
class KnownFact:
    """Who took a fact: the first 8 bytes of its hash."""

    fact8: bytes


@dataclass(slots=True)
class _Changes:
    """One atomic write in the making; ``items`` are readable before they are written."""

    batch: WriteBatch
    open: int
    dead: int
    items: dict[int, OpenItem | None] = field(default_factory=dict)


class Index:
    """Opened by one writer, in a folder of its own. A damaged store raises `IndexBroken` and is made anew next time."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._seq, self._open, self._dead = 0, 0, 0
        self._last_hash = b""
        mark = store.get(_MARK)
        if mark is not None:
            self._seq, self._open, self._dead = _COUNTS.unpack_from(mark)
            self._last_hash = mark[_COUNTS.size :]

    @classmethod
    def open(cls, root: Path, epoch: int) -> Index:
        """Takes over the newest folder that no living process owns, or begins an empty one.

        :raises IndexHeld: a living process owns a folder of this very epoch
        """
        return cls(KeyStore.take_over(root, epoch))

    @classmethod
    def read_only(cls, root: Path) -> Index:
        """The newest index as it is now, beside its writer."""
        return cls(KeyStore.read_only(root))

    @property
    def seq(self) -> int:
        """The last row that is reflected."""
        return self._seq

    def open_count(self) -> int:
        """Events that wait or are dead."""
        return self._open

    def dead_count(self) -> int:
        """Events that are dead and wait for a person."""
        return self._dead

    def known_event(self, event_key: str) -> KnownEvent | None:
        found = self._store.get(_EVENT + hash16(event_key))
        return None if found is None else KnownEvent(found[:CONTENT_BYTES], found[CONTENT_BYTES])

    def known_conflict(self, event_key: str, content_sha256: str) -> bool:
        return self._store.get(_conflict_key(event_key, content_sha256)) is not None

    def known_fact(self, fact_key: str) -> KnownFact | None:
        found = self._store.get(_FACT + hash16(fact_key))
        return None if found is None else KnownFact(found)

    def open_item(self, item_seq: int) -> OpenItem | None:
        found = self._store.get(_ITEM + _SEQ.pack(item_seq))
        return None if found is None else unpack(found)

    def open_items(self) -> Iterator[OpenItem]:
        """All of them, in item order."""
        return self._items(self._store.keys(_ITEM))

    def is_blocked(self, entity_key: str) -> bool:
        """Whether an open event of the entity holds later ones back."""
        return next(self._store.keys(_QUEUE + hash16(entity_key)), None) is not None

    def blocking(self, entity_key: str, limit: int) -> list[OpenItem]:
        """The entity's queue, head first."""
        return list(islice(self._items(self._store.keys(_QUEUE + hash16(entity_key))), limit))

    def due(self, now: datetime, limit: int) -> list[OpenItem]:
        """Waiting events whose time has come, earliest first."""
        return list(islice(self._items(self._due_keys(now)), limit))

    def iter_event_keys(self) -> Iterator[bytes]:
        """The 16-byte hash of every event key that is held."""
        return (key[len(_EVENT) :] for key in self._store.keys(_EVENT))

    def event_count(self) -> int:
        """Event keys held; counts every one."""
        return sum(1 for _ in self.iter_event_keys())

    def apply(self, rows: Sequence[JournalRow], bodies: Mapping[str, bytes]) -> None:
        """Reflects rows in one atomic write, in seq order; those reflected already are passed over.

        A body that isn't given stays empty until `catch_up` fetches it.

        :raises RowsOutOfOrder: a row between `seq` and the first one is missing
        """
        fresh = [row for row in rows if row.seq > self._seq]
        if not fresh:
            return
        if fresh[0].seq != self._seq + 1:
            raise RowsOutOfOrder(self._seq, fresh[0].seq)
        changes = _Changes(WriteBatch(raw_mode=True), self._open, self._dead)
        for row in fresh:
            _reflect_keys(row, changes.batch)
            self._reflect_item(row, bodies, changes)
        seq, last_hash = fresh[-1].seq, bytes.fromhex(fresh[-1].row_hash)
        changes.batch.put(_MARK, _COUNTS.pack(seq, changes.open, changes.dead) + last_hash)
        self._store.write(changes.batch)
        self._seq, self._open, self._dead, self._last_hash = seq, changes.open, changes.dead, last_hash

    def catch_up(self, reader: JournalReader, bodies: BodyStore) -> None:
        """Follows the journal up to the reader's version; starts over if it doesn't reflect this journal's history.

        :raises BodyMissing: an open event's body is nowhere
        """
        if not self._belongs_to(reader):
            self._begin_anew(reader)
        for rows in reader.rows_after(self._seq):
            self.apply(rows, {})
        self._fetch_bodies(bodies)

    def close(self) -> None:
        """Lets the next writer take the folder over."""
        self._store.close()

    def _reflect_item(self, row: JournalRow, bodies: Mapping[str, bytes], changes: _Changes) -> None:
        seq = row.item_seq
        before = None
        if not row.first:
            before = changes.items[seq] if seq in changes.items else self.open_item(seq)
        if before is not None:
            _forget(before, changes)
        changes.items[seq] = None
        if leaves_open(row):
            item = _opened(row, before, bodies)
            changes.items[seq] = item
            _remember(item, changes)

    def _fetch_bodies(self, bodies: BodyStore) -> None:
        while some := list(islice(self._store.keys(_BODILESS), BODIES_PER_FETCH)):
            items = [item for key in some if (item := self.open_item(_SEQ.unpack(key[1:])[0])) is not None]
            found = bodies.fetch(item.row.body_sha256 or "" for item in items)
            batch = WriteBatch(raw_mode=True)
            for item in items:
                body = found.get(item.row.body_sha256 or "")
                if body is None:
                    raise BodyMissing(item.row.body_sha256 or "")
                seq = _SEQ.pack(item.row.item_seq)
                batch.put(_ITEM + seq, pack(OpenItem(item.row, body, item.last_seq)))
            for key in some:
                batch.delete(key)
            self._store.write(batch)

    def _belongs_to(self, reader: JournalReader) -> bool:
        """Whether it reflects this table, and its last row is there as it was."""
        if self._store.get(_TABLE) != _table_name(reader):
            return False
        return self._seq == 0 or reader.row_hash_at(self._seq) == self._last_hash.hex()

    def _begin_anew(self, reader: JournalReader) -> None:
        if self._seq:
            log.warning("the index doesn't reflect this journal: it is made anew")
            self._store.begin_anew()
        self._seq = self._open = self._dead = 0
        self._last_hash = b""
        batch = WriteBatch(raw_mode=True)
        batch.put(_TABLE, _table_name(reader))
        self._store.write(batch)

    def _due_keys(self, now: datetime) -> Iterator[bytes]:
        until = _DUE + _SEQ.pack(to_micros(now) + 1)
        for key in self._store.keys(_DUE):
            if key >= until:
                return
            yield key

    def _items(self, keys: Iterator[bytes]) -> Iterator[OpenItem]:
        """The open items that keys end with."""
        for key in keys:
            item = self.open_item(_SEQ.unpack(key[-_SEQ.size :])[0])
            if item is not None:
                yield item


def _reflect_keys(row: JournalRow, batch: WriteBatch) -> None:
    if row.first and row.event_key is not None and row.decision is not Decision.DUPLICATE:
        content = row.content_sha256 or ""
        if row.decision is Decision.DEAD and row.error_class == _CONFLICT_CLASS:
            batch.put(_conflict_key(row.event_key, content), b"")
        else:
            content8 = bytes.fromhex(content[: 2 * CONTENT_BYTES]).ljust(CONTENT_BYTES, b"\0")
            batch.put(_EVENT + hash16(row.event_key), content8 + bytes([row.content_version or 0]))
    if row.decision is Decision.APPLIED and row.fact_key is not None:
        batch.put(_FACT + hash16(row.fact_key), bytes.fromhex((row.fact_sha256 or "")[: 2 * CONTENT_BYTES]))


def _opened(row: JournalRow, before: OpenItem | None, bodies: Mapping[str, bytes]) -> OpenItem:
    kept = copy.copy(row)
    body = bodies.get(row.body_sha256 or "", b"")
    if before is not None:
        body = before.body or body
        kept.headers = kept.headers or before.row.headers
    return OpenItem(kept, body, row.seq)


def _forget(item: OpenItem, changes: _Changes) -> None:
    row, seq = item.row, _SEQ.pack(item.row.item_seq)
    changes.batch.delete(_ITEM + seq)
    changes.open -= 1
    changes.dead -= row.decision is Decision.DEAD
    if row.blocking:
        changes.batch.delete(_QUEUE + hash16(row.entity_key or "") + seq)
    if row.due_at is not None:
        changes.batch.delete(_DUE + _SEQ.pack(to_micros(row.due_at)) + seq)
    if not item.body:
        changes.batch.delete(_BODILESS + seq)


def _remember(item: OpenItem, changes: _Changes) -> None:
    row, seq = item.row, _SEQ.pack(item.row.item_seq)
    changes.batch.put(_ITEM + seq, pack(item))
    changes.open += 1
    changes.dead += row.decision is Decision.DEAD
    if row.blocking:
        changes.batch.put(_QUEUE + hash16(row.entity_key or "") + seq, b"")
    if row.due_at is not None and row.decision in _WAITS:
        changes.batch.put(_DUE + _SEQ.pack(to_micros(row.due_at)) + seq, b"")
    if not item.body and row.body_sha256 not in (None, _EMPTY_SHA256):
        changes.batch.put(_BODILESS + seq, b"")


def _table_name(reader: JournalReader) -> bytes:
    return f"{FORMAT}:{reader.table_id}".encode()


def _conflict_key(event_key: str, content_sha256: str) -> bytes:
    return _CONFLICT + hash16(f"{event_key}\x1f{content_sha256}")
