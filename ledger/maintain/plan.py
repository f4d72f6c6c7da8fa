"""Which files are rewritten together: small ones that follow one another, as many as make one large file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from journal.rewrite import DataFile

FILES_MAX = 5_000
"""Of one rewrite. Its commit names each, and the table's writer reads that commit before its own next one: 1 MB, about
10 ms."""

PASSES_MAX = 4
"""What came of 5,000 files may be small itself, and is put together in the next pass."""

MS_A_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a file is made: one half as large in either is left as it is.

    Fewer small files than ``files_min``, that don't make a large one yet, cost readers less than a rewrite costs.
    """

    rows_max: int
    bytes_max: int
    files_min: int

    def is_small(self, file: DataFile) -> bool:
        return file.rows * 2 < self.rows_max and file.size * 2 < self.bytes_max


def plan(files: Iterable[DataFile], limits: Limits, *, by_day: bool = False) -> list[list[DataFile]]:
    """Groups of small files that follow one another, by their range where they have one, else by age.

    No other file's range lies between two of a group: so files stay apart in the order that readers read in.

    :param by_day: a group's files are all of one day (UTC), so that what came together leaves together
    """
    groups = [_Group(limits, by_day)]
    for file in sorted(files, key=lambda one: (one.first or 0, one.modified_ms, one.name)):
        if not limits.is_small(file):
            groups.append(_Group(limits, by_day))
        elif not groups[-1].takes(file):
            groups.append(_Group(limits, by_day))
            groups[-1].takes(file)
    return [group.files for group in groups if group.is_worth_it]


class _Group:
    """Files that are rewritten together, as they are found."""

    def __init__(self, limits: Limits, by_day: bool) -> None:
        self.files: list[DataFile] = []
        self._limits = limits
        self._by_day = by_day
        self._rows = self._bytes = 0
        self._is_full = False

    @property
    def is_worth_it(self) -> bool:
        return len(self.files) >= (2 if self._is_full else self._limits.files_min)

    def takes(self, file: DataFile) -> bool:
        """Takes it in, if it fits."""
        rows, size = self._rows + file.rows, self._bytes + file.size
        if self.files and not self._fits(file, rows, size):
            return False
        self.files.append(file)
        self._rows, self._bytes = rows, size
        return True

    def _fits(self, file: DataFile, rows: int, size: int) -> bool:
        if self._by_day and file.modified_ms // MS_A_DAY != self.files[-1].modified_ms // MS_A_DAY:
            return False
        self._is_full = len(self.files) == FILES_MAX or rows > self._limits.rows_max or size > self._limits.bytes_max
        return not self._is_full
