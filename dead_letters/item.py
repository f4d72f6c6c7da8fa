"""Dead and waiting items: rows of the index's table, and what the API, the pages and the command line show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

from core.clock import from_micros
from core.decision import Decision, ErrorKind
from core.money import decimals_of
from journal.target import ItemTarget


class ItemState(StrEnum):
    OPEN = "open"
    """Dead: it waits for a person."""
    WAITING = "waiting"
    """For its next try, behind an earlier event of its entity, or for its turn after a replay."""
    REPLAYED = "replayed"
    """It died, and a later try ended it: applied, or found to be a copy or of no effect. `Item.decision` says which."""
    PURGED = "purged"
    RESOLVED = "resolved"
    RELEASED = "released"
    """Closed without effect; its key is free, so that the provider may send the event again."""
    IGNORED = "ignored"
    """It never died: no handler took it. The index doesn't hold such items; a selection may be of them."""
    UNKNOWN = "unknown"
    """It never died: no handler knew what it means. The index doesn't hold such items; a selection may be of them."""
    SETTLED = "settled"
    """It never died. The index doesn't hold such items; a story may be of one."""


OPEN_STATES = (ItemState.OPEN, ItemState.WAITING)
NOT_HELD_STATES = frozenset({ItemState.IGNORED, ItemState.UNKNOWN, ItemState.SETTLED})
"""States of items that the index doesn't hold."""


class Mark(StrEnum):
    """A mark on an item that can't simply be tried again."""

    POISON = "poison"
    """Its bytes can't be read, so that it has no identity."""
    CONFLICT = "conflict"
    """Its key, or its fact, is held with other content."""


@dataclass(slots=True)
class ItemEntry:
    """A row of the table ``items``, column by column; times in microseconds since 1970, UTC."""

    item_seq: int
    seen_seq: int
    seen_hash: str
    state: str
    decision: str
    attempts: int
    times_died: int
    replays: int
    kind: str | None
    error_class: str | None
    error_code: str | None
    message: str | None
    fingerprint: str | None
    mark: str | None
    provider: str | None
    account: str | None
    tenant: str | None
    event_type: str | None
    event_key: str | None
    entity_key: str | None
    topic: str
    partition: int
    offset: int
    body_sha256: str | None
    received_at: int | None
    since_at: int
    first_dead_at: int | None
    last_at: int
    due_at: int | None
    closed_at: int | None
    cause_seq: int | None
    actor: str | None
    reason: str | None
    blocking: int
    amount_minor: int | None
    currency: str | None
    priced: int


COLUMNS = tuple(field.name for field in fields(ItemEntry))
values: Callable[[ItemEntry], tuple[Any, ...]] = attrgetter(*COLUMNS)


@dataclass(frozen=True, slots=True)
class Item:
    """A dead or waiting item. Times are UTC. These fields are its JSON too: more are added, none is renamed.

    ``seen_seq`` is the seq of its last row and ``seen_hash`` the beginning of that row's hash: a command names both.
    ``attempts``: tries in its latest round. ``since``: when it died first; while it never died, when it was first
    decided. ``error_class``, ``message``, ``kind`` and ``fingerprint`` are those of its latest error. ``cause_seq``:
    the row that caused its last one. ``amount_minor`` is in minor units, of which ``currency`` has ``decimals``; all
    three are None where the amount isn't known. ``due_at`` is as of its last row: a wait that lasts gets later times
    without a row (`console.waits`).
    """

    item_seq: int
    seen_seq: int
    seen_hash: str
    state: ItemState
    decision: Decision
    attempts: int
    times_died: int
    replays: int
    kind: ErrorKind | None
    error_class: str | None
    error_code: str | None
    message: str | None
    fingerprint: str | None
    mark: Mark | None
    provider: str | None
    account: str | None
    tenant: str | None
    event_type: str | None
    event_key: str | None
    entity_key: str | None
    topic: str
    partition: int
    offset: int
    received_at: datetime | None
    since: datetime
    first_dead_at: datetime | None
    last_decided_at: datetime
    due_at: datetime | None
    closed_at: datetime | None
    cause_seq: int | None
    actor: str | None
    reason: str | None
    amount_minor: int | None
    currency: str | None
    decimals: int | None

    @property
    def name(self) -> str:
        return str(self.item_seq)

    @property
    def target(self) -> ItemTarget:
        return ItemTarget(self.item_seq, self.seen_seq, self.seen_hash)

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


_RENAMED = {"since": "since_at", "last_decided_at": "last_at"}
"""Fields whose column has another name."""

_READ: Mapping[str, Callable[[Any], Any]] = {
    "state": ItemState,
    "decision": Decision,
    "kind": ErrorKind,
    "mark": Mark,
    **dict.fromkeys(("received_at", "since", "first_dead_at", "last_decided_at", "due_at", "closed_at"), from_micros),
}


def item_of(entry: ItemEntry) -> Item:
    values_by_name: dict[str, Any] = {"decimals": None if entry.currency is None else decimals_of(entry.currency)}
    for field in fields(Item):
        if field.name not in values_by_name:
            value = getattr(entry, _RENAMED.get(field.name, field.name))
            read = _READ.get(field.name)
            values_by_name[field.name] = value if read is None or value is None else read(value)
    return Item(**values_by_name)


class FrozenItem(NamedTuple):
    """An item as a frozen selection keeps it. The amount is in minor units."""

    item_seq: int
    seen_seq: int
    seen_hash: str
    amount_minor: int | None
    currency: str | None
    entity_key: str | None
