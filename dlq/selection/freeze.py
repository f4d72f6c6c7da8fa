"""From what an operator sees to a frozen set: each item with its last row, at that moment."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from core.clock import to_rfc3339
from dlq.command import HASH_CHARS
from dlq.commands import Target
from dlq.index import Filter, Seen
from dlq.selection import store
from dlq.selection.errors import SelectionEmpty, SelectionTooLarge
from dlq.selection.file import SelectionFile
from dlq.selection.model import Selection
from dlq.settings import SelectionSettings

ITEMS_PER_WRITE = 10_000


@dataclass(slots=True)
class Gathered:
    """What a filter matched, 24 bytes an item. ``amounts``: minor units by currency; ``unknown``: items without."""

    item_seqs: array[int] = field(default_factory=lambda: array("q"))
    seen_seqs: array[int] = field(default_factory=lambda: array("q"))
    seen_hashes: array[int] = field(default_factory=lambda: array("Q"))
    amounts: Counter[str] = field(default_factory=Counter)
    unknown: int = 0

    def take(self, seen: Seen, target: Target | None = None) -> None:
        """``target``: the item as the operator saw it before; None: as it is now."""
        target = target or Target(seen.item_seq, seen.seen_seq, seen.seen_hash)
        self.item_seqs.append(target.item_seq)
        self.seen_seqs.append(target.seen_seq)
        self.seen_hashes.append(int(target.seen_hash, 16))
        if seen.amount_minor is None or seen.currency is None:
            self.unknown += 1
        else:
            self.amounts[seen.currency] += abs(seen.amount_minor)

    def targets(self, begin: int, end: int) -> list[Target]:
        some = (column[begin:end] for column in (self.item_seqs, self.seen_seqs, self.seen_hashes))
        return [
            Target(item_seq, seen_seq, f"{head:0{HASH_CHARS}x}") for item_seq, seen_seq, head in zip(*some, strict=True)
        ]


def gather(seen: Iterable[Seen], items_max: int, as_seen: Mapping[int, Target]) -> Gathered:
    """``as_seen``: items as they were shown before. One that has another row by now is refused when it is decided.

    :raises SelectionEmpty: there is nothing
    :raises SelectionTooLarge: there is more than ``items_max``
    """
    gathered = Gathered()
    for one in seen:
        if len(gathered.item_seqs) == items_max:
            raise SelectionTooLarge(items_max)
        gathered.take(one, as_seen.get(one.item_seq))
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
    lineage: str


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
    digest = store.Digest(frozen.stream, frozen.lineage, frozen.at, frozen.actor)
    with file.writing() as db:
        store.make_room(db, settings, count)
        number = store.insert(
            db, frozen.at, frozen.actor, frozen.note, frozen.filter, frozen.journal_seq, frozen.lineage
        )
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
