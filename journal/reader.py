"""Reads a journal's rows in seq order with bounded memory, pinned to one version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from journal.errors import JournalBroken
from journal.schema import JournalRow, from_arrow
from journal.state import JournalState, read_state

ROWS_PER_CHUNK = 20_000
"""About 20 MB of rows as Python objects."""


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    first_seq: int
    last_seq: int
    rows: int


class JournalReader:
    """A journal as of ``version`` (the latest one unless told)."""

    def __init__(self, path: str, version: int | None = None) -> None:
        self._path = path
        self._table = DeltaTable(path, version=version)

    @property
    def version(self) -> int:
        return self._table.version()

    @property
    def table_id(self) -> str:
        """The table's own id: tells one journal from another that was made in its place."""
        return str(self._table.metadata().id)

    def state(self) -> JournalState:
        """Epoch, marks and chain at this version."""
        return read_state(self._path, self.version)

    def rows_after(self, seq: int, columns: Sequence[str] | None = None) -> Iterator[list[JournalRow]]:
        """Rows with a greater seq, in seq order, in chunks.

        :raises JournalBroken: a seq is missing or there twice
        """
        expected = seq + 1
        for files in self._chunks(seq):
            rows = self._read(files, seq, columns)
            if [row.seq for row in rows] != list(range(expected, expected + len(rows))):
                raise JournalBroken(self._path, f"seq {expected} to {expected + len(rows) - 1} aren't there once each")
            expected += len(rows)
            for at in range(0, len(rows), ROWS_PER_CHUNK):
                yield rows[at : at + ROWS_PER_CHUNK]

    def _chunks(self, seq: int) -> Iterator[list[_File]]:
        """Files with rows after ``seq``; those whose seq overlap stay together, small ones are joined."""
        chunk: list[_File] = []
        for file in sorted(self._files(), key=lambda file: file.first_seq):
            if file.last_seq <= seq:
                continue
            apart = chunk and file.first_seq > max(one.last_seq for one in chunk)
            if apart and sum(one.rows for one in chunk) + file.rows > ROWS_PER_CHUNK:
                yield chunk
                chunk = []
            chunk.append(file)
        if chunk:
            yield chunk

    def _files(self) -> list[_File]:
        actions = self._table.get_add_actions(flatten=True)
        wanted = ("path", "min.seq", "max.seq", "num_records")
        columns = [_column(actions, name) for name in wanted]
        return [_File(*values) for values in zip(*columns, strict=True)]

    def _read(self, files: Sequence[_File], seq: int, columns: Sequence[str] | None) -> list[JournalRow]:
        wanted = {file.path for file in files}
        dataset = self._table.to_pyarrow_dataset()
        if not isinstance(dataset, ds.FileSystemDataset):
            raise JournalBroken(self._path, "its files can't be listed")
        fragments = [one for one in dataset.get_fragments() if one.path in wanted]
        if len(fragments) != len(wanted):
            raise JournalBroken(self._path, f"{len(wanted)} files are wanted, {len(fragments)} were found")
        some = ds.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)
        try:
            table = some.to_table(columns=None if columns is None else list(columns), filter=pc.field("seq") > seq)
        except OSError as missing:
            raise JournalBroken(self._path, f"a file can't be read: {missing}") from missing
        return from_arrow(table.sort_by("seq"))


def _column(actions: object, name: str) -> list[object]:
    table = actions.column(name)  # type: ignore[attr-defined]
    return list(table.to_pylist())
