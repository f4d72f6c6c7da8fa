"""What an item must be like, as a value and as SQL over the board's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from core.clock import to_micros
from core.decision import ErrorKind
from core.errors import PayhookError
from dlq.board.item import ItemState, Mark

ITEMS_MAX = 5_000
TEXT_CHARS_MAX = 200


class FilterInvalid(PayhookError):
    """A filter, or the place where a page goes on, that can't be one."""

    def __init__(self, what: str, problem: str) -> None:
        self.what = what
        self.problem = problem
        super().__init__(f"{what}: {problem}")


class Sort(StrEnum):
    """The order of a list. Items of one moment, or one amount, stand in the order of their numbers."""

    OLDEST = "oldest"
    NEWEST = "newest"
    LARGEST = "largest"
    """By amount in minor units, whatever the currency; those whose amount nobody knows come last."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What is wanted; an empty field wants nothing. Of several values in one field any will do.

    ``since`` (counts) and ``until`` (doesn't) are held against `Item.since`. ``entity`` is a whole entity key,
    ``text`` a part of the event's or entity's key, of the error's class or its message, in any case of ASCII letters.
    """

    kinds: tuple[ErrorKind, ...] = ()
    classes: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    entity: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    fingerprint: str | None = None
    states: tuple[ItemState, ...] = (ItemState.OPEN,)
    marks: tuple[Mark, ...] = ()
    accounts: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    items: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.items) > ITEMS_MAX:
            raise FilterInvalid("items", f"{len(self.items)} are named, {ITEMS_MAX} at most are taken")
        if self.text is not None and len(self.text) > TEXT_CHARS_MAX:
            raise FilterInvalid("text", f"it has {len(self.text)} characters, {TEXT_CHARS_MAX} at most are taken")
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise FilterInvalid(name, "its time zone is missing")

    @property
    def wanted_states(self) -> tuple[ItemState, ...]:
        return tuple(dict.fromkeys(self.states)) or tuple(state for state in ItemState if state != ItemState.SETTLED)


@dataclass(frozen=True, slots=True)
class Where:
    """A condition and its values."""

    sql: str
    values: tuple[Any, ...] = ()


def in_cube(wanted: Filter) -> bool:
    """Whether the table of counts can answer: it knows nothing of single items, nor of moments within an hour."""
    return not (wanted.entity or wanted.text or wanted.since or wanted.until or wanted.items) and not (
        wanted.accounts or wanted.tenants
    )


def where(wanted: Filter, states: Sequence[ItemState] | None = None) -> Where:
    """The filter as a condition on ``items``, or on ``cube`` where `in_cube`; ``states`` in place of its own."""
    parts = [_one_of("state", wanted.wanted_states if states is None else states)]
    for column, listed in (
        ("kind", wanted.kinds),
        ("error_class", wanted.classes),
        ("provider", wanted.providers),
        ("event_type", wanted.types),
        ("mark", wanted.marks),
        ("account", wanted.accounts),
        ("tenant", wanted.tenants),
        ("item_seq", wanted.items),
    ):
        if listed:
            parts.append(_one_of(column, listed))
    for column, value in (("entity_key", wanted.entity), ("fingerprint", wanted.fingerprint)):
        if value is not None:
            parts.append(Where(f"{column} = ?", (value,)))
    if wanted.since is not None:
        parts.append(Where("since_at >= ?", (to_micros(wanted.since),)))
    if wanted.until is not None:
        parts.append(Where("since_at < ?", (to_micros(wanted.until),)))
    if wanted.text:
        parts.append(_with_text(wanted.text))
    return Where(" AND ".join(part.sql for part in parts), tuple(value for part in parts for value in part.values))


def _one_of(column: str, listed: Sequence[Any]) -> Where:
    texts = tuple(value if isinstance(value, int) else str(value) for value in listed)
    if len(texts) == 1:
        return Where(f"{column} = ?", texts)
    return Where(f"{column} IN ({', '.join('?' * len(texts))})", texts)


def _with_text(text: str) -> Where:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    columns = ("event_key", "entity_key", "error_class", "message")
    sql = " OR ".join(f"{column} LIKE ? ESCAPE '\\'" for column in columns)
    return Where(f"({sql})", (f"%{escaped}%",) * len(columns))
