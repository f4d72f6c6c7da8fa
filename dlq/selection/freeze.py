"""From what an operator sees to a frozen set: each item with its last row, at that moment."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import pyarrow as pa

from core.clock import to_rfc3339
from dlq.command import Target
from dlq.frozen import SCHEMA, each_line
from dlq.index import Filter, Seen
from dlq.selection.model import SelectionEmpty, SelectionTooLarge


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a filter matched, as a selection's file holds it. ``amounts``: minor units by currency; ``unknown``: items
    without."""

    table: pa.Table
    amounts: Mapping[str, int]
    unknown: int


def gather(seen: Iterable[Seen], items_max: int, as_seen: Mapping[int, Target]) -> Gathered:
    """``as_seen``: items as they were shown before. One that has another row by now is refused when it is decided.

    :raises SelectionEmpty: there is nothing
    :raises SelectionTooLarge: there is more than ``items_max``
    """
    every = list(islice(seen, items_max + 1))
    if len(every) > items_max:
        raise SelectionTooLarge(items_max)
    if not every:
        raise SelectionEmpty
    shown = [as_seen.get(one.item_seq, one) for one in every] if as_seen else every
    columns = (
        [one.item_seq for one in every],
        [one.seen_seq for one in shown],
        [int(one.seen_hash, 16) for one in shown],
        list(each_line(one.entity_key for one in every)),
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    amounts: Counter[str] = Counter()
    unknown = 0
    for one in every:
        if one.amount_minor is None or one.currency is None:
            unknown += 1
        else:
            amounts[one.currency] += abs(one.amount_minor)
    return Gathered(pa.Table.from_arrays(arrays, schema=SCHEMA), dict(amounts), unknown)


def filter_text(wanted: Filter) -> str:
    """The filter as JSON, without what it doesn't ask for."""
    reported = {name: value for name, value in asdict(wanted).items() if value not in (None, ())}
    return json.dumps(reported, default=_plain, sort_keys=True)


def _plain(value: Any) -> str:
    return to_rfc3339(value) if isinstance(value, datetime) else str(value)
