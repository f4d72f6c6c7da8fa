"""Steps 2 and 3: which events are new, and which of them may run now, in which order."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from core.decision import Decision, ErrorKind
from core.event import POISON_TYPE
from journal.index import KnownEvent, KnownFact
from journal.open_item import OpenItem
from processor.classify import Failure
from processor.intake import Item
from processor.verdict import CONFLICT_CLASS, POISON_CLASS, die, duplicate, park

BEHIND = "behind an earlier event of its entity"

ENTITY_BUSY_WAIT_S = 5.0
"""How long a replay that can't take its old place waits before it looks at its entity again."""


class Lookup(Protocol):
    """What admission asks of the index."""

    def known_event(self, event_key: str) -> KnownEvent | None: ...
    def known_fact(self, fact_key: str) -> KnownFact | None: ...
    def known_conflict(self, event_key: str, content_sha256: str) -> bool: ...
    def is_blocked(self, entity_key: str) -> bool: ...
    def blocking(self, entity_key: str, limit: int) -> list[OpenItem]: ...


class ContentHash(Protocol):
    """An adapter's content hash by an older version of its list of left-out fields."""

    def content_sha256(self, body: bytes, version: int) -> str: ...


@dataclass(slots=True)
class Group:
    """One entity's events that may run in this batch, in Kafka order.

    ``closed``: newcomers park behind it all the same. ``beyond`` is the next waiting event when more
    of them wait than one batch takes.
    """

    items: list[Item] = field(default_factory=list)
    closed: bool = False
    beyond: OpenItem | None = None


class Admission:
    """Sorts a batch's events into those that are decided by a look-up and groups that run."""

    def __init__(
        self, index: Lookup, adapters: Mapping[str, ContentHash], now: datetime, drain_per_entity_max: int
    ) -> None:
        self._index = index
        self._adapters = adapters
        self._now = now
        self._drain_max = drain_per_entity_max
        self._seen: dict[str, Item] = {}
        self._conflicts: set[tuple[str, str]] = set()
        self.groups: dict[str, Group] = {}
        self.settled: list[Item] = []

    def take_up(self, due: OpenItem) -> None:
        """A parked, failed or replayed event whose time has come."""
        entity = due.row.entity_key or ""
        if not due.row.blocking:
            self._take_up_beside(again(due))
            return
        if entity in self.groups:
            return
        queue = self._index.blocking(entity, self._drain_max + 1)
        if not queue or queue[0].row.item_seq != due.row.item_seq:
            return
        group = self.groups[entity] = Group()
        for waiting in queue[: self._drain_max]:
            if waiting.row.decision is Decision.DEAD:
                group.closed = True
                return
            group.items.append(self._with_fact(again(waiting)))
        if len(queue) > self._drain_max:
            group.closed, group.beyond = True, queue[self._drain_max]

    def admit(self, item: Item) -> None:
        """A new event, in the order of Kafka's offsets."""
        if item.refused is not None:
            self._dead(item, type(item.refused).__name__, str(item.refused))
        elif not self._is_known(item):
            self._seen[item.row.event_key or ""] = item
            if item.poison is not None:
                self._dead(item, POISON_CLASS, item.poison)
            else:
                self._enqueue(item)

    def _enqueue(self, item: Item) -> None:
        entity = item.row.entity_key or ""
        group = self.groups.get(entity)
        if group.closed if group is not None else self._index.is_blocked(entity):
            park(item, BEHIND)
            self.settled.append(item)
        else:
            self.groups.setdefault(entity, Group()).items.append(self._with_fact(item))

    def _is_known(self, item: Item) -> bool:
        key, content = item.row.event_key or "", item.row.content_sha256 or ""
        seen = self._seen.get(key)
        if seen is not None:
            same = self._same_content(item, bytes.fromhex(seen.row.content_sha256 or ""), seen.row.content_version)
        else:
            known = self._index.known_event(key)
            if known is None:
                return False
            same = self._same_content(item, known.content8, known.content_version)
        if same:
            duplicate(item, Decision.DUPLICATE, "an earlier copy holds the event key")
            item.row.cause_seq = seen.seq if seen is not None else None
            self.settled.append(item)
        elif (key, content) in self._conflicts or self._index.known_conflict(key, content):
            duplicate(item, Decision.DUPLICATE, "a redelivery of a conflict that is held already")
            self.settled.append(item)
        else:
            self._conflicts.add((key, content))
            self._dead(item, CONFLICT_CLASS, conflict_text(key))
        return True

    def _same_content(self, item: Item, known: bytes, version: int | None) -> bool:
        content = item.row.content_sha256 or ""
        if version != item.row.content_version and version is not None:
            adapter = self._adapters.get(item.row.provider or "")
            if adapter is not None:
                content = adapter.content_sha256(item.body, version)
        return bytes.fromhex(content)[: len(known)] == known

    def _take_up_beside(self, item: Item) -> None:
        """A replayed event that holds no place in its entity's queue: it runs behind what came since."""
        if item.row.event_type == POISON_TYPE or item.row.event_key is None:
            self._dead(item, POISON_CLASS, "it has no identity to be handled under: let the provider send it again")
            return
        entity = item.row.entity_key or ""
        known = self._index.known_event(item.row.event_key)
        if known is None or not self._same_content(item, known.content8, known.content_version):
            self._dead(item, CONFLICT_CLASS, conflict_text(item.row.event_key))
        elif self._index.is_blocked(entity) and entity not in self.groups:
            item.row.decision = Decision.REPLAYED
            item.row.reason = "its entity waits for an earlier event"
            item.row.due_at = self._now + timedelta(seconds=ENTITY_BUSY_WAIT_S)
            self.settled.append(item)
        else:
            item.row.out_of_order = True
            self.groups.setdefault(entity, Group()).items.append(self._with_fact(item))

    def _with_fact(self, item: Item) -> Item:
        if item.row.fact_key is not None:
            item.known_fact = self._index.known_fact(item.row.fact_key)
        return item

    def _dead(self, item: Item, error_class: str, message: str) -> None:
        die(item, Failure(ErrorKind.NRE, error_class, None, message, stack=""), blocking=False)
        self.settled.append(item)


def conflict_text(event_key: str) -> str:
    return (
        f"{event_key} was received before with other content. Compare both bodies, ask the provider which one "
        "holds, and purge the other one."
    )


def again(waiting: OpenItem) -> Item:
    """A waiting event as an item of this batch: its identities stay, what was decided last is cleared."""
    row = copy.copy(waiting.row)
    row.seq = 0
    row.first = False
    row.due_at = row.reason = row.retry_policy = row.cause_seq = row.actor = None
    row.error_class = row.error_code = row.error_message = row.error_stack = row.error_kind = None
    row.log_lines = row.handler_version = row.postings = row.headers = None
    return Item(row, waiting.body, new=False)
