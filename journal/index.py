"""The key index: what the journal's rows say of keys, facts and open events, in RocksDB.

Derived from rows alone and in their order; carries the seq that it reflects in the same atomic write.
"""

from __future__ import annotations

import fcntl
import logging
import os
import pickle
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from rocksdict import AccessType, BlockBasedOptions, Cache, Options, Rdict, WriteBatch

from core.clock import to_micros
from core.decision import OPEN_DECISIONS, Decision
from core.keys import hash16
from journal.bodies import BodyStore
from journal.errors import BodyMissing
from journal.reader import JournalReader
from journal.schema import JournalRow

log = logging.getLogger(__name__)

FORMAT = 1
BLOCK_CACHE_BYTES = 128 << 20
BLOOM_BITS_PER_KEY = 10
WRITE_BUFFER_BYTES = 32 << 20

_MARK, _TABLE = b"m", b"t"
_EVENT, _CONFLICT, _FACT, _ITEM, _QUEUE, _DUE = b"e", b"c", b"f", b"i", b"q", b"d"
_SEQ = struct.Struct(">Q")
_COUNTS = struct.Struct(">QQQ")
_WAITS = frozenset({Decision.RETRY, Decision.PARKED, Decision.REPLAYED})


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """Who holds an event key: the first 8 bytes of its content hash, and the version of that hash."""

    content8: bytes
    content_version: int


@dataclass(frozen=True, slots=True)
class KnownFact:
    """Who took a fact: the first 8 bytes of its hash."""

    fact8: bytes


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An event that still waits. ``row`` is its last row with the first one's headers."""

    row: JournalRow
    body: bytes
    last_seq: int


@dataclass(slots=True)
class _Changes:
    """One atomic write in the making, readable before it is written."""

    batch: WriteBatch
    open: int
    dead: int
    facts: set[bytes] = field(default_factory=set)
    items: dict[int, OpenItem | None] = field(default_factory=dict)


class Index:
    """Opened by one writer, in a folder of its own."""

    def __init__(self, folder: Path, db: Rdict) -> None:
        self._folder = folder
        self._db = db
        mark = db.get(_MARK)
        self._seq: int
        self._open: int
        self._dead: int
        self._seq, self._open, self._dead = _COUNTS.unpack(mark) if mark else (0, 0, 0)

    @classmethod
    def open(cls, root: Path, epoch: int) -> Index:
        """Takes over the newest folder that no living process holds, or begins an empty one."""
        root.mkdir(parents=True, exist_ok=True)
        mine = root / f"epoch-{epoch:08}"
        for folder in sorted(root.glob("epoch-*"), reverse=True):
            if not _is_free(folder):
                continue
            if not mine.exists():
                folder.rename(mine)
            elif folder != mine:
                shutil.rmtree(folder, ignore_errors=True)
        return cls(mine, _open_or_begin(mine))

    @classmethod
    def read_only(cls, root: Path) -> Index:
        """The newest index as it is now, beside its writer."""
        newest = max(root.glob("epoch-*"))
        return cls(newest, Rdict(str(newest), _options(), access_type=AccessType.read_only(False)))

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
        found = self._db.get(_EVENT + hash16(event_key))
        return None if found is None else KnownEvent(found[:8], found[8])

    def known_conflict(self, event_key: str, content_sha256: str) -> bool:
        return self._db.get(_conflict_key(event_key, content_sha256)) is not None

    def known_fact(self, fact_key: str) -> KnownFact | None:
        found = self._db.get(_FACT + hash16(fact_key))
        return None if found is None else KnownFact(found)

    def open_item(self, item_seq: int) -> OpenItem | None:
        found = self._db.get(_ITEM + _SEQ.pack(item_seq))
        return None if found is None else _unpack(found)

    def is_blocked(self, entity_key: str) -> bool:
        """Whether an open event of the entity holds later ones back."""
        return next(self._keys(_QUEUE + hash16(entity_key)), None) is not None

    def blocking(self, entity_key: str, limit: int) -> list[OpenItem]:
        """The entity's queue, head first."""
        return self._items(self._keys(_QUEUE + hash16(entity_key)), limit)

    def due(self, now: datetime, limit: int) -> list[OpenItem]:
        """Waiting events whose time has come, earliest first."""
        until = _DUE + _SEQ.pack(to_micros(now) + 1)
        return self._items(self._keys(_DUE), limit, stop=until)

    def apply(self, rows: Sequence[JournalRow], bodies: Mapping[str, bytes]) -> None:
        """Reflects rows, in seq order and right after `seq`, in one atomic write.

        A body that isn't given stays empty until `catch_up` fetches it.
        """
        changes = _Changes(WriteBatch(raw_mode=True), self._open, self._dead)
        for row in rows:
            self._reflect(row, bodies, changes)
        seq = rows[-1].seq
        changes.batch.put(_MARK, _COUNTS.pack(seq, changes.open, changes.dead))
        self._db.write(changes.batch)
        self._seq, self._open, self._dead = seq, changes.open, changes.dead

    def catch_up(self, reader: JournalReader, bodies: BodyStore) -> None:
        """Follows the journal up to the reader's version; starts over if it reflects another journal."""
        if not self._belongs_to(reader):
            self._begin_anew()
        self._db.put(_TABLE, f"{FORMAT}:{reader.table_id}".encode())
        for rows in reader.rows_after(self._seq):
            self.apply(rows, {})
        self._fetch_bodies(bodies)

    def event_count(self) -> int:
        """Event keys held; counts every one."""
        return sum(1 for _ in self._keys(_EVENT))

    def close(self) -> None:
        self._db.close()

    def _reflect(self, row: JournalRow, bodies: Mapping[str, bytes], changes: _Changes) -> None:
        if row.first and row.event_key is not None and row.decision is not Decision.DUPLICATE:
            content = bytes.fromhex(row.content_sha256 or "")
            if row.decision is Decision.DEAD and row.error_class == "EventConflict":
                changes.batch.put(_conflict_key(row.event_key, row.content_sha256 or ""), b"")
            else:
                version = bytes([row.content_version or 0])
                changes.batch.put(_EVENT + hash16(row.event_key), content[:8].ljust(8, b"\0") + version)
        if row.decision is Decision.APPLIED and row.fact_key is not None:
            key = _FACT + hash16(row.fact_key)
            if key not in changes.facts:
                changes.facts.add(key)
                changes.batch.put(key, bytes.fromhex(row.fact_sha256 or "")[:8])
        self._reflect_item(row, bodies, changes)

    def _reflect_item(self, row: JournalRow, bodies: Mapping[str, bytes], changes: _Changes) -> None:
        seq = row.item_seq
        before = None if row.first else changes.items.get(seq) if seq in changes.items else self.open_item(seq)
        if before is not None:
            _forget(before, changes)
        changes.items[seq] = None
        if row.decision not in OPEN_DECISIONS or (row.first and row.decision is Decision.REPLAYED):
            return
        body = before.body if before is not None else bodies.get(row.body_sha256 or "", b"")
        kept = JournalRow(**{name: getattr(row, name) for name in JournalRow.__slots__})
        if before is not None and kept.headers is None:
            kept.headers = before.row.headers
        item = OpenItem(kept, body, row.seq)
        changes.items[seq] = item
        _remember(item, changes)

    def _fetch_bodies(self, bodies: BodyStore) -> None:
        missing = [item for item in self._every_item() if not item.body and item.row.body_sha256 != _EMPTY_SHA256]
        found = bodies.fetch(item.row.body_sha256 for item in missing if item.row.body_sha256 is not None)
        for item in missing:
            if item.row.body_sha256 is None:
                continue
            if item.row.body_sha256 not in found:
                raise BodyMissing(item.row.body_sha256)
            whole = OpenItem(item.row, found[item.row.body_sha256], item.last_seq)
            self._db.put(_ITEM + _SEQ.pack(item.row.item_seq), _pack(whole))

    def _every_item(self) -> list[OpenItem]:
        found = (self._db.get(key) for key in self._keys(_ITEM))
        return [_unpack(raw) for raw in found if raw is not None]

    def _belongs_to(self, reader: JournalReader) -> bool:
        known = self._db.get(_TABLE)
        if known is None:
            return self._seq == 0
        same_table = bool(known == f"{FORMAT}:{reader.table_id}".encode())
        return same_table and self._seq < reader.state().next_seq

    def _begin_anew(self) -> None:
        log.warning("the index reflects another journal: it is made anew")
        self._db.close()
        Rdict.destroy(str(self._folder), _options())
        self._db = Rdict(str(self._folder), _options())
        self._seq = self._open = self._dead = 0

    def _keys(self, prefix: bytes) -> Iterator[bytes]:
        cursor = self._db.iter()
        cursor.seek(prefix)
        while cursor.valid():
            key = cursor.key()
            if not key.startswith(prefix):
                return
            yield key
            cursor.next()

    def _items(self, keys: Iterator[bytes], limit: int, stop: bytes | None = None) -> list[OpenItem]:
        items: list[OpenItem] = []
        for key in keys:
            if len(items) >= limit or (stop is not None and key >= stop):
                break
            raw = self._db.get(_ITEM + key[-8:])
            if raw is not None:
                items.append(_unpack(raw))
        return items


_EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def _forget(item: OpenItem, changes: _Changes) -> None:
    row, seq = item.row, _SEQ.pack(item.row.item_seq)
    changes.batch.delete(_ITEM + seq)
    changes.open -= 1
    changes.dead -= row.decision is Decision.DEAD
    if row.blocking:
        changes.batch.delete(_QUEUE + hash16(row.entity_key or "") + seq)
    if row.due_at is not None:
        changes.batch.delete(_DUE + _SEQ.pack(to_micros(row.due_at)) + seq)


def _remember(item: OpenItem, changes: _Changes) -> None:
    row, seq = item.row, _SEQ.pack(item.row.item_seq)
    changes.batch.put(_ITEM + seq, _pack(item))
    changes.open += 1
    changes.dead += row.decision is Decision.DEAD
    if row.blocking:
        changes.batch.put(_QUEUE + hash16(row.entity_key or "") + seq, b"")
    if row.due_at is not None and row.decision in _WAITS:
        changes.batch.put(_DUE + _SEQ.pack(to_micros(row.due_at)) + seq, b"")


def _pack(item: OpenItem) -> bytes:
    return pickle.dumps((item.row, item.body, item.last_seq), protocol=5)


def _unpack(raw: bytes) -> OpenItem:
    return OpenItem(*pickle.loads(raw))  # noqa: S301 - written by this class, in a folder of the writer's own


def _conflict_key(event_key: str, content_sha256: str) -> bytes:
    return _CONFLICT + hash16(f"{event_key}\x1f{content_sha256}")


def _options() -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(Cache(BLOCK_CACHE_BYTES))
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, False)
    table.set_cache_index_and_filter_blocks(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(2)
    return options


def _open_or_begin(folder: Path) -> Rdict:
    try:
        return Rdict(str(folder), _options())
    except Exception:
        log.exception("the index in %s can't be opened: it is made anew", folder)
        shutil.rmtree(folder)
        return Rdict(str(folder), _options())


def _is_free(folder: Path) -> bool:
    """Whether no living process holds RocksDB's lock on the folder (a paused one does)."""
    try:
        descriptor = os.open(folder / "LOCK", os.O_RDWR)
    except OSError:
        return True
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
