"""A table's files by their range of seq, the portions that a ledger is cut into, and their rows in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

ROWS_PER_BATCH = 8_192
"""About 10 MB of journal rows with all that is computed from them."""

WHOLE_BYTES_MAX = 1 << 20
"""A small file is read at once: column by column it takes twice as long, and from an object store 45 requests."""

FEW_VALUES = (
    *("topic", "provider", "account", "event_type", "mode", "tenant", "zone", "decision", "reason", "retry_policy"),
    *("actor", "dedupe", "error_class", "error_code", "error_kind", "handler_version"),
    *("merchant", "side", "currency"),
)
"""Columns of both tables whose values are few: they stay the dictionaries that the files hold them as."""

LOWEST, HIGHEST = 0, (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class FileRange:
    """One file, and the seqs of its rows by the log; without statistics they may be any."""

    name: str
    rows: int
    first: int
    last: int


def file_ranges(path: str, version: int) -> list[FileRange]:
    """Of every file of a table at a version, by their first seq."""
    actions = pa.table(DeltaTable(path, version=version).get_add_actions(flatten=True))
    if actions.num_rows == 0:
        return []
    names, rows = actions["path"].to_pylist(), actions["num_records"].to_pylist()
    ends = (
        actions[f"{end}.seq"].to_pylist() if f"{end}.seq" in actions.column_names else names for end in ("min", "max")
    )
    found = [
        FileRange(name, count or 0, first, last)
        if isinstance(first, int) and isinstance(last, int)
        else FileRange(name, count or 0, LOWEST, HIGHEST)
        for name, count, first, last in zip(names, rows, *ends, strict=True)
    ]
    return sorted(found, key=lambda one: (one.first, one.last))


class TableFiles:
    """Opens a table's files."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._system = PyFileSystem(DeltaStorageHandler(path)) if "://" in path else None
        self._rows: dict[str, int] = {}
        self._few: list[str] = list(FEW_VALUES)

    def batches(
        self, names: Sequence[str], since: int = LOWEST, until: int = HIGHEST, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows of several files, those of small ones together. Row groups outside of a range of seq are passed over."""
        return together(self._batches(names, since, until, columns))

    def rows_of(self, names: Sequence[str]) -> dict[str, int]:
        """How many rows each file holds, by the file itself."""
        for name in names:
            if name not in self._rows:
                with self._open(name) as parquet:
                    self._rows[name] = parquet.metadata.num_rows
        return {name: self._rows[name] for name in names}

    def _batches(
        self, names: Sequence[str], since: int, until: int, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        for name in names:
            with self._open(name) as parquet:
                self._rows[name] = parquet.metadata.num_rows
                groups = [number for number in range(parquet.num_row_groups) if _reaches(parquet, number, since, until)]
                for rows in parquet.iter_batches(ROWS_PER_BATCH, groups, list(columns) if columns else None, False):
                    if rows.num_rows:
                        yield rows

    def _open(self, name: str) -> pq.ParquetFile:
        path = f"{self._path}/{name}"
        source = pa.OSFile(path) if self._system is None else self._system.open_input_file(name)
        if source.size() <= WHOLE_BYTES_MAX:
            with source:
                source = pa.BufferReader(source.read_buffer())
        try:
            return _opened(source, self._few)
        except KeyError:
            # Older code's files lack columns.
            self._few = [name for name in FEW_VALUES if name in pq.read_metadata(source).schema.names]
            return _opened(source, self._few)


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, not too few at a time: a journal that wasn't maintained has a file for every batch."""
    held: list[pa.RecordBatch] = []
    for rows in batches:
        if held and (sum(map(len, held)) + len(rows) > ROWS_PER_BATCH or not rows.schema.equals(held[0].schema)):
            yield pa.concat_batches(held)
            held = []
        held.append(rows)
    if held:
        yield pa.concat_batches(held)


def _opened(source: pa.NativeFile, few: list[str]) -> pq.ParquetFile:
    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us", read_dictionary=few)


def _reaches(parquet: pq.ParquetFile, number: int, since: int, until: int) -> bool:
    at = parquet.schema_arrow.get_field_index("seq")
    range_ = parquet.metadata.row_group(number).column(at).statistics if at >= 0 else None
    if range_ is None or not range_.has_min_max:
        return True
    return bool(range_.max >= since and range_.min <= until)


ROWS_PER_PORTION = 250_000
"""A second's work: progress is shown as often, and a worker that is ready early never waits long."""


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
