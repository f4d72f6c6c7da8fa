"""Marks: the next offset of each topic partition, as every commit carries them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from core.routing import is_sparse
from journal.errors import BatchInvalid
from journal.schema import JournalRow

Marks: TypeAlias = dict[str, dict[int, int]]
Span: TypeAlias = tuple[int, int]
"""Offsets from the first to before the second."""


def marks_to_json(marks: Mapping[str, Mapping[int, int]]) -> str:
    return json.dumps(
        {
            topic: {str(number): until for number, until in sorted(partitions.items())}
            for topic, partitions in sorted(marks.items())
        },
        separators=(",", ":"),
    )


def marks_from_json(text: str) -> Marks:
    return {
        topic: {int(number): until for number, until in partitions.items()}
        for topic, partitions in json.loads(text).items()
    }


def with_starts(marks: Marks, starts: Marks) -> Marks:
    """``marks`` plus a start for each partition that they don't know yet."""
    return {topic: {**starts.get(topic, {}), **marks.get(topic, {})} for topic in {**marks, **starts}}


def lasts_after(lasts: Marks, rows: Sequence[JournalRow]) -> Marks:
    """The seq of the row that decided each partition's last offset, after ``rows``, which are in seq order."""
    after = {topic: dict(partitions) for topic, partitions in lasts.items()}
    highest: dict[tuple[str, int], int] = {}
    for row in rows:
        if row.first and row.offset >= highest.get((row.topic, row.partition), 0):
            highest[row.topic, row.partition] = row.offset
            after.setdefault(row.topic, {})[row.partition] = row.seq
    return after


def check_movement(rows: Sequence[JournalRow], before: Marks, after: Marks) -> None:
    """Of a sparse topic (`core.routing.is_sparse`) the mark goes with the last of its offsets, whatever lies between.

    :raises BatchInvalid: first rows and the marks' movement don't name the same offsets, each once
    """
    if _partitions(before) != _partitions(after):
        changed = sorted(_partitions(before) ^ _partitions(after))
        raise BatchInvalid(f"the marks of {changed[:5]} came or went; partitions are named when an epoch begins")
    decided: dict[tuple[str, int], list[Span]] = {}
    for row in rows:
        if row.first != (row.item_seq == row.seq):
            raise BatchInvalid(f"row {row.seq} is a first row or isn't, but its item is {row.item_seq}")
        if row.first:
            decided.setdefault((row.topic, row.partition), []).append(_span(row))
    for topic, number in _partitions(after):
        since, until = before[topic][number], after[topic][number]
        spans = sorted(decided.pop((topic, number), []))
        if until < since or not _is_movement(spans, since, until, gaps=is_sparse(topic)):
            raise BatchInvalid(f"{topic}[{number}] moves from {since} to {until}, first rows are for {spans[:5]}…")
    if decided:
        raise BatchInvalid(f"first rows for partitions without a mark: {sorted(decided)[:5]}")


def _span(row: JournalRow) -> Span:
    """The offsets that a first row decides: from the first of them to the one after the last."""
    return row.offset, row.offset + 1 if row.offset_until is None else row.offset_until


def _is_movement(spans: Sequence[Span], since: int, until: int, *, gaps: bool) -> bool:
    """Whether spans follow one another from ``since`` to ``until``, each offset once; ``gaps``: with some between."""
    at = since
    for start, end in spans:
        if start < at or end <= start or (start > at and not gaps):
            return False
        at = end
    return at == until


def _partitions(marks: Marks) -> set[tuple[str, int]]:
    return {(topic, number) for topic, partitions in marks.items() for number in partitions}
