"""A dead or waiting item as the board holds it: one row of its table, and the same in plain words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

from core.clock import from_micros
from core.decision import Decision, ErrorKind
from core.money import Money
from dlq.commands import Target


class ItemState(StrEnum):
    """Where an item stands."""

    OPEN = "open"
    """Dead: it waits for a person."""
    WAITING = "waiting"
    """For its next try, behind an earlier event of its entity, or for its turn after a replay."""
    REPLAYED = "replayed"
    """It died, and a later try ended it: applied, or found to be a copy or of no effect. `Item.decision` says which."""
    PURGED = "purged"
    RESOLVED = "resolved"
    SETTLED = "settled"
    """It never died. The board doesn't hold such items; a story may be of one."""


OPEN_STATES = (ItemState.OPEN, ItemState.WAITING)


class Mark(StrEnum):
    """What can't simply be tried again."""

    POISON = "poison"
    """Its bytes can't be read, so that it has no identity."""
    CONFLICT = "conflict"
    """Its key, or its fact, is held with other content."""


@dataclass(slots=True)
class Entry:
    """One row of the table ``items``, column by column; times in microseconds since 1970, UTC."""

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


COLUMNS = tuple(field.name for field in fields(Entry))
values: Callable[[Entry], tuple[Any, ...]] = attrgetter(*COLUMNS)


@dataclass(frozen=True, slots=True)
class Item:
    """One item. Times are UTC.

    ``seen_seq`` is the seq of its last row and ``seen_hash`` the head of that row's hash: what a command names with
    it. ``attempts``: tries in its latest round.
    ``since``: when it died first; while it never died, when it was first decided. ``error_class``, ``message``,
    ``kind`` and ``fingerprint`` are those of its latest error. ``amount`` is None where nobody could tell.
    ``cause_seq``: the row that caused its last one.
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
    amount: Money | None

    @property
    def target(self) -> Target:
        """The item as it was seen: what a command names."""
        return Target(self.item_seq, self.seen_seq, self.seen_hash)

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class Seen(NamedTuple):
    """What a frozen selection keeps of an item. The amount is in minor units."""

    item_seq: int
    seen_seq: int
    seen_hash: str
    amount_minor: int | None
    currency: str | None
    entity_key: str | None


def item_of(entry: Entry) -> Item:
    """A row of the table in plain words."""
    priced = entry.amount_minor is not None and entry.currency is not None
    return Item(
        item_seq=entry.item_seq,
        seen_seq=entry.seen_seq,
        seen_hash=entry.seen_hash,
        state=ItemState(entry.state),
        decision=Decision(entry.decision),
        attempts=entry.attempts,
        times_died=entry.times_died,
        replays=entry.replays,
        kind=ErrorKind(entry.kind) if entry.kind is not None else None,
        error_class=entry.error_class,
        error_code=entry.error_code,
        message=entry.message,
        fingerprint=entry.fingerprint,
        mark=Mark(entry.mark) if entry.mark is not None else None,
        provider=entry.provider,
        account=entry.account,
        tenant=entry.tenant,
        event_type=entry.event_type,
        event_key=entry.event_key,
        entity_key=entry.entity_key,
        topic=entry.topic,
        partition=entry.partition,
        offset=entry.offset,
        received_at=_moment(entry.received_at),
        since=from_micros(entry.since_at),
        first_dead_at=_moment(entry.first_dead_at),
        last_decided_at=from_micros(entry.last_at),
        due_at=_moment(entry.due_at),
        closed_at=_moment(entry.closed_at),
        cause_seq=entry.cause_seq,
        actor=entry.actor,
        reason=entry.reason,
        amount=Money(entry.amount_minor, entry.currency) if priced else None,  # type: ignore[arg-type]
    )


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)
