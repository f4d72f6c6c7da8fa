"""Finds ignored, or unknown, events that may be selected: an event is so if its last decision says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import reduce
from operator import and_
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.keys import spellings_of
from core.location import Location
from core.routing import JOURNAL_TOPIC
from dead_letters.dead_letter_index import Amounts
from dead_letters.item import FrozenItem
from dead_letters.listing import Filter, FilterInvalid
from journal.lake import has_table, open_table
from journal.reader import read_rows
from journal.shards import is_item_of, shard_at
from journal.target import hash_head

IGNORED_MAX = 100_000
"""Most events of one selection: the body of each is read, for its amount."""

BODIES_AT_ONCE = 2_000
OWN_PROVIDER = "payhook"
"""Commands that were refused are ignored too; what a stream was fed of another one's journal is no command."""

_COLUMNS = ["seq", "item_seq", "row_hash", "entity_key", "partition", "provider", "event_type", "body_sha256"]
_NOT_OF_IGNORED = ("kinds", "classes", "text", "fingerprint", "marks")


class _Row(NamedTuple):
    seq: int
    item_seq: int
    row_hash: str
    entity_key: str | None
    partition: int
    provider: str
    event_type: str
    body_sha256: str | None


class IgnoredEventFinder:
    """Finds ignored or unknown events in one stream's journal. ``bodies``: those of some hashes that are kept."""

    def __init__(
        self, journal: Location, bodies: Callable[[Collection[str]], Mapping[str, bytes]], amounts: Amounts | None
    ) -> None:
        self._journal = str(journal)
        self._bodies = bodies
        self._amounts = amounts

    def find(self, wanted: Filter) -> Iterator[FrozenItem]:
        """Finds the events that match, in item order, one more than `IGNORED_MAX` at most. ``wanted`` has one state:
        ignored, or unknown.

        :raises FilterInvalid: it asks for what only a dead event has
        """
        for name in _NOT_OF_IGNORED:
            if getattr(wanted, name):
                raise FilterInvalid(name, f"an {wanted.states[0].value} event has none; leave it out")
        rows = self._rows(wanted)[: IGNORED_MAX + 1]
        for begin in range(0, len(rows), BODIES_AT_ONCE):
            some = rows[begin : begin + BODIES_AT_ONCE]
            bodies = self._bodies({row.body_sha256 for row in some if row.body_sha256 is not None})
            yield from (self._make_frozen_item(row, bodies.get(row.body_sha256 or "")) for row in some)

    def _rows(self, wanted: Filter) -> list[_Row]:
        if not has_table(self._journal):
            return []
        table, shard = open_table(self._journal), shard_at(self._journal)
        matching = read_rows(table, _build_condition(wanted), ["seq", "item_seq"]).sort_by("item_seq")
        seqs, items = matching["seq"].to_numpy(), matching["item_seq"].to_numpy()
        # An item that was retried has its outcome in its last row.
        later = read_rows(table, ~pc.field("first"), ["seq", "item_seq"])
        later_seqs, later_items = later["seq"].to_numpy(), later["item_seq"].to_numpy()
        ours = np.isin(later_items, items)
        last = dict(zip(items.tolist(), seqs.tolist(), strict=True))
        for item_seq, seq in zip(later_items[ours].tolist(), later_seqs[ours].tolist(), strict=True):
            last[item_seq] = max(seq, last[item_seq])
        kept = [seq for item_seq, seq in zip(items.tolist(), seqs.tolist(), strict=True) if last[item_seq] == seq]
        wanted_seqs = pc.field("seq").isin(pa.array(kept[: IGNORED_MAX + 1], pa.int64()))
        rows = [_Row(**row) for row in read_rows(table, wanted_seqs, _COLUMNS).sort_by("item_seq").to_pylist()]
        return [row for row in rows if is_item_of(shard, row)]

    def _make_frozen_item(self, row: _Row, body: bytes | None) -> FrozenItem:
        money = None
        if body is not None and self._amounts is not None:
            money = self._amounts(row.provider, row.event_type, body)
        amount, currency = (None, None) if money is None else (money.amount_minor, money.currency)
        return FrozenItem(row.item_seq, row.seq, hash_head(row.row_hash), amount, currency, row.entity_key)


def _build_condition(wanted: Filter) -> pc.Expression:
    parts = [
        pc.field("decision") == wanted.states[0].value,
        pc.field("event_key").is_valid(),
        (pc.field("provider") != OWN_PROVIDER) | pc.starts_with(pc.field("topic"), JOURNAL_TOPIC),
    ]
    for column, values in (
        ("provider", wanted.providers),
        ("event_type", spellings_of(wanted.types)),
        ("account", spellings_of(wanted.accounts)),
        ("tenant", wanted.tenants),
    ):
        if values:
            parts.append(pc.field(column).isin(pa.array(values, pa.string())))
    if wanted.receiver is not None:
        parts.append(pc.ends_with(pc.field("topic"), f"/{wanted.receiver}"))
    if wanted.items:
        parts.append(pc.field("item_seq").isin(pa.array(wanted.items, pa.int64())))
    if wanted.entity is not None:
        parts.append(pc.field("entity_key") == wanted.entity)
    if wanted.since is not None:
        parts.append(pc.field("decided_at") >= pa.scalar(wanted.since, pa.timestamp("us", "UTC")))
    if wanted.until is not None:
        parts.append(pc.field("decided_at") < pa.scalar(wanted.until, pa.timestamp("us", "UTC")))
    return reduce(and_, parts)
