"""Cuts a ledger into portions that can be looked at apart: files of the journal, and of the postings in their range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.verify.survey.files import HIGHEST, LOWEST, FileRange

ROWS_PER_PORTION = 250_000
"""A second's work: progress is told as often, and a worker that is ready early never waits long."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Names of files, in seq order. ``since`` and ``until`` are the ends of the journal's range in them."""

    journal: tuple[str, ...]
    postings: tuple[str, ...]
    since: int
    until: int
    rows: int


def portions(journal: Sequence[FileRange], postings: Sequence[FileRange]) -> list[Portion]:
    """Every file of the journal is in one portion; files whose ranges overlap are in the same one.

    Both are given by their first seq.
    """
    found: list[list[FileRange]] = []
    rows = highest = 0
    for one in journal:
        if not found or (rows >= ROWS_PER_PORTION and one.first > highest):
            found.append([])
            rows, highest = 0, LOWEST
        found[-1].append(one)
        rows, highest = rows + one.rows, max(highest, one.last)
    return [_portion(some, postings, at, len(found)) for at, some in enumerate(found)]


def _portion(files: Sequence[FileRange], postings: Sequence[FileRange], at: int, count: int) -> Portion:
    """What lies before the first row, or after the last one, belongs to the first and the last portion."""
    since = LOWEST if at == 0 else files[0].first
    until = HIGHEST if at == count - 1 else max(one.last for one in files)
    names = tuple(one.name for one in files)
    reached = tuple(one.name for one in postings if one.first <= until and one.last >= since)
    return Portion(names, reached, since, until, sum(one.rows for one in files))
