"""How far something that is derived from a journal goes, and whether it is of this journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from journal.errors import Refused


@dataclass(frozen=True, slots=True)
class Position:
    """The last row that is reflected, its hash, and the lineage of its journal.

    Code of before kept no lineage; where the hash isn't known either, it is empty too.
    """

    lineage: str
    seq: int
    row_hash: str


class Journal(Protocol):
    """What is asked of a `journal.reader.JournalReader`."""

    @property
    def last_seq(self) -> int: ...
    @property
    def lineage(self) -> str: ...
    def row_hash_at(self, seq: int) -> str | None: ...


class JournalOlder(Refused):
    """Something that was derived from this journal knows rows that the journal doesn't have: an older copy was put
    back. ``ahead``: how many; 0: the journal has as many, and they are others.
    """

    def __init__(self, what: str, seq: int, last_seq: int) -> None:
        self.what = what
        self.seq = seq
        self.last_seq = last_seq
        self.ahead = max(0, seq - last_seq)
        problem = (
            f"is {self.ahead} rows ahead of its journal: it reflects row {seq}, the journal ends with {last_seq}"
            if self.ahead
            else f"reflects another row {seq} than its journal holds"
        )
        self.problem = f"{what} {problem}"
        super().__init__(
            f"{self.problem}. An older copy of the journal was put back, or commits were lost: put the newest back, "
            "or see `payhook recover`."
        )

    def __reduce__(self) -> tuple[type[JournalOlder], tuple[str, int, int]]:
        return JournalOlder, (self.what, self.seq, self.last_seq)


def follows(what: str, position: Position, journal: Journal) -> bool:
    """Whether ``what`` may go on from its position; if not, it is of another journal and is made again.

    A row's hash holds its number, its commit and its time: where it agrees, all rows before are the same.

    :raises JournalOlder: it is of this very journal, and the journal isn't what it was
    """
    if position.seq == 0:
        return True
    if position.seq <= journal.last_seq and position.row_hash in ("", journal.row_hash_at(position.seq)):
        return True
    if position.lineage and position.lineage == journal.lineage:
        raise JournalOlder(what, position.seq, journal.last_seq)
    return False
