"""A journal as of one version, for whatever is derived from its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from journal.lake import has_table, open_table
from journal.scan import applied_after, last_seq, offsets_of, pick, scan, seqs_of_offsets
from journal.schema import JOURNAL_SCHEMA, LATER_COLUMNS, JournalRow, from_arrow
from journal.state import JournalState, read_state

ROWS_PER_CHUNK = 10_000
"""About 20 MB of rows as Python objects."""

ROWS_PER_WIDE_WINDOW = 250_000
"""About 60 MB of rows with the few columns that the index wants."""

ROWS_PER_TABLE = 50_000


def lineage_of(path: str) -> str:
    """The lineage of the journal as it is now; empty where none was begun.

    :raises JournalBroken: the log or the rows contradict themselves
    """
    return JournalReader(path).state().lineage if has_table(path) else ""


class JournalReader:
    """A journal as of ``version`` (the latest one unless told)."""

    def __init__(self, path: str, version: int | None = None) -> None:
        self._path = path
        self._table = open_table(path, version)

    @property
    def version(self) -> int:
        return self._table.version()

    @property
    def table_id(self) -> str:
        """The table's own id: tells one journal from another that was made in its place."""
        return str(self._table.metadata().id)

    @property
    def lineage(self) -> str:
        """The journal's id, which a restore renews; empty in a journal of before."""
        return self.state().lineage

    @property
    def last_seq(self) -> int:
        """The seq of the last row; 0 if there is none."""
        return last_seq(self._table)

    def state(self) -> JournalState:
        """Epoch, marks and chain at this version.

        For those who only read: a writer gets its state from `JournalWriter.begin_epoch`, and from nowhere else.
        """
        return read_state(self._path, self.version)

    def rows_after(self, seq: int, columns: Sequence[str] | None = None) -> Iterator[list[JournalRow]]:
        """Rows with a greater seq, in seq order, in chunks.

        ``columns`` must name those without a default: all others may be left out. What a table of older code doesn't
        have yet is None.

        :raises JournalBroken: a seq is missing or there twice, or a file can't be read
        """
        for window in scan(self._table, seq, self._there(columns)):
            for at in range(0, window.num_rows, ROWS_PER_CHUNK):
                yield from_arrow(window.slice(at, ROWS_PER_CHUNK))

    def tables_after(self, seq: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """As `rows_after`, as tables of a few short columns: for what looks at every row of a long journal."""
        for window in scan(self._table, seq, self._there(columns), ROWS_PER_WIDE_WINDOW):
            for at in range(0, window.num_rows, ROWS_PER_TABLE):
                yield window.slice(at, ROWS_PER_TABLE)

    def rows_of(self, seqs: Sequence[int]) -> list[JournalRow]:
        """Whole rows by their seq, in seq order; ``seqs`` are ascending and near to one another.

        :raises JournalBroken: one isn't there, or a file can't be read
        """
        return from_arrow(pick(self._table, seqs)) if seqs else []

    def tables_of(self, seqs: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Some columns of rows by their seq, as `rows_of`."""
        if not seqs:
            return pa.table({name: pa.array([], JOURNAL_SCHEMA.field(name).type) for name in columns})
        return pick(self._table, seqs, self._there(columns))

    def seqs_of_offsets(self, offsets: Mapping[tuple[str, int], int]) -> list[int]:
        """The seqs of the first rows that decided an offset of each topic's partition, ascending; the newest of each.

        Looks through a few columns of the whole journal.

        :raises JournalBroken: a file can't be read
        """
        return seqs_of_offsets(self._table, offsets)

    def offsets_of(self, topic: str, history: int) -> pa.Table:
        """``partition, offset, seq`` of the first rows of one history of a topic.

        :raises JournalBroken: a file can't be read
        """
        return offsets_of(self._table, topic, history)

    def applied_upto(self, after: Mapping[str, int]) -> dict[str, int]:
        """Of each entity the last item that was applied and came after the one that is named; none where none was.

        Looks through a few columns of all rows from the first of those items on.

        :raises JournalBroken: a file can't be read
        """
        return applied_after(self._table, after) if after else {}

    def row_hash_at(self, seq: int) -> str | None:
        """The hash of one row: by it a derived state knows whether it follows this history."""
        window = next(scan(self._table, seq - 1, ["row_hash"]), None)
        return None if window is None else str(window["row_hash"][0].as_py())

    def _there(self, columns: Sequence[str] | None) -> list[str] | None:
        if columns is None:
            return None
        there = {field.name for field in self._table.schema().fields}
        return [name for name in columns if name in there or name not in LATER_COLUMNS]
