"""An event that still waits, and how the index stores it; and the fold of an item's rows into its life.

All that follows items folds their rows with `life_after`; only `ledger.verify` has its own, to check the others by.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

import orjson

from core.decision import OPEN_DECISIONS, Decision, ErrorKind
from core.work import PreviousEvent
from journal.schema import JournalRow

_HEAD = struct.Struct(">Q?H")
_REPLAYS_MAX = 2**16 - 1
_TIMES = ("due_at", "occurred_at", "received_at", "decided_at")
CONFLICT_CLASS, FACT_CONFLICT_CLASS = "EventConflict", "FactConflict"
CONFLICT_CLASSES = frozenset({CONFLICT_CLASS, FACT_CONFLICT_CLASS})
"""Error classes of the engine's own. A handler's error of that name comes with the handler's version."""

_NAMES = tuple(field.name for field in fields(JournalRow))


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An event that still waits. ``row`` is its last row with the first one's headers.

    ``died`` and ``replays``: `journal.open_item.Life.passed_over` and ``replays``.
    """

    row: JournalRow
    body: bytes
    last_seq: int
    died: bool = False
    replays: int = 0


@dataclass(frozen=True, slots=True)
class ClosedHead:
    item_seq: int
    closed_at: int
    event_key: str
    decision: str
    route: str | None

    def held_back(self, item_seq: int) -> bool:
        return self.item_seq < item_seq < self.closed_at

    def as_previous(self) -> PreviousEvent:
        return PreviousEvent(self.event_key, self.decision, self.route, self.closed_at)


def as_previous(item: OpenItem) -> PreviousEvent:
    row = item.row
    return PreviousEvent(row.event_key or "", Decision.DEAD.value, row.retry_policy, item.last_seq)


def leaves_open(row: JournalRow) -> bool:
    """Returns whether the row's item waits after it. A command's own row never does."""
    return row.decision in OPEN_DECISIONS and not (row.first and row.decision is Decision.REPLAYED)


DELAYED = "the stream's delay isn't over"


def is_delayed(row: JournalRow) -> bool:
    """Returns whether an open item waits for its first try because of the stream's delay."""
    return row.decision is Decision.PARKED and row.reason == DELAYED


def has_failed(row: JournalRow) -> bool:
    return row.decision is Decision.RETRY and (row.reason or "").startswith(f"{row.error_class}: ")


def is_conflict(row: JournalRow) -> bool:
    """Returns whether a dead row has other content for a key, or a fact, that is held: it dies beside its entity."""
    return row.decision is Decision.DEAD and row.error_class in CONFLICT_CLASSES and row.handler_version is None


def is_other_content(row: JournalRow) -> bool:
    """Returns whether a dead row has other content for an event key that is held: it holds no key itself."""
    return is_conflict(row) and row.error_class == CONFLICT_CLASS


def holds_key(row: JournalRow) -> bool:
    """Returns whether an item holds its event key from this row on, as the first of its key."""
    return (
        row.first and row.event_key is not None and row.decision is not Decision.DUPLICATE and not is_other_content(row)
    )


def frees_key(row: JournalRow, before: JournalRow) -> bool:
    """Returns whether the row frees its event key for a replay of other content: a person purged the key's holder.

    ``before`` is the item's row before it. The key stays held against everything else; that of an unknown event also
    against other content.
    """
    is_closed_open = row.decision is Decision.PURGED and before.decision is not Decision.UNKNOWN
    return is_closed_open and row.event_key is not None and not is_other_content(before)


def releases_key(row: JournalRow, before: JournalRow) -> bool:
    """Returns whether nothing holds the row's event key after it: two people let the event come again."""
    return row.decision is Decision.RELEASED and row.event_key is not None and not is_other_content(before)


def takes_key(row: JournalRow, before: JournalRow) -> bool:
    """Returns whether the row takes its event key over, if that is free: a person replayed other content."""
    return row.decision is Decision.REPLAYED and row.event_key is not None and is_other_content(before)


def pack_item(item: OpenItem) -> bytes:
    row = {name: value for name in _NAMES if (value := getattr(item.row, name)) is not None}
    text = orjson.dumps(row)
    return _HEAD.pack(item.last_seq, item.died, min(item.replays, _REPLAYS_MAX)) + text


def unpack_item(raw: bytes, body: bytes) -> OpenItem:
    last_seq, died, replays = _HEAD.unpack_from(raw)
    row: dict[str, Any] = orjson.loads(raw[_HEAD.size :])
    for name in _TIMES:
        if name in row:
            row[name] = datetime.fromisoformat(row[name])
    row["decision"] = Decision(row["decision"])
    if "error_kind" in row:
        row["error_kind"] = ErrorKind(row["error_kind"])
    return OpenItem(JournalRow(**row), body, last_seq, died, replays)


Moment = TypeVar("Moment", int, datetime)
"""A time: microseconds since 1970, or a `datetime`."""


class Life(NamedTuple, Generic[Moment]):
    """The life of an item after its last row.

    ``passed_over``: it died and is open, and holds later events of its entity back no more. ``deaths``: all of them.
    ``replays``: since it was last closed. ``first_died_at``: its first death; ``died_at``: the first since it was last
    closed, so that a replay that fails makes it no younger. ``closed_at``, ``closed_by``: None while it is open; what
    is decided of an item that is closed already (a reversal) doesn't change them.
    """

    decision: Decision
    is_open: bool = True
    passed_over: bool = False
    deaths: int = 0
    replays: int = 0
    first_died_at: Moment | None = None
    died_at: Moment | None = None
    closed_at: Moment | None = None
    closed_by: Decision | None = None

    @property
    def is_dead(self) -> bool:
        return self.decision is Decision.DEAD


def life_after(
    before: Life[Moment] | None, decision: Decision, at: Moment, *, blocking: bool = False, conflict: bool = False
) -> Life[Moment]:
    """Returns the life after the item's next row; a command's own row is no item's.

    :param before: None if nothing is known of it
    :param blocking: the row's `JournalRow.blocking`
    :param conflict: `is_conflict` of the row: such an item has no place in its entity's order that others could pass
    """
    life: Life[Moment] = before or Life(decision)
    if decision not in OPEN_DECISIONS:
        if life.is_open:
            return life._replace(decision=decision, is_open=False, passed_over=False, closed_at=at, closed_by=decision)
        return life._replace(decision=decision)
    died = decision is Decision.DEAD
    died_at, replays = (life.died_at, life.replays) if life.is_open else (None, 0)
    return Life(
        decision=decision,
        passed_over=not blocking and (not conflict if died else life.passed_over),
        deaths=life.deaths + died,
        replays=replays + (decision is Decision.REPLAYED),
        first_died_at=at if died and life.first_died_at is None else life.first_died_at,
        died_at=at if died and died_at is None else died_at,
    )
