"""The postings made again from the journal's rows: read, parsed, sorted and written by Spark, committed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from core.clock import Clock, SystemClock, to_micros
from core.errors import PayhookError
from core.location import Location
from journal.histories import ReflectedPosition
from journal.journals import own_after
from journal.lake import open_table
from journal.log import AppTransaction
from journal.reader import JournalReader
from journal.rewrite import replace_all
from ledger.maintain.compact import CONF, ROW_GROUP_BYTES
from ledger.postings import (
    BOOKING_DECISIONS,
    MARK_APP_ID,
    MERCHANT_OF_LINE,
    POSTINGS_SCHEMA,
    POSTINGS_TYPE,
    PostingsWriter,
    commit_notes,
)
from ledger.settings import LedgerSettings
from ledger.spark import REBUILD, maintenance_master, open_staging, read_session, read_table

LINES_PER_FILE = 1_000_000
"""About what maintenance leaves as it is."""


class BookingUnreadable(PayhookError):
    """Raised when the journal has bookings that aren't lines, so that other lines would be written than were booked."""

    def __init__(self, journal: str, rows: int, seq: int) -> None:
        self.journal = journal
        self.rows = rows
        self.seq = seq
        super().__init__(
            f"journal {journal}: {rows} bookings can't be read, the first is row {seq}. The postings are left as they "
            "are; run `payhook verify`."
        )


@dataclass(frozen=True, slots=True)
class RebuildResult:
    before: int
    lines: int
    mark: int
    version: int
    seconds: float


def run(
    journal: Location, postings: Location, jars: Sequence[Path], work_dir: Path, settings: LedgerSettings
) -> RebuildResult:
    rows = JournalReader(str(journal)).last_seq
    name, master = "payhook ledger rebuild-postings", maintenance_master(settings.master)
    with read_session(name, master, settings.driver_memory, jars, work_dir, rows) as session:
        return rebuild_postings(session, journal, postings, SystemClock())


def rebuild_postings(session: SparkSession, journal: Location, postings: Location, clock: Clock) -> RebuildResult:
    """Makes the postings of all rows that the journal has now; the table may be gone, wrong, or in use.

    Those of a journal that began as a copy are of its own rows (`journal.journals.own_after`). It may be ended at any
    moment: what isn't committed isn't part of the table. A running processor is refused at its next booking, starts
    again, and books what came since.

    :raises BookingUnreadable: a booking isn't lines
    :raises NotCommitted: others committed all the while, or too much time passed; nothing was changed
    :raises OutcomeUnknown: the commit may have been made
    """
    began_s = clock.monotonic_s()
    PostingsWriter.open(str(postings))
    before = open_table(str(postings)).count()
    reader = JournalReader(str(journal))
    mark = reader.last_seq
    with open_staging(postings, REBUILD) as folder:
        booked = _read_bookings(session, journal, reader.version).where(fn.col("seq") > own_after(reader.state().notes))
        _check_bookings(booked, str(journal))
        files = _write_lines(session, booked, folder / "rows", mark)
        lines = sum(pq.read_metadata(file).num_rows for file in files)
        moved = AppTransaction(MARK_APP_ID, mark)
        position = ReflectedPosition(reader.lineage, mark, reader.row_hash_at(mark) or "" if mark else "")
        notes = {**commit_notes(position), "payhook.kind": "rebuild"}
        now_ms = to_micros(clock.now()) // 1_000
        version = replace_all(postings, files, moved, notes, now_ms)
    return RebuildResult(before, lines, mark, version, clock.monotonic_s() - began_s)


def _read_bookings(session: SparkSession, journal: Location, version: int) -> DataFrame:
    rows = read_table(session, journal, version)
    booking = fn.col("postings").isNotNull() & fn.col("decision").isin(
        *(decision.value for decision in BOOKING_DECISIONS)
    )
    return rows.where(booking).withColumn("lines", fn.from_json("postings", POSTINGS_TYPE))


def _check_bookings(booked: DataFrame, journal: str) -> None:
    has_lines = "size(lines) > 0 AND forall(lines, x -> x.account IS NOT NULL AND x.side IS NOT NULL AND x.amount_minor"
    has_lines += " IS NOT NULL AND x.currency IS NOT NULL)"
    wrong = booked.where(f"NOT coalesce({has_lines}, false)")
    unreadable = wrong.agg(fn.count("*").alias("rows"), fn.min("seq").alias("seq")).collect()[0]
    if unreadable["rows"]:
        raise BookingUnreadable(journal, unreadable["rows"], unreadable["seq"])


def _write_lines(session: SparkSession, booked: DataFrame, staged: Path, rows: int) -> list[Path]:
    for name, value in CONF.items():
        session.conf.set(name, value)
    lines = booked.selectExpr("*", "posexplode(lines) AS (line, posting)")
    lines = lines.selectExpr("*", f"{MERCHANT_OF_LINE.format(lines='lines')} AS merchant").selectExpr(
        *(
            f"posting.{field.name}" if field.name in ("account", "side", "amount_minor", "currency") else field.name
            for field in POSTINGS_SCHEMA
        )
    )
    files = max(1, 2 * rows // LINES_PER_FILE)
    by_range = lines.repartitionByRange(files, "seq") if files > 1 else lines.coalesce(1)
    writer = by_range.sortWithinPartitions("seq", "line").write.option("compression", "zstd")
    writer.option("parquet.block.size", ROW_GROUP_BYTES).parquet(str(staged))
    parts = sorted(staged.glob("part-*.parquet"))
    return [part for part in parts if pq.read_metadata(part).num_rows]
