"""From what an operator sees to a frozen set: each item with the seq of its last row, at that moment."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from core.clock import to_rfc3339
from dlq.board import Filter, Seen
from dlq.commands import Target
from dlq.selection import store
from dlq.selection.errors import SelectionEmpty, SelectionTooLarge
from dlq.selection.file import SelectionFile
from dlq.selection.model import Selection
from dlq.settings import SelectionSettings

ITEMS_PER_WRITE = 10_000


@dataclass(slots=True)
class Gathered:
    """What a filter matched, 16 bytes an item. ``amounts``: minor units by currency; ``unknown``: items without."""

    item_seqs: array[int] = field(default_factory=lambda: array("q"))
    seen_seqs: array[int] = field(default_factory=lambda: array("q"))
    amounts: Counter[str] = field(default_factory=Counter)
    unknown: int = 0

    def take(self, seen: Seen) -> None:
        self.item_seqs.append(seen.item_seq)
        self.seen_seqs.append(seen.seen_seq)
        if seen.amount_minor is None or seen.currency is None:
            self.unknown += 1
        else:
            self.amounts[seen.currency] += abs(seen.amount_minor)

    def targets(self, begin: int, end: int) -> list[Target]:
        return [Target(*pair) for pair in zip(self.item_seqs[begin:end], self.seen_seqs[begin:end], strict=True)]


def gather(seen: Iterable[Seen], items_max: int) -> Gathered:
    """
    :raises SelectionEmpty: there is nothing
    :raises SelectionTooLarge: there is more than ``items_max``
    """
    gathered = Gathered()
    for one in seen:
        if len(gathered.item_seqs) == items_max:
            raise SelectionTooLarge(items_max)
        gathered.take(one)
    if not gathered.item_seqs:
        raise SelectionEmpty
    return gathered


@dataclass(frozen=True, slots=True)
class Frozen:
    """Who freezes what, when, and how much of the journal was seen."""

    stream: str
    at: datetime
    actor: str
    note: str
    filter: str
    journal_seq: int


def freeze(
    file: SelectionFile,
    gathered: Gathered,
    frozen: Frozen,
    settings: SelectionSettings,
    on_frozen: Callable[[Selection], None],
) -> Selection:
    """Writes it down, whole or not at all; ``on_frozen`` has the last word.

    :raises SelectionsFull: no room, and nothing may leave
    """
    count = len(gathered.item_seqs)
    digest = store.Digest(frozen.stream, frozen.at, frozen.actor)
    with file.writing() as db:
        store.make_room(db, settings, count)
        number = store.insert(db, frozen.at, frozen.actor, frozen.note, frozen.filter, frozen.journal_seq)
        for place in range(0, count, ITEMS_PER_WRITE):
            targets = gathered.targets(place, place + ITEMS_PER_WRITE)
            store.add(db, number, place, targets)
            digest.feed(targets)
        store.seal(db, number, digest.hex(), count, gathered.amounts, gathered.unknown)
        selection = store.read(db, number)
        on_frozen(selection)
        return selection


def filter_text(wanted: Filter) -> str:
    """The filter as JSON, without what it doesn't ask for."""
    told = {name: value for name, value in asdict(wanted).items() if value not in (None, ())}
    return json.dumps(told, default=_plain, sort_keys=True)


def _plain(value: Any) -> str:
    return to_rfc3339(value) if isinstance(value, datetime) else str(value)
