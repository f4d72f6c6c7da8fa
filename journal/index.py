"""The key index: what the journal's rows say of keys, facts and open events, in RocksDB.

Derived from rows alone and in their order; carries the seq that it reflects in the same atomic write.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice
from pathlib import Path

import orjson
import pyarrow as pa
from rocksdict import WriteBatch

from core.clock import to_micros
from core.keys import hash_key
from core.routing import Shard
from journal import index_layout as layout
from journal.bodies import BodyStore
from journal.errors import BodyMissing, IndexUnreadable, RowsOutOfOrder
from journal.histories import ReflectedPosition
from journal.index_changes import (
    EMPTY_SHA256,
    SETTLED_COLUMNS,
    EntityLine,
    IndexChanges,
    read_count,
    read_item,
    read_line,
)
from journal.journals import is_item_of, shard_in
from journal.open_item import ClosedHead, OpenItem
from journal.reader import JournalFollower, JournalReader
from journal.rocksdb_store import RocksDbStore
from journal.schema import JournalRow

log = logging.getLogger(__name__)

INDEX = "the key index"
BODIES_PER_FETCH = 1_000
ENTRIES_AT_ONCE = 50_000
"""Some 10 MB of keys and values."""

Entries = tuple[list[bytes], list[bytes]]
"""Keys, and what is kept of each."""


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """The holder of an event key: the first 8 bytes of its content hash, and the version of that hash.

    ``purged``: a person closed the holder without effect.
    """

    content8: bytes
    content_version: int
    purged: bool = False


@dataclass(frozen=True, slots=True)
class IndexCopy:
    table: bytes
    position: ReflectedPosition
    files: Sequence[Path]


class Index(JournalFollower):
    """The key index, which one writer opens in its own folder. A damaged store raises `IndexBroken` and is rebuilt next
    time."""

    what = INDEX

    def __init__(self, store: RocksDbStore) -> None:
        self._store = store
        self._queues: layout.Queues | None = None
        self._read_mark()

    def _read_mark(self) -> None:
        self.seq, self._open, self._dead = 0, 0, 0
        self._last_hash = b""
        self._any_line = next(self._store.read_keys(layout.LINE), None) is not None
        mark = self._store.get(layout.MARK)
        if mark is not None:
            self.seq, self._open, self._dead = layout.COUNTS.unpack_from(mark)
            self._last_hash = mark[layout.COUNTS.size :]

    @classmethod
    def open(cls, root: Path, epoch: int) -> Index:
        """Takes over the newest folder that no living process owns, or begins an empty one.

        :raises IndexHeld: a living process owns a folder of this very epoch
        """
        store = RocksDbStore.take_over(root, epoch)
        index = cls(store)
        index._queues = layout.Queues(store.read_keys(layout.QUEUE))
        return index

    @classmethod
    def read_only(cls, root: Path) -> Index:
        """Opens the newest index as it is now, beside its writer.

        :raises ValueError: there is none
        :raises IndexUnreadable: it is of another version
        """
        store = RocksDbStore.read_only(root)
        table = store.get(layout.TABLE)
        if table is not None and not table.startswith(layout.TABLE_PREFIX):
            store.close()
            raise IndexUnreadable(str(root), "another version wrote it; a processor's start makes it again")
        return cls(store)

    @property
    def folder(self) -> Path:
        return self._store.folder

    @property
    def position(self) -> ReflectedPosition:
        return ReflectedPosition((self._store.get(layout.LINEAGE) or b"").decode(), self.seq, self._last_hash.hex())

    def open_count(self) -> int:
        return self._open

    def dead_count(self) -> int:
        return self._dead

    def memory_bytes(self) -> int:
        return self._store.memory_bytes()

    def known_event(self, event_key: str) -> KnownEvent | None:
        return _known_event(self._store.get(layout.EVENT + hash_key(event_key)))

    def known_events(self, event_keys: Sequence[str]) -> list[KnownEvent | None]:
        values = self._store.get_many([layout.EVENT + hash_key(key) for key in event_keys])
        return [_known_event(value) for value in values]

    def unknown_hashes(self, hashes: Sequence[bytes]) -> list[bytes]:
        values = self._store.get_many([layout.EVENT + event_hash for event_hash in hashes])
        return [event_hash for event_hash, known in zip(hashes, values, strict=True) if known is None]

    def known_conflict(self, event_key: str, content_sha256: str) -> bool:
        """Returns whether other content than the holder's died, or was purged, under the same key."""
        return self._store.get(layout.conflict_key(event_key, content_sha256)) == b""

    def known_original(self, event_key: str, content_sha256: str) -> bool:
        """Returns whether it is the holder's content as it was sent, before it was masked."""
        return self._store.get(layout.conflict_key(event_key, content_sha256)) == layout.ORIGINAL

    def known_fact(self, fact_key: str) -> bytes | None:
        """Returns the first 8 bytes of the hash of a fact that was taken."""
        return self._store.get(layout.FACT + hash_key(fact_key))

    def known_facts(self, fact_keys: Sequence[str]) -> list[bytes | None]:
        return self._store.get_many([layout.FACT + hash_key(key) for key in fact_keys])

    def booked_of(self, pairs: Sequence[str]) -> dict[str, int]:
        """Counts for each pair that has any its movements less its undos. Below zero, undos came before what they
        undo."""
        counts = self._store.get_many([layout.PAIR + hash_key(pair) for pair in pairs])
        return {pair: read_count(value) for pair, value in zip(pairs, counts, strict=True) if value is not None}

    def is_reversed(self, item_seq: int) -> bool:
        return self._store.get(layout.REVERSED + layout.SEQ.pack(item_seq)) is not None

    def reopened_at(self, item_seq: int) -> int | None:
        """Finds the row that took an ignored or unknown item up again, or the last one that ended it since; None:
        neither.
        """
        seq = self._store.get(layout.REOPENED + layout.SEQ.pack(item_seq))
        return None if seq is None else int(layout.SEQ.unpack(seq)[0])

    def open_item(self, item_seq: int) -> OpenItem | None:
        return read_item(self._store, item_seq)

    def open_items(self) -> Iterator[OpenItem]:
        return self._items(self._store.read_keys(layout.ITEM))

    def queue(self, entity_key: str) -> Iterator[OpenItem]:
        """Yields the entity's open events that hold later ones back, head first."""
        return self._items(self._find_queued(entity_key))

    def read_places(self, since: bytes = b"") -> Iterator[tuple[bytes, int]]:
        """Yields entity hash and item seq of every open event that holds later ones back.

        Entity by entity, in the order of the hashes from ``since`` on, heads first; reads keys only.
        """
        begin = len(layout.QUEUE)
        return (
            (key[begin : -layout.SEQ.size], layout.seq_of(key)) for key in self._store.read_keys(layout.QUEUE, since)
        )

    def find_died(self, entity_key: str) -> Iterator[int]:
        """Yields seqs of the entity's items that died, are open, and hold nothing back, lowest first."""
        if self.line(entity_key) is None:
            return iter(())
        return (layout.seq_of(key) for key in self._store.read_keys(layout.DIED + hash_key(entity_key)))

    def closed_heads(self, entity_key: str) -> list[ClosedHead]:
        keys = list(self._store.read_keys(layout.CLOSED + hash_key(entity_key)))
        return [ClosedHead(layout.seq_of(key), *orjson.loads(self._store.get(key) or b"")) for key in keys]

    def line(self, entity_key: str) -> EntityLine | None:
        """Reads what was applied past the entity's open items; None if none could have been passed."""
        return read_line(self._store, entity_key) if self._any_line else None

    def of_entity(self, entity_key: str) -> Iterator[int]:
        """Yields the seqs of all open items of an entity, lowest first, including those that hold nothing back."""
        places = (layout.QUEUE, layout.BESIDE, layout.DIED)
        return merge(*(map(layout.seq_of, self._store.read_keys(place + hash_key(entity_key))) for place in places))

    def find_due(self, now: datetime, limit: int, bytes_max: float = math.inf) -> list[OpenItem]:
        """Lists waiting events whose time has come, earliest first: ``limit`` at most, none after bodies of
        ``bytes_max``."""
        due_items: list[OpenItem] = []
        size = 0
        for item in islice(self._items(self._due_keys(now)), limit):
            due_items.append(item)
            size += len(item.body)
            if size >= bytes_max:
                break
        return due_items

    def event_entries(self) -> Iterator[Entries]:
        return self._store.read_items(layout.EVENT, ENTRIES_AT_ONCE)

    def fact_entries(self) -> Iterator[Entries]:
        return self._store.read_items(layout.FACT, ENTRIES_AT_ONCE)

    def pair_entries(self) -> Iterator[Entries]:
        return self._store.read_items(layout.PAIR, ENTRIES_AT_ONCE)

    def apply_rows(self, rows: Sequence[JournalRow], bodies: Mapping[str, bytes]) -> None:
        """Reflects rows in one atomic write, in seq order; those reflected already are passed over.

        A body that isn't given stays empty until `catch_up` fetches it.

        :raises RowsOutOfOrder: a row between `seq` and the first one is missing
        """
        fresh = [row for row in rows if row.seq > self.seq]
        if not fresh:
            return
        if fresh[0].seq != self.seq + 1:
            raise RowsOutOfOrder(self.seq, fresh[0].seq)
        changes = IndexChanges(self._store, bodies, self._open, self._dead, self._any_line)
        for row in fresh:
            changes.reflect_row(row)
        self._write_changes(changes, fresh[-1].seq, bytes.fromhex(fresh[-1].row_hash))

    def put_off(self, waits: Sequence[tuple[OpenItem, datetime, str | None]]) -> None:
        """Puts open items off, each with its due time and why it waits, without a row.

        An index that is made again from the journal has them due at their rows' times.
        """
        if waits:
            changes = IndexChanges(self._store, {}, self._open, self._dead, self._any_line)
            for item, due_at, reason in waits:
                changes.put_off(item, due_at, reason)
            self._write_changes(changes, self.seq, self._last_hash)

    def catch_up(self, reader: JournalReader, bodies: BodyStore) -> None:
        """Follows the journal up to the reader's version; starts over if it is of another journal.

        An event that is handled again may have lost its body to retention just now: it stays without one. Items that
        belong to another journal now are forgotten (`keep_part`): their bodies may be gone here.

        :raises BodyMissing: the body of any other open event is nowhere
        :raises JournalOlder: it knows rows that this journal had and doesn't have now
        """
        self.follow_journal(reader)
        self.keep_part(shard_in(reader.state().notes))
        self._fetch_bodies(bodies)

    def copy(self, folder: Path) -> IndexCopy:
        """Copies the index as of now, without bodies, for `restore_from_copy`."""
        copied = self._store.copy(folder)
        index = Index(copied)
        table, position = index._read_table_name(), index.position
        index.close()
        return IndexCopy(table, position, copied.files())

    def restore_from_copy(self, fill: Callable[[Path], None]) -> None:
        """Continues from a copy, whose files ``fill`` puts into a folder; `catch_up` fetches its bodies.

        If that fails the index is empty, and raises what ``fill`` raised, or `IndexBroken`. If its process is killed
        meanwhile, the next one's is empty.
        """
        try:
            self._store.begin_again(fill, self._note_bodiless)
        finally:
            self._read_mark()
            self._queues = layout.Queues(self._store.read_keys(layout.QUEUE))

    def keep_part(self, part: Shard) -> None:
        others = [] if part.count == 1 else [item for item in self.open_items() if not is_item_of(part, item.row)]
        if others:
            changes = IndexChanges(self._store, {}, self._open, self._dead, self._any_line)
            for item in others:
                changes.forget_item(item)
            self._write_changes(changes, self.seq, self._last_hash)

    def can_follow(self, reader: JournalReader) -> bool:
        """Returns whether `catch_up` continues from what is here, or starts over.

        :raises JournalOlder: as `catch_up`
        """
        return self.seq > 0 and self.is_of(reader)

    def close(self) -> None:
        self._store.close()

    def take_windows(self, journal: JournalReader) -> Iterator[None]:
        self._name_lineage(journal.lineage)
        for table in journal.tables_after(self.seq, SETTLED_COLUMNS):
            self._follow(table, journal)
            yield

    def _follow(self, table: pa.Table, reader: JournalReader) -> None:
        changes = IndexChanges(self._store, {}, self._open, self._dead, self._any_line)
        changes.reflect_table(table, reader)
        seq, last_hash = table["seq"][-1].as_py(), bytes.fromhex(table["row_hash"][-1].as_py())
        self._write_changes(changes, seq, last_hash)

    def _write_changes(self, changes: IndexChanges, seq: int, last_hash: bytes) -> None:
        self._store.write(changes.finish_batch(layout.COUNTS.pack(seq, changes.open, changes.dead) + last_hash))
        self.seq, self._open, self._dead, self._last_hash = seq, changes.open, changes.dead, last_hash
        self._any_line = changes.any_line
        if self._queues is not None:
            self._queues.change(changes.queued)

    def _note_bodiless(self) -> None:
        batch = WriteBatch(raw_mode=True)
        for item in self.open_items():
            if item.row.body_sha256 not in (None, EMPTY_SHA256):
                batch.put(layout.BODILESS + layout.SEQ.pack(item.row.item_seq), b"")
        self._store.write(batch)

    def _fetch_bodies(self, bodies: BodyStore) -> None:
        while some := list(islice(self._store.read_keys(layout.BODILESS), BODIES_PER_FETCH)):
            items = [item for key in some if (item := self.open_item(layout.seq_of(key))) is not None]
            fetched = bodies.fetch(item.row.body_sha256 or "" for item in items)
            batch = WriteBatch(raw_mode=True)
            for item in items:
                body = fetched.get(item.row.body_sha256 or "")
                if body is None and self.reopened_at(item.row.item_seq) is not None:
                    continue
                if body is None:
                    sha256 = item.row.body_sha256 or ""
                    raise BodyMissing(sha256, bodies.find_bodies([sha256], only_hashes=True).lost_names())
                batch.put(layout.ITEM + layout.SEQ.pack(item.row.item_seq), body, self._store.apart)
            for key in some:
                batch.delete(key)
            self._store.write(batch)

    def is_of(self, journal: JournalReader) -> bool:
        return self._read_table_name() == table_name(journal) and super().is_of(journal)

    def _read_table_name(self) -> bytes:
        return self._store.get(layout.TABLE) or b""

    def _name_lineage(self, lineage: str) -> None:
        if self.position.lineage != lineage:
            batch = WriteBatch(raw_mode=True)
            batch.put(layout.LINEAGE, lineage.encode())
            self._store.write(batch)

    def begin_again(self, journal: JournalReader) -> None:
        if self.seq:
            log.warning("the index doesn't reflect this journal: it is made again")
            self._store.begin_again()
        self._read_mark()
        self._queues = layout.Queues()
        batch = WriteBatch(raw_mode=True)
        batch.put(layout.TABLE, table_name(journal))
        self._store.write(batch)

    def _find_queued(self, entity_key: str) -> Iterator[bytes]:
        entity = hash_key(entity_key)
        if self._queues is not None and self._queues.is_empty(entity):
            return iter(())
        return self._store.read_keys(layout.QUEUE + entity)

    def _due_keys(self, now: datetime) -> Iterator[bytes]:
        until = layout.DUE + layout.SEQ.pack(to_micros(now) + 1)
        for key in self._store.read_keys(layout.DUE):
            if key >= until:
                return
            yield key

    def _items(self, keys: Iterator[bytes]) -> Iterator[OpenItem]:
        for key in keys:
            item = self.open_item(layout.seq_of(key))
            if item is not None:
                yield item


def _known_event(value: bytes | None) -> KnownEvent | None:
    if value is None:
        return None
    content8, version, rest = value[: layout.CONTENT_BYTES], value[layout.CONTENT_BYTES], layout.CONTENT_BYTES + 1
    return KnownEvent(content8, version, value[rest:] == layout.PURGED)


def table_name(reader: JournalReader) -> bytes:
    return layout.TABLE_PREFIX + reader.table_id.encode()
