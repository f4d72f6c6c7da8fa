"""Maintains tables one after the other; what goes wrong with one costs only that one."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from core.clock import Clock, to_micros, to_rfc3339
from core.errors import PayhookError
from core.location import Location
from journal.log import last_checkpoint, list_numbers
from journal.rewrite import DataFile, Rewriter, Snapshot, take_snapshot
from journal.storage import open_storage
from ledger.maintain.compact import PASSES_MAX, CompactionLimits, LazySparkSession, plan_groups, rewrite_files
from ledger.maintain.redact import finish_redactions
from ledger.maintain.retention import (
    drop_bodies,
    find_expired_bodies,
    find_expired_files,
    find_keep_since,
    vacuum_table,
)
from ledger.maintain.tables import (
    MAINTAIN,
    OF_A_STREAM,
    ORDERED_BY,
    SORTED_BY,
    LakeTable,
    StreamTables,
    clear_staging,
    find_behind_since,
    open_staging,
)
from ledger.redactions import Redactions
from ledger.settings import MaintainSettings


@dataclass(frozen=True, slots=True)
class TableReport:
    """The report about a table; ``stream`` is empty where it is no work stream's.

    ``log`` counts the commits that a reader of the table goes through; ``freed`` left the disk. ``problem``: why it
    wasn't done, or only in part; the table is whole all the same.
    """

    stream: str
    table: str
    path: Location
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    log_before: int = 0
    log_after: int = 0
    freed_files: int = 0
    freed_bytes: int = 0
    bodies_dropped: int = 0
    seconds: float = 0.0
    problem: str | None = None

    @property
    def display_name(self) -> str:
        return f"{self.table} of {self.stream}" if self.stream else self.table


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    ended_at: datetime
    seconds: float
    dry_run: bool
    tables: tuple[TableReport, ...]

    @property
    def ok(self) -> bool:
        return all(table.problem is None for table in self.tables)

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "dry_run": self.dry_run,
            "ended_at": to_rfc3339(self.ended_at),
            "seconds": round(self.seconds, 3),
            "tables": [{**asdict(table), "seconds": round(table.seconds, 3)} for table in self.tables],
        }

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), indent=1, default=str)


log = logging.getLogger(__name__)

PROBLEM_CHARS_MAX = 500
FAILURES = (PayhookError, DeltaError, OSError, pa.ArrowException, PySparkException, Py4JError)


@dataclass(frozen=True, slots=True)
class MaintenanceJob:
    """``dry_run``: nothing is changed. ``bodies_days``: 0 keeps bodies for ever."""

    session: LazySparkSession
    settings: MaintainSettings
    clock: Clock
    dry_run: bool = False
    bodies_days: int = 0
    limits: CompactionLimits = field(default_factory=CompactionLimits)

    @property
    def now_ms(self) -> int:
        return to_micros(self.clock.now()) // 1_000


def maintain(
    streams: Iterable[StreamTables], job: MaintenanceJob, others: Iterable[LakeTable] = ()
) -> MaintenanceReport:
    """Compacts, makes checkpoints, and deletes old files, table by table; ``others`` are no stream's.

    The caller holds `hold_maintenance_lock`. It may be ended at any moment: what isn't committed isn't part of any
    table.
    """
    began_s = job.clock.monotonic_s()
    tables = [_maintain_table(table, job, stream) for stream in streams for table in stream.list_tables()]
    tables += [_maintain_table(table, job) for table in others]
    return MaintenanceReport(job.clock.now(), job.clock.monotonic_s() - began_s, job.dry_run, tuple(tables))


def _maintain_table(table: LakeTable, job: MaintenanceJob, stream: StreamTables | None = None) -> TableReport:
    began_s = job.clock.monotonic_s()
    report = TableReport(table.stream, table.name, table.path)
    try:
        for step in _run_steps(table, report, job, stream):
            report = step
    except FAILURES as failed:
        log.warning("%s couldn't be maintained: %s", report.display_name, failed)
        report = replace(report, problem=" ".join(str(failed).split())[:PROBLEM_CHARS_MAX])
    return replace(report, seconds=job.clock.monotonic_s() - began_s)


def _run_steps(
    table: LakeTable, report: TableReport, job: MaintenanceJob, stream: StreamTables | None
) -> Iterator[TableReport]:
    if not job.dry_run:
        clear_staging(table.path, MAINTAIN)
    before = take_snapshot(table.path, ORDERED_BY.get(table.kind))
    files, size, entries = len(before.names), before.bytes, count_log_entries(table.path)
    report = replace(report, files_before=files, bytes_before=size, log_before=entries)
    yield replace(report, files_after=files, bytes_after=size, log_after=entries)
    if stream is not None and table.kind == "bodies":
        report = replace(report, bodies_dropped=_remove_bodies(stream, job))
        yield _measure_after(report, table.path)
        before = take_snapshot(table.path)
    groups = plan_groups(before.files, job.limits, by_day=table.kind == "bodies")
    if job.dry_run:
        yield _forecast_report(table, report, groups, job, stream)
        return
    if groups:
        compact_table(table, before, job)
        create_checkpoint(table)
        report = _measure_after(report, table.path)
        yield report
    elif report.bodies_dropped:
        create_checkpoint(table)
    freed = vacuum_table(table.path, job.clock.now(), _find_kept_since(table, job, stream))
    yield replace(_measure_after(report, table.path), freed_files=len(freed), freed_bytes=sum(freed.values()))


def _remove_bodies(stream: StreamTables, job: MaintenanceJob) -> int:
    acts = Redactions(stream.redactions) if stream.redactions is not None else None
    redacted = 0 if acts is None else len(acts.find_unfinished(stream.stream))
    if acts is not None and not job.dry_run:
        redacted = finish_redactions(stream, acts, job.clock)
    if not job.bodies_days:
        return redacted
    expired = find_expired_bodies(job.session, stream, job.clock.now(), job.bodies_days)
    if job.dry_run:
        return redacted + expired.count
    return redacted + drop_bodies(job.session, expired, lambda: job.now_ms, job.limits.bytes_max)


def compact_table(table: LakeTable, before: Snapshot, job: MaintenanceJob) -> None:
    rewriter = Rewriter(before)
    files = {file.name: file for file in before.files}
    by_day = table.kind == "bodies"
    for _ in range(PASSES_MAX):
        for group in plan_groups(files.values(), job.limits, by_day=by_day):
            with open_staging(table.path, MAINTAIN) as folder:
                rewritten = rewrite_files(job.session.get_session(), before, group, SORTED_BY[table.kind], folder)
                new = rewriter.replace_files(group, rewritten.files, job.now_ms)
            for file in group:
                del files[file.name]
            files |= {file.name: file for file in new}


def create_checkpoint(table: LakeTable) -> None:
    """Makes a checkpoint, with which readers begin. A stream's writer itself removes its log's entries once it has seen
    them.
    """
    opened = DeltaTable(str(table.path))
    opened.create_checkpoint()
    if table.kind not in OF_A_STREAM:
        opened.cleanup_metadata()


def count_log_entries(path: Location) -> int:
    storage = open_storage(path)
    try:
        since = last_checkpoint(storage)
    except ValueError:
        since = -1
    return len(list_numbers(storage, since + 1))


def _find_kept_since(table: LakeTable, job: MaintenanceJob, stream: StreamTables | None) -> datetime:
    behind = find_behind_since(stream) if stream is not None and table.kind == "journal" else None
    return find_keep_since(job.clock.now(), timedelta(hours=job.settings.retention_h), behind)


def _forecast_report(
    table: LakeTable,
    report: TableReport,
    groups: list[list[DataFile]],
    job: MaintenanceJob,
    stream: StreamTables | None,
) -> TableReport:
    expired_files = find_expired_files(table.path, job.clock.now(), _find_kept_since(table, job, stream))
    after = report.files_before - sum(map(len, groups)) + len(groups)
    return replace(
        report,
        files_after=after,
        bytes_after=report.bytes_before,
        log_after=0 if groups else report.log_before,
        freed_files=len(expired_files),
        freed_bytes=sum(expired_files.values()),
    )


def _measure_after(report: TableReport, path: Location) -> TableReport:
    actions = pa.table(DeltaTable(str(path)).get_add_actions())
    size = sum(actions["size_bytes"].to_pylist())
    return replace(report, files_after=actions.num_rows, bytes_after=size, log_after=count_log_entries(path))
