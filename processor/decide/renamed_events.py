"""Names events that a person has replayed as their adapter names them now: dead ones, and ignored ones whose type a
handler knows by now.

Their receiver may have run another version, or the adapter didn't know their type yet. A fact that was named otherwise
was never looked up, so it could be booked twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from core.errors import Unparseable
from core.event import POISON_TYPE, Mode
from journal.index_changes import EMPTY_SHA256
from journal.open_item import OpenItem
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.acceptance import NONE_IGNORED, ChangesSoFar, IgnoredEvents
from processor.decide.ports import AppliedUpto, BatchLookups
from processor.errors.classify import Failure, catch_event_error
from processor.source.records import get_raw_name
from providers.reread import CurrentNames, MoneyReader, OtherKey, read_current_names


@dataclass(frozen=True, slots=True)
class Accepted:
    """An event that an order acts on. ``in_place``: it runs before all that came later of its entity. ``left``: the
    entity that it was one of and isn't any more, by the names that its adapter gives it now."""

    item: OpenItem
    in_place: bool = False
    left: str | None = None


def rename_by_adapter(adapter: object, row: JournalRow, body: bytes) -> JournalRow:
    """Returns the row with its entity and its fact as the adapter names them.

    :raises Unparseable: the adapter can't read it; says why
    :raises OtherKey: it has another key by now
    """
    names = read_current_names(
        cast(MoneyReader, adapter),
        row.event_key or "",
        get_raw_name(row, "event_type"),
        body,
        cast(Mode, row.mode),
        row.tenant,
    )
    return _apply_names(names, row)


def rename_if_readable(adapters: Mapping[str, object], row: JournalRow, body: bytes) -> JournalRow:
    """Renames a row as `rename_by_adapter` does; what no adapter can read, or has no body any more, keeps its names.

    An event with another key by now keeps its key and its entity, and gets its fact: under the new key the same money
    is a duplicate by that.
    """
    adapter = adapters.get(row.provider or "")
    has_body = bool(body) or row.body_sha256 == EMPTY_SHA256
    if adapter is None or not has_body or row.event_key is None or row.event_type == POISON_TYPE:
        return row
    named = catch_event_error(_named_or_kept, adapter, row, body)
    return row if isinstance(named, Failure) else named


def _named_or_kept(adapter: object, row: JournalRow, body: bytes) -> JournalRow:
    try:
        return rename_by_adapter(adapter, row, body)
    except OtherKey as other:
        return _apply_names(other.names, row)
    except Unparseable:
        return row


def find_passed_items(rows: Iterable[JournalRow], applied_upto: AppliedUpto, meanwhile: ChangesSoFar) -> set[int]:
    """Finds the items that a later event of their entity was applied before."""
    items = [(row.entity_key or "", row.item_seq) for row in rows]
    first: dict[str, int] = {}
    for entity, item_seq in items:
        first[entity] = min(first.get(entity, item_seq), item_seq)
    applied = dict(applied_upto(first)) if first else {}
    for entity in first:
        applied[entity] = max(applied.get(entity, 0), meanwhile.applied.get(entity, 0))
    return {item_seq for entity, item_seq in items if applied[entity] > item_seq}


def _apply_names(names: CurrentNames, row: JournalRow) -> JournalRow:
    entity_key = names.entity_key or row.entity_key
    return replace(row, entity_key=entity_key, fact_key=names.fact_key, fact_sha256=names.fact_sha256)


def find_ignored_events(known: BatchLookups, targets: Iterable[ItemTarget], control_topic: str) -> IgnoredEvents:
    """Finds those of an order's targets that aren't open: the rows that were seen, with their bodies."""
    closed = sorted({target.seen_seq for target in targets if known.index.open_item(target.item_seq) is None})
    rows = {seq: row for seq, row in known.rows_of(closed).items() if row.topic != control_topic} if closed else {}
    if not rows:
        return NONE_IGNORED
    bodies = known.bodies_of({row.body_sha256 for row in rows.values() if row.body_sha256 is not None})
    by_row = {seq: OpenItem(row, bodies.get(row.body_sha256 or "", b""), seq) for seq, row in rows.items()}
    first: dict[str, int] = {}
    for row in rows.values():
        entity = row.entity_key or ""
        first[entity] = min(first.get(entity, row.item_seq), row.item_seq)
    return IgnoredEvents(by_row, dict(known.applied_upto(first)))
