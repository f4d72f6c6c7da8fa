"""What is maintained: the tables of each work stream, and the marks that hold old files back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from deltalake import DeltaTable

from core.routing import JOURNAL_TOPIC
from journal.place import Place
from journal.reader import JournalReader
from ledger.postings import mark_of

Kind: TypeAlias = Literal["journal", "bodies", "postings"]

ORDERED_BY: dict[Kind, str | None] = {"journal": "seq", "bodies": None, "postings": "seq"}
"""The column in whose order files follow one another; bodies do by their age."""

SORTED_BY: dict[Kind, tuple[str, ...]] = {
    "journal": ("seq",),
    # A look-up by hash then reads one row group of a file instead of all.
    "bodies": ("body_sha256",),
    "postings": ("seq", "line"),
}


@dataclass(frozen=True, slots=True)
class LakeTable:
    """One Delta table."""

    stream: str
    kind: Kind
    path: Place


@dataclass(frozen=True, slots=True)
class StreamTables:
    """One work stream's tables. ``postings`` where it has them; ``readers``: the journals of streams that read its
    journal; ``redactions``: where it is written down who had bodies removed.
    """

    stream: str
    journal: Place
    bodies: Place
    postings: Place | None = None
    readers: tuple[Place, ...] = ()
    redactions: Place | None = None

    def tables(self) -> Iterator[LakeTable]:
        """Those that are there."""
        named: tuple[tuple[Kind, Place | None], ...] = (
            ("journal", self.journal),
            ("bodies", self.bodies),
            ("postings", self.postings),
        )
        for kind, path in named:
            if path is not None and DeltaTable.is_deltatable(str(path)):
                yield LakeTable(self.stream, kind, path)


def behind_since(stream: StreamTables) -> datetime | None:
    """When the first row was decided that a stream derived from this journal hasn't taken; None: all have everything.

    A reading stream that runs takes the rows from the files that they were committed in, so those must stay for it; at
    its start it reads rows by seq, whatever files hold them.
    """
    reader = JournalReader(str(stream.journal))
    marks = [_until(journal, stream.stream) for journal in stream.readers]
    if stream.postings is not None and DeltaTable.is_deltatable(str(stream.postings)):
        marks.append(mark_of(DeltaTable(str(stream.postings))) + 1)
    following = min((one for one in marks if one is not None), default=None)
    if following is None or not 0 < following <= reader.last_seq:
        return None
    return reader.rows_of([following])[0].decided_at


def _until(journal: Place, read: str) -> int | None:
    """The first seq that the slowest receiver of a reading stream hasn't got."""
    if not DeltaTable.is_deltatable(str(journal)):
        return None
    marks = JournalReader(str(journal)).state().marks
    taken = [one[0] for topic, one in marks.items() if topic.startswith(f"{JOURNAL_TOPIC}{read}/")]
    return min(taken, default=None)
