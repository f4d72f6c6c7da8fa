"""A stream's open items and held keys, by its board and its journal: what a dry run asks instead of the index."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from core.decision import Decision, ErrorKind
from dlq.index.item import Mark
from journal.index import KnownEvent
from journal.index_changes import Line
from journal.index_layout import CONTENT_BYTES
from journal.open_item import OpenItem, frees_key, holds_key, is_other_content, takes_key
from journal.schema import JournalRow

ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


class Standing(NamedTuple):
    """What of an open item an order is judged by; columns of the board's items."""

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
        """As the index would give it, without what nobody is judged by: place in Kafka, times, body."""
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
    """One entity's open items by number, lowest first. ``queue``: those that hold later ones back."""

    every: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)


class Known:
    """Answers what `dlq.acceptance.Lookup` asks.

    :param standing: every open item of the entities that are asked for, in item order
    :param applied: by entity, its latest applied event
    :param holders: who holds an event key, by key (`holders`)
    """

    def __init__(
        self, standing: Iterable[Standing], applied: Mapping[str, int], holders: Mapping[str, KnownEvent]
    ) -> None:
        self._items = {one.item_seq: one for one in standing}
        self._applied = applied
        self._holders = holders
        self._entities: dict[str, _Entity] = {}
        for one in self._items.values():
            entity = self._entities.setdefault(one.entity_key or "", _Entity())
            entity.every.append(one.item_seq)
            if one.blocking:
                entity.queue.append(one.item_seq)
                if one.decision != Decision.DEAD:
                    entity.waiting.append(one.item_seq)

    def open_item(self, item_seq: int) -> OpenItem | None:
        found = self._items.get(item_seq)
        return None if found is None else found.item

    def queue(self, entity_key: str) -> Iterator[OpenItem]:
        return (self._items[seq].item for seq in self._entity(entity_key).queue)

    def of_entity(self, entity_key: str) -> Iterator[int]:
        return iter(self._entity(entity_key).every)

    def line(self, entity_key: str) -> Line:
        entity = self._entity(entity_key)
        return Line(len(entity.every) - len(entity.queue), self._applied.get(entity_key, 0))

    def known_event(self, event_key: str) -> KnownEvent | None:
        return self._holders.get(event_key)

    def followers(self, item: OpenItem) -> int:
        """How many wait behind it."""
        if not item.row.blocking:
            return 0
        waiting = self._entity(item.row.entity_key or "").waiting
        return len(waiting) - bisect_right(waiting, item.row.item_seq)

    def _entity(self, entity_key: str) -> _Entity:
        return self._entities.get(entity_key) or _Entity()


def holders(rows: Iterable[JournalRow]) -> dict[str, KnownEvent]:
    """Who holds each event key after all of its rows, which come in their order."""
    held: dict[str, KnownEvent] = {}
    last: dict[int, JournalRow] = {}
    for row in rows:
        key, before = row.event_key or "", last.get(row.item_seq)
        was = held.get(key)
        if holds_key(row):
            held[key] = _holder(row)
        elif before is not None and frees_key(row, before):
            held[key] = _holder(row, purged=True)
        elif before is not None and takes_key(row, before) and was is not None and was.purged:
            held[key] = _holder(row)
        last[row.item_seq] = row
    return held


def _holder(row: JournalRow, *, purged: bool = False) -> KnownEvent:
    content8 = bytes.fromhex((row.content_sha256 or "")[: 2 * CONTENT_BYTES]).ljust(CONTENT_BYTES, b"\0")
    return KnownEvent(content8, row.content_version or 0, purged)


def wants_holder(one: Standing) -> bool:
    """Whether it matters to an item who holds its key."""
    return one.event_key is not None and one.mark == Mark.CONFLICT and is_other_content(one.item.row)
