"""Maintains a data folder's lake once: all its tables, what the receiver answered, and bodies that are redacted."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from pyspark.sql import SparkSession

from core.clock import SystemClock
from core.files import write_whole
from core.layout import LEDGER, StreamLayout
from core.routing import MODES, base_of, mode_of, stream_of, topics_of
from journal.kafka_log import KafkaLog, KafkaSilent
from journal.log import TableError
from ledger.maintain.compact import LazySparkSession
from ledger.maintain.job import MaintenanceJob, MaintenanceReport, maintain
from ledger.maintain.redact import EventUnknown, RedactionOrder, RedactionResult, redact_bodies
from ledger.maintain.tables import (
    Kind,
    LakeTable,
    MaintenanceRunning,
    StreamTables,
    hold_maintenance_lock,
    list_other_tables,
)
from ledger.receipts import ReceiptsTable, collect_new_receipts
from ledger.redactions import Redactions
from ledger.spark import maintenance_master, open_read_session
from processor.streams import StreamConfig
from stack.jars import spark_jars
from stack.journals import check_all_journals, check_journals, journals_of
from stack.settings import Settings, streams_of

log = logging.getLogger("maintenance")

BESIDE_STREAMS: tuple[Kind, ...] = ("receipts", "redactions", "reconciliation", "reconciliation-runs", "catch-up")
"""Tables of a mode, named as their folders are."""

LAID_OUT_FOR_ROWS = 10_000_000
"""A session for many rows compiles its queries and splits its shuffles."""


def stream_tables(settings: Settings) -> list[StreamTables]:
    layout, streams = settings.layout, streams_of(settings)
    return [
        _tables_of(
            layout.stream(name),
            stream,
            [
                layout.stream(stream_of(reader.name, mode))
                for reader in streams.values()
                if reader.source_stream == stream.name
            ],
        )
        for mode in MODES
        for stream in streams.values()
        for name in stream.names(mode)
    ]


def _tables_of(places: StreamLayout, stream: StreamConfig, readers: Sequence[StreamLayout]) -> StreamTables:
    return StreamTables(
        stream=places.stream,
        journal=places.journal,
        bodies=places.bodies_table,
        postings=places.postings if "postings" in stream.derived else None,
        readers=tuple(reader.journal for reader in readers),
        redactions=places.shared_table("redactions"),
    )


def tables_of_no_stream(settings: Settings) -> list[LakeTable]:
    layout = settings.layout
    ledgers = [layout.ledger(mode) for mode in MODES]
    groups = [list_other_tables([("acts", layout.audit_log)])]
    groups += [list_other_tables((kind, places.shared_table(kind)) for kind in BESIDE_STREAMS) for places in ledgers]
    return [table for tables in groups for table in tables]


def run_once(settings: Settings, *, dry_run: bool = False) -> MaintenanceReport:
    """Runs one round over everything, in this process; its report is also kept in the run folder.

    :raises MaintenanceRunning: another process is at it
    :raises IncompleteJournals: some would be left out
    """
    clock, layout = SystemClock(), settings.layout
    check_all_journals(settings)
    with hold_maintenance_lock(layout.run, clock.now()), LazySparkSession(lambda: _open_session(settings)) as session:
        job = MaintenanceJob(session, settings.ledger.maintain, clock, dry_run, settings.ledger.bodies_days)
        report = maintain(stream_tables(settings), job, tables_of_no_stream(settings))
        if not dry_run:
            write_whole(layout.maintained_file, report.as_json() + "\n")
    return report


def collect_receipts(settings: Settings) -> int:
    """Takes what the receiver answered since the last round into its table; returns how many receipts.

    :raises KafkaSilent: Kafka doesn't answer; they stay there
    """
    layout, rows = settings.layout, 0
    for mode in settings.ingest.taken_modes:
        table = ReceiptsTable(str(layout.ledger(mode).shared_table("receipts")))
        with contextlib.closing(KafkaLog(settings.kafka)) as kafka:
            rows += collect_new_receipts(kafka, topics_of(mode).receipts, table).rows
    return rows


def redact_event(settings: Settings, stream: str, order: RedactionOrder) -> RedactionResult:
    """Removes the body of one event of a stream for good, whichever of its journals have it.

    :raises MaintenanceRunning: maintenance is at it; run it again
    :raises IncompleteJournals: some wouldn't be looked at
    :raises EventUnknown, EventOpen, AnotherPersonRedacts: nothing was changed
    """
    clock, alone_max = SystemClock(), streams_of(settings)[LEDGER].dlq.alone_redactions_max
    config, mode = streams_of(settings)[base_of(stream)], mode_of(stream)
    journals = journals_of(settings, config, mode)
    redactions = Redactions(journals.locate_shared("redactions"))
    with hold_maintenance_lock(settings.layout.run, clock.now()):
        check_journals(journals)
        begun = [place.stream for place in journals.find_begun()]
        if not begun:
            raise EventUnknown(order.event_key)
        tables = [table for table in stream_tables(settings) if table.stream in begun]
        return redact_bodies(tables, redactions, order, clock, alone_max)


def _open_session(settings: Settings) -> SparkSession:
    ledger, jars = settings.ledger, spark_jars(settings.layout.lake)
    master = maintenance_master(ledger.master)
    return open_read_session(
        "payhook maintain", master, ledger.driver_memory, jars, settings.data_dir, LAID_OUT_FOR_ROWS
    )


def run_round(settings: Settings) -> bool:
    """Maintains as `stack.rounds` runs it: true if all tables are as they should be, or another process is at it."""
    _collect(settings)
    try:
        report = run_once(settings)
    except MaintenanceRunning as other:
        log.info("%s", other)
        return True
    for table in report.tables:
        did = f"{table.files_before} files to {table.files_after}, {table.freed_files} left the disk"
        log.info("%s: %s%s", table.display_name, did, f"; {table.problem}" if table.problem else "")
    return report.ok


def _collect(settings: Settings) -> None:
    """Collects receipts. Those that can't be had now wait on their topic; the lake is maintained all the same."""
    try:
        log.info("%d receipts", collect_receipts(settings))
    except (KafkaSilent, TableError, OSError) as failed:
        log.error("%s", failed)
