"""Folds an item's rows, one after the other, into its entry in the index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from core.decision import Decision
from core.event import POISON_TYPE
from core.work import postings_from_json
from dead_letters.fingerprint import ErrorCause, cause_of
from dead_letters.item import COLUMNS, OPEN_STATES, ItemEntry, ItemState, Mark, values
from journal.journals import OfEntity
from journal.open_item import CONFLICT_CLASSES, Life, life_after
from journal.target import hash_head

MESSAGE_CHARS_MAX = 300
REASON_CHARS_MAX = 300

ROW_COLUMNS = (
    *("seq", "item_seq", "first", "topic", "partition", "offset", "event_key", "entity_key", "provider", "account"),
    *("event_type", "tenant", "decision", "attempt", "due_at", "reason", "blocking", "cause_seq", "actor"),
    *("received_at", "decided_at", "body_sha256", "error_class", "error_code", "error_message", "error_stack"),
    *("error_kind", "handler_version", "postings", "row_hash"),
)
"""Columns of the journal that are read; a `IndexedRow` has them as attributes, times in microseconds."""

_COMMANDS = frozenset({Decision.REPLAYED, Decision.PURGED, Decision.RESOLVED, Decision.RELEASED, Decision.REVERSED})


class IndexedRow(OfEntity, Protocol):
    def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class FoldedItem:
    entry: ItemEntry
    cause: ErrorCause | None = None


def is_command(row: IndexedRow) -> bool:
    return bool(row.first) and row.decision in _COMMANDS


def fold_row(before: ItemEntry | None, row: IndexedRow) -> FoldedItem:
    """Folds ``row`` into its item; ``before`` is None if nothing is known of it. Rows come in the order of their
    seq."""
    entry = _begin_entry(row) if before is None else ItemEntry(*values(before))
    decision = Decision(row.decision)
    life = life_after(None if before is None else _life_of(before), decision, row.decided_at)
    entry.seen_seq, entry.seen_hash = row.seq, hash_head(row.row_hash)
    entry.decision, entry.last_at = decision.value, row.decided_at
    entry.due_at, entry.cause_seq, entry.actor = row.due_at, row.cause_seq, row.actor
    _take_identity(entry, row)
    entry.reason = _cut_text(row.reason, REASON_CHARS_MAX)
    entry.blocking = int(row.blocking)
    entry.attempts = row.attempt + 1 if decision is Decision.DEAD else row.attempt
    cause = None
    if row.error_class is not None:
        cause = _take_error(entry, row)
    if row.postings:
        _take_amount(entry, row.postings)
    _take_life(entry, life)
    return FoldedItem(entry, cause)


_FROM_ROW = (
    *("item_seq", "decision", "provider", "account", "tenant", "event_type", "event_key", "entity_key"),
    *("topic", "partition", "offset", "body_sha256", "received_at"),
)
_COUNTED = ("attempts", "times_died", "replays", "blocking", "priced")


def _begin_entry(row: IndexedRow) -> ItemEntry:
    known: dict[str, Any] = dict.fromkeys(COLUMNS) | dict.fromkeys(_COUNTED, 0)
    known |= {name: getattr(row, name) for name in _FROM_ROW}
    known |= {"seen_seq": row.seq, "seen_hash": hash_head(row.row_hash), "state": ItemState.WAITING}
    return ItemEntry(**known | {"since_at": row.decided_at, "last_at": row.decided_at})


def _take_identity(entry: ItemEntry, row: IndexedRow) -> None:
    entry.event_key, entry.entity_key, entry.event_type = row.event_key, row.entity_key, row.event_type
    entry.account = row.account
    if row.event_type == POISON_TYPE or row.event_key is None:
        entry.mark = Mark.POISON
    elif entry.mark == Mark.POISON:
        entry.mark = None


def _take_error(entry: ItemEntry, row: IndexedRow) -> ErrorCause:
    cause = cause_of(row.error_class, row.error_code, row.error_message, row.error_stack)
    entry.kind, entry.error_class, entry.error_code = row.error_kind, row.error_class, row.error_code
    entry.message = _cut_text(row.error_message, MESSAGE_CHARS_MAX)
    entry.fingerprint = cause.fingerprint
    if entry.mark != Mark.POISON:
        is_conflict = row.error_class in CONFLICT_CLASSES and row.handler_version is None
        entry.mark = Mark.CONFLICT if is_conflict else None
    return cause


def _take_amount(entry: ItemEntry, postings: str) -> None:
    lines = postings_from_json(postings)
    if lines:
        money = lines[0].money
        entry.amount_minor, entry.currency, entry.priced = money.amount_minor, money.currency, 1


_CLOSED: Mapping[Decision, ItemState] = {
    Decision.PURGED: ItemState.PURGED,
    Decision.RESOLVED: ItemState.RESOLVED,
    Decision.RELEASED: ItemState.RELEASED,
}
_CLOSED_BY = {state.value: decision for decision, state in _CLOSED.items()}


def _life_of(entry: ItemEntry) -> Life[int]:
    return Life(
        decision=Decision(entry.decision),
        is_open=entry.state in OPEN_STATES,
        deaths=entry.times_died,
        replays=entry.replays,
        first_died_at=entry.first_dead_at,
        closed_at=entry.closed_at,
        closed_by=_CLOSED_BY.get(entry.state),
    )


def _take_life(entry: ItemEntry, life: Life[int]) -> None:
    entry.times_died, entry.replays, entry.closed_at = life.deaths, life.replays, life.closed_at
    entry.first_dead_at = life.first_died_at
    entry.since_at = life.first_died_at if life.first_died_at is not None else entry.since_at
    if life.is_open:
        entry.state = ItemState.OPEN if life.is_dead else ItemState.WAITING
    else:
        entry.state = _state_closed(life)


def _state_closed(life: Life[int]) -> ItemState:
    by_a_person = None if life.closed_by is None else _CLOSED.get(life.closed_by)
    return by_a_person or (ItemState.REPLAYED if life.deaths else ItemState.SETTLED)


def _cut_text(text: str | None, chars_max: int) -> str | None:
    return text if text is None or len(text) <= chars_max else text[: chars_max - 1] + "…"
