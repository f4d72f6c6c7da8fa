"""From what an operator sees to a frozen set: each item with its last row, at that moment."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from core.clock import to_rfc3339
from dlq.commands import Target
from dlq.frozen import SCHEMA, each_line
from dlq.index import Filter, Seen
from dlq.selection.model import SelectionEmpty, SelectionTooLarge


@dataclass(slots=True)
class Gathered:
    """What a filter matched. ``amounts``: minor units by currency; ``unknown``: items without."""

    columns: tuple[list[int], list[int], list[int]] = field(default_factory=lambda: ([], [], []))
    entities: list[str | None] = field(default_factory=list)
    amounts: Counter[str] = field(default_factory=Counter)
    unknown: int = 0

    def take(self, seen: Seen, target: Target | None = None) -> None:
        """``target``: the item as the operator saw it before; None: as it is now."""
        seen_seq, seen_hash = (target or seen).seen_seq, (target or seen).seen_hash
        for column, value in zip(self.columns, (seen.item_seq, seen_seq, int(seen_hash, 16)), strict=True):
            column.append(value)
        self.entities.append(seen.entity_key)
        if seen.amount_minor is None or seen.currency is None:
            self.unknown += 1
        else:
            self.amounts[seen.currency] += abs(seen.amount_minor)

    @property
    def count(self) -> int:
        return len(self.entities)

    def table(self) -> pa.Table:
        """As a selection's file holds it."""
        columns = [*self.columns, list(each_line(iter(self.entities)))]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)


def gather(seen: Iterable[Seen], items_max: int, as_seen: Mapping[int, Target]) -> Gathered:
    """``as_seen``: items as they were shown before. One that has another row by now is refused when it is decided.

    :raises SelectionEmpty: there is nothing
    :raises SelectionTooLarge: there is more than ``items_max``
    """
    gathered = Gathered()
    for one in seen:
        if gathered.count == items_max:
            raise SelectionTooLarge(items_max)
        gathered.take(one, as_seen.get(one.item_seq))
    if not gathered.count:
        raise SelectionEmpty
    return gathered


def filter_text(wanted: Filter) -> str:
    """The filter as JSON, without what it doesn't ask for."""
    told = {name: value for name, value in asdict(wanted).items() if value not in (None, ())}
    return json.dumps(told, default=_plain, sort_keys=True)


def _plain(value: Any) -> str:
    return to_rfc3339(value) if isinstance(value, datetime) else str(value)
