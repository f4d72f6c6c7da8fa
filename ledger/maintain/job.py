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
from journal.log import last_checkpoint, numbers
from journal.rewrite import DataFile, Rewriter, Snapshot, snapshot
from journal.storage import open_storage
from ledger.maintain.compact import PASSES_MAX, Limits, Session, plan, rewrite
from ledger.maintain.redact import finish
from ledger.maintain.retention import drop, expired, find_expired, keep_since, vacuum
from ledger.maintain.tables import OF_A_STREAM, ORDERED_BY, SORTED_BY, LakeTable, StreamTables, behind_since
from ledger.redactions import Redactions
from ledger.settings import MaintainSettings
from ledger.spark import MAINTAIN, clear, staging


@dataclass(frozen=True, slots=True)
class TableReport:
    """The report about a table; ``stream`` is empty where it is no work stream's. ``log`` counts the commits that a
    reader of the table goes through; ``freed`` left the disk.

    ``problem``: why it wasn't done, or only in part; the table is whole all the same.
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
    def of(self) -> str:
        return f"{self.table} of {self.stream}" if self.stream else self.table


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a whole maintenance; ``dry_run``: nothing was changed, it is what would be."""

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
class Job:
    """The settings and tools of a maintenance. ``dry_run``: nothing is changed. ``bodies_days``: 0 keeps bodies for
    ever.
    """

    session: Session
    settings: MaintainSettings
    clock: Clock
    dry_run: bool = False
    bodies_days: int = 0
    limits: Limits = field(default_factory=Limits)

    @property
    def now_ms(self) -> int:
        return to_micros(self.clock.now()) // 1_000


def maintain(streams: Iterable[StreamTables], job: Job, others: Iterable[LakeTable] = ()) -> Report:
    """Compacts, makes checkpoints, and takes old files off the disk, table by table; ``others`` are no stream's.

    The caller holds `hold_maintenance_lock`. May be ended at any moment: what isn't committed isn't part of any table.
    """
    began_s = job.clock.monotonic()
    tables = [_maintained(table, job, stream) for stream in streams for table in stream.tables()]
    tables += [_maintained(table, job) for table in others]
    return Report(job.clock.now(), job.clock.monotonic() - began_s, job.dry_run, tuple(tables))


def _maintained(table: LakeTable, job: Job, stream: StreamTables | None = None) -> TableReport:
    began_s = job.clock.monotonic()
    report = TableReport(table.stream, table.name, table.path)
    try:
        for step in _steps(table, report, job, stream):
            report = step
    except FAILURES as failed:
        log.warning("%s couldn't be maintained: %s", report.of, failed)
        report = replace(report, problem=" ".join(str(failed).split())[:PROBLEM_CHARS_MAX])
    return replace(report, seconds=job.clock.monotonic() - began_s)


def _steps(table: LakeTable, report: TableReport, job: Job, stream: StreamTables | None) -> Iterator[TableReport]:
    """Yields the report after each step: what was done before a failure is in it."""
    if not job.dry_run:
        clear(table.path, MAINTAIN)
    before = snapshot(table.path, ORDERED_BY.get(table.kind))
    files, size, entries = len(before.names), before.bytes, log_length(table.path)
    report = replace(report, files_before=files, bytes_before=size, log_before=entries)
    yield replace(report, files_after=files, bytes_after=size, log_after=entries)
    if stream is not None and table.kind == "bodies":
        report = replace(report, bodies_dropped=_removed_bodies(stream, job))
        yield _after(report, table.path)
        before = snapshot(table.path)
    groups = plan(before.files, job.limits, by_day=table.kind == "bodies")
    if job.dry_run:
        yield _foretold(table, report, groups, job, stream)
        return
    if groups:
        compact(table, before, job)
        checkpoint(table)
        report = _after(report, table.path)
        yield report
    elif report.bodies_dropped:
        checkpoint(table)
    freed = vacuum(table.path, job.clock.now(), _kept_since(table, job, stream))
    yield replace(_after(report, table.path), freed_files=len(freed), freed_bytes=sum(freed.values()))


def _removed_bodies(stream: StreamTables, job: Job) -> int:
    """Removes bodies that were redacted or whose time is over, and counts them; a dry run only counts."""
    acts = Redactions(stream.redactions) if stream.redactions is not None else None
    redacted = 0 if acts is None else len(acts.unfinished(stream.stream))
    if acts is not None and not job.dry_run:
        redacted = finish(stream, acts, job.clock)
    if not job.bodies_days:
        return redacted
    expired = find_expired(job.session, stream, job.clock.now(), job.bodies_days)
    if job.dry_run:
        return redacted + expired.count
    return redacted + drop(job.session, expired, lambda: job.now_ms, job.limits.bytes_max)


def compact(table: LakeTable, before: Snapshot, job: Job) -> None:
    rewriter = Rewriter(before)
    files = {file.name: file for file in before.files}
    by_day = table.kind == "bodies"
    for _ in range(PASSES_MAX):
        for group in plan(files.values(), job.limits, by_day=by_day):
            with staging(table.path, MAINTAIN) as folder:
                rewritten = rewrite(job.session.get(), before, group, SORTED_BY[table.kind], folder)
                new = rewriter.replace(group, rewritten.files, job.now_ms)
            for file in group:
                del files[file.name]
            files |= {file.name: file for file in new}


def checkpoint(table: LakeTable) -> None:
    """Makes a checkpoint, with which readers begin. The entries of a stream's log stay: its writer removes them, once
    it has seen them.
    """
    opened = DeltaTable(str(table.path))
    opened.create_checkpoint()
    if table.kind not in OF_A_STREAM:
        opened.cleanup_metadata()


def log_length(path: Location) -> int:
    """Counts the commits since the last checkpoint: a reader that opens the table reads each."""
    storage = open_storage(path)
    try:
        since = last_checkpoint(storage)
    except ValueError:
        since = -1
    return len(numbers(storage, since + 1))


def _kept_since(table: LakeTable, job: Job, stream: StreamTables | None) -> datetime:
    behind = behind_since(stream) if stream is not None and table.kind == "journal" else None
    return keep_since(job.clock.now(), timedelta(hours=job.settings.retention_h), behind)


def _foretold(
    table: LakeTable, report: TableReport, groups: list[list[DataFile]], job: Job, stream: StreamTables | None
) -> TableReport:
    """Reports what would be done. Before it is done only those bytes are known that may leave the disk."""
    expired_files = expired(table.path, job.clock.now(), _kept_since(table, job, stream))
    after = report.files_before - sum(map(len, groups)) + len(groups)
    return replace(
        report,
        files_after=after,
        bytes_after=report.bytes_before,
        log_after=0 if groups else report.log_before,
        freed_files=len(expired_files),
        freed_bytes=sum(expired_files.values()),
    )


def _after(report: TableReport, path: Location) -> TableReport:
    actions = pa.table(DeltaTable(str(path)).get_add_actions())
    size = sum(actions["size_bytes"].to_pylist())
    return replace(report, files_after=actions.num_rows, bytes_after=size, log_after=log_length(path))
