"""A table of the ledger as a file: CSV or Parquet, in seq order, a window of rows after the other.

Of several journals, one after the other: a further column names each row's stream.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from core.errors import PayhookError
from core.money import decimals_of
from ledger.queries.lake import PinnedTables, TableRows, Tables, join_conditions, list_tables, match_decided_within

_MARK = "'"
_MARKED = r"\A[=+\-@\t\r\n']"


def format_cells(table: pa.Table, numbers: frozenset[str] = frozenset()) -> pa.Table:
    """Formats a table as cells that no spreadsheet calculates and every reader takes back unchanged.

    Times are RFC 3339 in UTC. A text that a spreadsheet would take for a formula (CWE-1236), or that begins with an
    apostrophe, gets a leading apostrophe. Without that it is the text. ``numbers`` are text columns of numbers, which
    stay as they are.
    """
    columns = [
        column if name in numbers else _format_column(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


def _format_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ")
    if not pa.types.is_string(column.type):
        return column
    marked = pc.binary_join_element_wise(_MARK, column, "")
    return pc.if_else(pc.match_substring_regex(column, _MARKED), marked, column)


Form: TypeAlias = Literal["csv", "parquet"]
Source: TypeAlias = Literal["postings", "journal"]

SEQS_PER_WINDOW = 100_000
"""About 100 MB of the journal's rows, whatever the table's length."""

AMOUNT, AMOUNT_MINOR, CURRENCY, STREAM = "amount", "amount_minor", "currency", "stream"
_ORDER = {"postings": "seq, line", "journal": "seq"}


class NothingBooked(PayhookError):
    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"there is no table at {path}: nothing has been decided yet, or --data names another folder")


class OutExists(PayhookError):
    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} exists and is left as it is; name another file, or replace it with --overwrite")


class OutUnwritable(PayhookError):
    """Raised when an export can't be written; an older file is still there unchanged."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path} can't be written: {problem}. Nothing was changed there")


@dataclass(frozen=True, slots=True)
class ExportResult:
    path: Path
    rows: int
    versions: tuple[int, ...]


def export_table(
    table: Tables,
    source: Source,
    out: Path,
    form: Form,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] = lambda done, rows: None,
    record: Callable[[], None] = lambda: None,
) -> ExportResult:
    """Writes what was decided from ``since`` on and before ``until``; the file appears whole, or not at all.

    Beside ``amount_minor`` stands ``amount``, the same as decimal text.

    :param table: the path of the table, or the tables of several journals
    :param progress: gets how many rows of how many are written
    :param record: called before the file appears; where it raises, there is no file
    :raises NothingBooked: there is no such table yet
    :raises OutExists: a file is there, and it isn't to be replaced
    :raises OutUnwritable: the file can't be written: the disk is full, say, or a device or folder is in its place
    :raises LedgerUnreadable: the table is damaged
    """
    if out.exists() and not out.is_file():
        raise OutUnwritable(out, "it isn't a file")
    if out.exists() and not overwrite:
        raise OutExists(out)
    lakes = [(rows, lake) for rows in list_tables(table) if source in (lake := PinnedTables(**{source: [rows]}))]
    if not lakes:
        raise NothingBooked(list_tables(table)[0].path)
    staged = out.with_name(f".{out.name}.{uuid.uuid4().hex}.tmp")
    try:
        rows = _write_tables(
            lakes, source, staged, form, match_decided_within(since, until), progress, named=len(list_tables(table)) > 1
        )
        record()
        _publish_file(staged, out, overwrite=overwrite)
    except OSError as failed:
        raise OutUnwritable(out, failed.strerror or str(failed)) from failed
    finally:
        with contextlib.suppress(OSError):
            staged.unlink()
    return ExportResult(out, rows, tuple(lake.table(source).version() for _, lake in lakes))


def _write_tables(
    lakes: Sequence[tuple[TableRows, PinnedTables]],
    source: Source,
    staged: Path,
    form: Form,
    conditions: list[str],
    progress: Callable[[int, int], None],
    *,
    named: bool,
) -> int:
    tables = [
        _ExportedTable(
            lake,
            source,
            form,
            [*conditions, *([f"seq > {rows.after}"] if rows.after else [])],
            rows.stream if named else "",
        )
        for rows, lake in lakes
    ]
    spans = [table.find_span() for table in tables]
    of, done = sum(rows for rows, *_ in spans), 0
    with staged.open("xb") as file:
        writer = _open_writer(file, form, tables[0].read_schema())
        for table, (count, least, last) in zip(tables, spans, strict=True):
            for rows in table.read_windows(least, last) if count else ():
                writer.write(rows)
                done += rows.num_rows
                progress(done, of)
        writer.close()
        file.flush()
        os.fsync(file.fileno())
    return done


@dataclass(frozen=True, slots=True)
class _ExportedTable:
    lake: PinnedTables
    source: Source
    form: Form
    wanted: list[str]
    stream: str

    def find_span(self) -> tuple[int, int, int]:
        [span] = self.lake.ask(
            f"SELECT count(*) AS rows, min(seq) AS least, max(seq) AS last FROM {self.source} "
            f"{join_conditions(self.wanted)}"
        ).to_pylist()
        return span["rows"], span["least"] or 0, span["last"] or 0

    def read_schema(self) -> pa.Schema:
        return self._as_written(self.lake.ask(f"SELECT * FROM {self.source} LIMIT 0")).schema

    def read_windows(self, least: int, last: int) -> Iterator[pa.Table]:
        for begin in range(least, last + 1, SEQS_PER_WINDOW):
            within = [*self.wanted, f"seq >= {begin}", f"seq < {begin + SEQS_PER_WINDOW}"]
            rows = self.lake.ask(
                f"SELECT * FROM {self.source} {join_conditions(within)} ORDER BY {_ORDER[self.source]}"
            )
            yield self._as_written(rows)

    def _as_written(self, rows: pa.Table) -> pa.Table:
        if self.stream:
            rows = rows.add_column(0, STREAM, pa.repeat(self.stream, rows.num_rows))
        if AMOUNT_MINOR in rows.column_names:
            texts = format_decimals(rows[AMOUNT_MINOR], rows[CURRENCY])
            rows = rows.add_column(rows.column_names.index(AMOUNT_MINOR) + 1, AMOUNT, texts)
        return format_cells(rows, numbers=frozenset({AMOUNT})) if self.form == "csv" else rows


def _open_writer(file: object, form: Form, schema: pa.Schema) -> pq.ParquetWriter | pa_csv.CSVWriter:
    if form == "parquet":
        return pq.ParquetWriter(file, schema, compression="zstd")
    return pa_csv.CSVWriter(file, schema, write_options=pa_csv.WriteOptions(eol="\r\n", quoting_style="needed"))


def _publish_file(staged: Path, out: Path, *, overwrite: bool) -> None:
    if overwrite:
        staged.replace(out)
        return
    try:
        os.link(staged, out)
    except FileExistsError as taken:
        raise OutExists(out) from taken


def format_decimals(amounts_minor: pa.ChunkedArray, currencies: pa.ChunkedArray) -> pa.ChunkedArray:
    """Formats a column of amounts for machines: ``1234.50`` of 123450 EUR."""
    by_code = {code: decimals_of(code) for code in pc.unique(currencies).to_pylist() if code is not None}
    texts = amounts_minor.cast(pa.string())
    for decimals in sorted(set(by_code.values()) - {0}):
        codes = pa.array([code for code, has in by_code.items() if has == decimals], pa.string())
        moved = pc.multiply(amounts_minor.cast(pa.decimal128(19, 0)), pa.scalar(Decimal(1).scaleb(-decimals)))
        texts = pc.if_else(pc.is_in(currencies, codes), moved.cast(pa.string()), texts)
    return texts
