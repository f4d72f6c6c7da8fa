"""A table of rows into the index's changes: rows that settle their event at once need no more than their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from core.decision import Decision
from journal.index_changes import Changes
from journal.reader import JournalReader

SETTLED_COLUMNS = (
    "seq",
    "first",
    "decision",
    "entity_key",
    "event_key",
    "content_sha256",
    "content_version",
    "original_content_sha256",
    "fact_key",
    "fact_sha256",
    "row_hash",
)
_NAMES = tuple(name for name in SETTLED_COLUMNS if name not in ("first", "row_hash"))
_SETTLES = pa.array([Decision.APPLIED, Decision.IGNORED, Decision.DUPLICATE, Decision.DUPLICATE_FACT], pa.string())
_APPLIED, _DUPLICATE = Decision.APPLIED.value, Decision.DUPLICATE.value


def reflect(table: pa.Table, reader: JournalReader, changes: Changes) -> None:
    """Takes in rows of `SETTLED_COLUMNS` in their order; the whole of a row is read where it leaves something open,
    or ends what an earlier one left.
    """
    settled = pc.and_(table["first"], pc.is_in(table["decision"], value_set=_SETTLES))
    others = iter(reader.rows_of(table["seq"].filter(pc.invert(settled)).to_pylist()))
    for is_settled, row in zip(settled.to_pylist(), _rows(table), strict=True):
        if is_settled:
            _reflect_settled(row, changes)
        else:
            changes.reflect(next(others))


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """A table of before the later column has none of it."""
    count = table.num_rows
    there = set(table.column_names)
    return zip(*(table[name].to_pylist() if name in there else [None] * count for name in _NAMES), strict=True)


def _reflect_settled(row: tuple[Any, ...], changes: Changes) -> None:
    seq, decision, entity_key, event_key, content, version, original, fact_key, fact = row
    holds = event_key is not None and decision != _DUPLICATE
    if holds and original is not None:
        changes.hold_original(event_key, original)
    changes.reflect_settled(
        seq,
        entity_key,
        (event_key, content or "", version or 0) if holds else None,
        None if fact_key is None else (fact_key, fact or ""),
        applied=decision == _APPLIED,
    )
