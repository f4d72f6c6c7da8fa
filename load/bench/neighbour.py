"""A work stream beside the ledger's: takes the same events, and breaks whenever it is told to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from core.work import Applied, Outcome, WorkItem
from journal.schema import JournalRow

NAME = "neighbour"
BREAK_VARIABLE = "PAYHOOK_BENCH_NEIGHBOUR_BREAKS"
"""Names a file: while it is there, the stream fails after each commit."""

STREAMS_TOML = f"""
[{NAME}]
source = "kafka"
handler = "{__name__}:build"
derived = {{ {NAME} = "{__name__}:Breaking" }}
tasks_max = 1
"""


class Neighbour:
    version = "neighbour-1"

    def __call__(self, _item: WorkItem) -> Outcome:
        return Applied()


class Breaking:
    """Derives nothing from the stream's journal, and fails while the file is there."""

    def __init__(self, breaks: Path | None) -> None:
        self._breaks = breaks

    @classmethod
    def open(cls, _path: str) -> Breaking:
        named = os.environ.get(BREAK_VARIABLE)
        return cls(Path(named) if named else None)

    def catch_up(self, _reader: object) -> None:
        """Nothing is derived."""

    def follow(self, _rows: Sequence[JournalRow]) -> None:
        """
        :raises RuntimeError: the stream is told to fail
        """
        if self._breaks is not None and self._breaks.exists():
            raise RuntimeError("the neighbour is told to break")


def build() -> Neighbour:
    return Neighbour()
