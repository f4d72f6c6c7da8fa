"""Gathers the facts of a dry run: from the dead-letter index what is open, from the journal what was applied, and the
bodies. It answers what the processor's judge asks of the index."""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from core.decision import WITHOUT_EFFECT, Decision, ErrorKind
from core.location import Location
from dead_letters.file import IndexFile
from dead_letters.follow import read_entries
from dead_letters.item import OPEN_STATES, ItemEntry, Mark
from journal.bodies import BodyStore
from journal.index import KnownEvent
from journal.index_changes import EMPTY_SHA256, EntityLine
from journal.index_layout import shorten_content_hash
from journal.lake import has_table
from journal.open_item import OpenItem, frees_key, holds_key, is_other_content, releases_key, takes_key
from journal.reader import JournalReader, lineage_of, rows_where
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.acceptance import NONE_IGNORED, IgnoredEvents

ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


class OpenItemFacts(NamedTuple):
    item_seq: int
    seen_seq: int
    seen_hash: str
    decision: str
    attempts: int
    replays: int
    blocking: int
    mark: str | None
    kind: str | None
    error_class: str | None
    event_key: str | None
    entity_key: str | None

    @property
    def item(self) -> OpenItem:
        row = JournalRow(
            seq=self.seen_seq,
            item_seq=self.item_seq,
            first=False,
            topic="",
            partition=0,
            offset=0,
            decision=Decision(self.decision),
            decided_at=ANY_TIME,
            attempt=self.attempts,
            blocking=bool(self.blocking),
            event_key=self.event_key,
            entity_key=self.entity_key,
            error_kind=None if self.kind is None else ErrorKind(self.kind),
            error_class=self.error_class,
            row_hash=self.seen_hash,
            # The engine's own errors come without one: that alone tells a conflict from a handler's error of its name.
            handler_version=None if self.mark == Mark.CONFLICT else "",
        )
        return OpenItem(row, b"", self.seen_seq, replays=self.replays)


@dataclass(slots=True)
class _Entity:
    every: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)


class KnownOpenItems:
    """Answers what `operations.acceptance.Lookup` asks.

    :param standing: every open item of the entities that are asked for, in item order
    :param applied: by entity, its latest applied event
    :param holders: who holds an event key, by key (`find_holders`)
    :param last_rows: of ignored items, their last row's seq
    """

    def __init__(
        self,
        standing: Iterable[OpenItemFacts],
        applied: Mapping[str, int],
        holders: Mapping[str, KnownEvent],
        last_rows: Mapping[int, int] | None = None,
    ) -> None:
        self._items = {item.item_seq: item for item in standing}
        self._applied = applied
        self._holders = holders
        self._last_rows = last_rows or {}
        self._entities: dict[str, _Entity] = {}
        for item in self._items.values():
            entity = self._entities.setdefault(item.entity_key or "", _Entity())
            entity.every.append(item.item_seq)
            if item.blocking:
                entity.queue.append(item.item_seq)
                if item.decision != Decision.DEAD:
                    entity.waiting.append(item.item_seq)

    def open_item(self, item_seq: int) -> OpenItem | None:
        item = self._items.get(item_seq)
        return None if item is None else item.item

    def queue(self, entity_key: str) -> Iterator[OpenItem]:
        return (self._items[seq].item for seq in self._entity(entity_key).queue)

    def of_entity(self, entity_key: str) -> Iterator[int]:
        return iter(self._entity(entity_key).every)

    def line(self, entity_key: str) -> EntityLine:
        entity = self._entity(entity_key)
        return EntityLine(len(entity.every) - len(entity.queue), self._applied.get(entity_key, 0))

    def known_event(self, event_key: str) -> KnownEvent | None:
        return self._holders.get(event_key)

    def reopened_at(self, item_seq: int) -> int | None:
        return self._last_rows.get(item_seq)

    def count_followers(self, item: OpenItem) -> int:
        if not item.row.blocking:
            return 0
        waiting = self._entity(item.row.entity_key or "").waiting
        return len(waiting) - bisect_right(waiting, item.row.item_seq)

    def _entity(self, entity_key: str) -> _Entity:
        return self._entities.get(entity_key) or _Entity()


def find_holders(rows: Iterable[JournalRow]) -> dict[str, KnownEvent]:
    """Finds who holds each event key after all of its rows, which come in their order."""
    held: dict[str, KnownEvent] = {}
    last: dict[int, JournalRow] = {}
    for row in rows:
        key, before = row.event_key or "", last.get(row.item_seq)
        was = held.get(key)
        if holds_key(row):
            held[key] = _make_holder(row)
        elif before is not None and frees_key(row, before):
            held[key] = _make_holder(row, purged=True)
        elif before is not None and releases_key(row, before):
            held.pop(key, None)
        elif before is not None and takes_key(row, before) and was is not None and was.purged:
            held[key] = _make_holder(row)
        last[row.item_seq] = row
    return held


def _make_holder(row: JournalRow, *, purged: bool = False) -> KnownEvent:
    return KnownEvent(shorten_content_hash(row.content_sha256 or ""), row.content_version or 0, purged)


HELD = b"kept"
"""Stands in place of a body that is kept: its contents have no influence here."""

_PLACE = ["seq", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at"]
HOLDER_COLUMNS = [
    *("seq", "item_seq", "first", "topic", "partition", "offset", "event_key", "decision", "decided_at"),
    *("error_class", "handler_version", "content_sha256", "content_version"),
]


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about some items. ``entries``: as the index has them, by number; what it doesn't hold is left out.

    ``bodies``: hashes of the bodies that are kept. ``ignored``: of items that were ignored or unknown, with `HELD` for
    a body that is kept.
    """

    entries: Mapping[int, ItemEntry]
    known: KnownOpenItems
    bodies: Collection[str]
    ignored: IgnoredEvents = NONE_IGNORED

    def has_body(self, entry: ItemEntry) -> bool:
        return entry.body_sha256 is None or entry.body_sha256 in self.bodies


class FactFinder:
    def __init__(self, index: Path, journal: Location, bodies: Location) -> None:
        self._index = IndexFile(index)
        self._journal = str(journal)
        self._bodies = str(bodies)

    def lineage(self) -> str:
        return lineage_of(self._journal)

    def gather_facts(self, targets: Sequence[ItemTarget]) -> Facts:
        with self._index.begin_read() as connection:
            entries = {entry.item_seq: entry for entry in read_entries(connection, [t.item_seq for t in targets])}
            keys = sorted({entry.entity_key for entry in entries.values() if entry.entity_key is not None})
            standing = sorted([*_select_open_items(connection, keys), *_find_without_entity(entries.values())])
        after = min(target.item_seq for target in targets)
        others = [target for target in targets if target.item_seq not in entries]
        ignored, last_rows = self._find_ignored(others, after)
        holders = self._find_key_holders(item for item in standing if item.item_seq in entries)
        known = KnownOpenItems(standing, self._find_applied(keys, after), holders, last_rows)
        return Facts(entries, known, self._find_kept_bodies(entry.body_sha256 for entry in entries.values()), ignored)

    def events(self, seqs: Sequence[int]) -> dict[int, tuple[JournalRow, bytes]]:
        """Reads the rows with these seqs, each with its first row's headers and its body.

        A row without a body is left out.
        """
        reader = JournalReader(self._journal)
        rows = {row.seq: row for row in reader.rows_of(sorted(seqs))}
        firsts = {row.seq: row.headers for row in reader.rows_of(sorted({row.item_seq for row in rows.values()}))}
        hashes = {row.body_sha256 for row in rows.values() if row.body_sha256 is not None}
        bodies = BodyStore(self._bodies, may_create=False).fetch(hashes) if has_table(self._bodies) else {}
        bodies = {EMPTY_SHA256: b"", **bodies}
        return {
            seq: (replace(row, headers=firsts.get(row.item_seq)), bodies[row.body_sha256])
            for seq, row in rows.items()
            if row.body_sha256 in bodies
        }

    def _find_ignored(self, targets: Sequence[ItemTarget], after: int) -> tuple[IgnoredEvents, Mapping[int, int]]:
        seqs = pa.array([target.seen_seq for target in targets], pa.int64())
        wanted = pc.field("seq").isin(seqs) & pc.field("decision").isin(pa.array(sorted(WITHOUT_EFFECT), pa.string()))
        rows = rows_where(self._journal, wanted) if targets else []
        if not rows:
            return NONE_IGNORED, {}
        held = self._find_kept_bodies(row.body_sha256 for row in rows)
        by_row = {row.seq: OpenItem(row, HELD if row.body_sha256 in held else b"", row.seq) for row in rows}
        items = pa.array([row.item_seq for row in rows], pa.int64())
        last_rows = {
            row.item_seq: row.seq for row in rows_where(self._journal, pc.field("item_seq").isin(items), _PLACE)
        }
        entities = sorted({row.entity_key for row in rows if row.entity_key is not None})
        return IgnoredEvents(by_row, self._find_applied(entities, after)), last_rows

    def _find_applied(self, keys: Sequence[str], after: int) -> Mapping[str, int]:
        if not has_table(self._journal):
            return {}
        return JournalReader(self._journal).applied_upto(dict.fromkeys(keys, after))

    def _find_key_holders(self, standing: Iterable[OpenItemFacts]) -> Mapping[str, KnownEvent]:
        """Finds the holders of the keys of other content: they may be long closed, so the journal is asked."""
        others = (item for item in standing if item.mark == Mark.CONFLICT and is_other_content(item.item.row))
        keys = sorted({item.event_key for item in others if item.event_key is not None})
        wanted = pc.field("event_key").isin(pa.array(keys, pa.string()))
        return find_holders(rows_where(self._journal, wanted, HOLDER_COLUMNS)) if keys else {}

    def _find_kept_bodies(self, hashes_of: Iterable[str | None]) -> Set[str]:
        hashes = {sha256 for sha256 in hashes_of if sha256 is not None}
        held = (
            BodyStore(self._bodies, may_create=False).find_kept(hashes) if hashes and has_table(self._bodies) else set()
        )
        return held | {EMPTY_SHA256}


def _select_open_items(connection: sqlite3.Connection, keys: Sequence[str]) -> Iterator[OpenItemFacts]:
    rows = connection.execute(
        f"SELECT {', '.join(OpenItemFacts._fields)}"  # noqa: S608 - names of our own
        " FROM items WHERE state IN ('open', 'waiting') AND entity_key IN (SELECT value FROM json_each(?))",
        (json.dumps(keys),),
    )
    return map(OpenItemFacts._make, rows)


def _find_without_entity(entries: Iterable[ItemEntry]) -> Iterator[OpenItemFacts]:
    for entry in entries:
        if entry.entity_key is None and entry.state in OPEN_STATES:
            yield OpenItemFacts(*(getattr(entry, name) for name in OpenItemFacts._fields))
