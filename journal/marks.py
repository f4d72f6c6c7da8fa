"""Marks: the next offset of each topic partition, as every commit carries them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from core.routing import is_sparse
from journal.errors import BatchInvalid
from journal.schema import JournalRow

Marks: TypeAlias = dict[str, dict[int, int]]


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


def check_movement(rows: Sequence[JournalRow], before: Marks, after: Marks) -> None:
    """Of a sparse topic (`core.routing.is_sparse`) the mark goes with the last of its offsets, whatever lies between.

    :raises BatchInvalid: first rows and the marks' movement don't name the same offsets, each once
    """
    if _partitions(before) != _partitions(after):
        changed = sorted(_partitions(before) ^ _partitions(after))
        raise BatchInvalid(f"the marks of {changed[:5]} came or went; partitions are named when an epoch begins")
    decided: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        if row.first != (row.item_seq == row.seq):
            raise BatchInvalid(f"row {row.seq} is a first row or isn't, but its item is {row.item_seq}")
        if row.first:
            decided.setdefault((row.topic, row.partition), []).append(row.offset)
    for topic, number in _partitions(after):
        since, until = before[topic][number], after[topic][number]
        offsets = sorted(decided.pop((topic, number), []))
        whole = _is_movement(offsets, since, until) if is_sparse(topic) else offsets == list(range(since, until))
        if until < since or not whole:
            raise BatchInvalid(f"{topic}[{number}] moves from {since} to {until}, first rows are for {offsets[:5]}…")
    if decided:
        raise BatchInvalid(f"first rows for partitions without a mark: {sorted(decided)[:5]}")


def _is_movement(offsets: Sequence[int], since: int, until: int) -> bool:
    """Whether offsets with gaps between them, each once, move a mark from ``since`` to ``until``."""
    if not offsets:
        return since == until
    return since <= offsets[0] and offsets[-1] == until - 1 and len(set(offsets)) == len(offsets)


def _partitions(marks: Marks) -> set[tuple[str, int]]:
    return {(topic, number) for topic, partitions in marks.items() for number in partitions}
