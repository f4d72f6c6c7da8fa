"""The postings made again from the journal's rows, as their writer makes them, and put in place by one commit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from core.clock import Clock, to_micros
from core.errors import PayhookError
from core.location import Location
from core.work import postings_from_json
from journal.append import ROWS_PER_GROUP
from journal.histories import ReflectedPosition
from journal.journals import own_after
from journal.lake import open_table
from journal.log import COMPRESSION, AppTransaction
from journal.reader import JournalReader
from journal.rewrite import replace_all
from journal.schema import JournalRow
from ledger.maintain.tables import REBUILD, open_staging
from ledger.postings import (
    BOOKING_DECISIONS,
    JOURNAL_COLUMNS,
    MARK_APP_ID,
    POSTINGS_SCHEMA,
    PostingsWriter,
    commit_notes,
    flatten_postings,
)

LINES_PER_FILE = 500_000
"""Maintenance leaves such a file as it is (`ledger.maintain.compact.CompactionLimits`)."""


class BookingUnreadable(PayhookError):
    """Raised when the journal has a booking that isn't lines, so that other lines would be written than were booked."""

    def __init__(self, journal: str, seq: int) -> None:
        self.journal = journal
        self.seq = seq
        super().__init__(
            f"journal {journal}: the booking of row {seq} can't be read. The postings are left as they are; run "
            "`payhook verify`."
        )


@dataclass(frozen=True, slots=True)
class RebuildResult:
    before: int
    lines: int
    mark: int
    version: int
    seconds: float


def rebuild_postings(journal: Location, postings: Location, clock: Clock) -> RebuildResult:
    """Makes the postings of all rows that the journal has now; the table may be gone, wrong, or in use.

    Those of a journal that began as a copy are of its own rows (`journal.journals.own_after`). It may be ended at any
    moment: what isn't committed isn't part of the table. A running processor is refused at its next booking, starts
    again, and books what came since.

    :raises BookingUnreadable: a booking isn't lines
    :raises JournalBroken: a row is missing, or a file can't be read
    :raises NotCommitted: others committed all the while, or too much time passed; nothing was changed
    :raises OutcomeUnknown: the commit may have been made
    """
    began_s = clock.monotonic_s()
    PostingsWriter.open(str(postings))
    before = open_table(str(postings)).count()
    reader = JournalReader(str(journal))
    mark = reader.last_seq
    with open_staging(postings, REBUILD) as folder:
        files = _write_lines(_read_lines(reader), folder)
        lines = sum(pq.read_metadata(file).num_rows for file in files)
        moved = AppTransaction(MARK_APP_ID, mark)
        position = ReflectedPosition(reader.lineage, mark, reader.row_hash_at(mark) or "" if mark else "")
        notes = {**commit_notes(position), "payhook.kind": "rebuild"}
        version = replace_all(postings, files, moved, notes, to_micros(clock.now()) // 1_000)
    return RebuildResult(before, lines, mark, version, clock.monotonic_s() - began_s)


def _read_lines(reader: JournalReader) -> Iterator[pa.Table]:
    for rows in reader.rows_after(own_after(reader.state().notes), JOURNAL_COLUMNS):
        for row in rows:
            if row.decision in BOOKING_DECISIONS and row.postings is not None and not _is_readable(row):
                raise BookingUnreadable(reader.path, row.seq)
        table = flatten_postings(rows)
        if table.num_rows:
            yield table


def _is_readable(row: JournalRow) -> bool:
    try:
        lines = postings_from_json(row.postings)
    except (PayhookError, ValueError, TypeError, KeyError):
        return False
    return bool(lines) and all(isinstance(line.account, str) and isinstance(line.side, str) for line in lines)


def _write_lines(tables: Iterator[pa.Table], folder: Path) -> list[Path]:
    files: list[Path] = []
    with contextlib.ExitStack() as open_file:
        writer, room = None, 0
        for table in tables:
            if writer is None or room <= 0:
                open_file.close()
                files.append(folder / f"{len(files)}.parquet")
                made = pq.ParquetWriter(files[-1], POSTINGS_SCHEMA, compression=COMPRESSION, store_schema=False)
                writer, room = open_file.enter_context(made), LINES_PER_FILE
            writer.write_table(table, ROWS_PER_GROUP)
            room -= table.num_rows
    return files
