"""Runs a reconciliation: reads the report, pins the ledger, compares, and writes down what was found."""

from __future__ import annotations

import functools
import hashlib
import secrets
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from core.clock import Clock
from core.errors import PayhookError
from core.keys import key_part
from core.location import Location
from core.money import Movement
from core.routing import of_tenant
from journal.journals import own_after
from journal.lake import has_table, open_table
from journal.reader import JournalReader
from journal.schema import TIMESTAMP
from ledger.accounts import BOOKINGS, AccountRole
from ledger.postings import POSTINGS_SCHEMA, mark_of
from ledger.reconcile.compare import ComparisonScope, count_figures, find_differences, register_views, sum_kind_totals
from ledger.reconciliations import (
    DIFFERENCES_SCHEMA,
    KINDS,
    KINDS_OF_MONEY,
    KindTotal,
    ReconciledJournal,
    Reconciliation,
    Reconciliations,
)
from ledger.settings import LedgerSettings
from ledger.spark import read_session, read_table
from providers.settlement.report import ALWAYS, NotCompared, ReportLine, SettlementLine, SettlementReport, read_report

LINES_PER_GROUP = 20_000
"""About 20 MB as Python objects: all of a report that is in memory at a time."""

ZERO = "an amount of zero"

LINES_SCHEMA = pa.schema(
    [
        pa.field("line", pa.int64(), nullable=False),
        pa.field("fact_key", pa.string(), nullable=False),
        pa.field("movement", pa.string(), nullable=False),
        pa.field("role", pa.string(), nullable=False),
        pa.field("account", pa.string(), nullable=False),
        pa.field("account_part", pa.string(), nullable=False),
        pa.field("payment", pa.string()),
        pa.field("entity_key", pa.string()),
        pa.field("minor", pa.int64(), nullable=False),
        pa.field("currency", pa.string(), nullable=False),
        pa.field("occurred_at", TIMESTAMP, nullable=False),
        pa.field("adds", pa.bool_(), nullable=False),
        pa.field("or_fact_key", pa.string()),
        pa.field("pair", pa.string()),
    ]
)
"""``minor`` is what the line does to the provider's clearing account: above zero for money that came to us."""


@dataclass(slots=True)
class StagedReport:
    """A report that was read whole. ``lines`` counts all of its lines; ``first_at`` and ``last_at`` are its dates.

    ``accounts`` are those of its movements. ``fee_lines`` and ``fees_minor``: what the provider kept, by currency.
    """

    path: Path
    sha256: str = ""
    lines: int = 0
    not_compared: Counter[str] = field(default_factory=Counter)
    first_at: datetime | None = None
    last_at: datetime | None = None
    accounts: set[str] = field(default_factory=set)
    fee_lines: Counter[str] = field(default_factory=Counter)
    fees_minor: Counter[str] = field(default_factory=Counter)


def stage_report(report: Path, reader: SettlementReport, tenant: str | None, to: Path) -> StagedReport:
    """Reads the report into the Parquet file ``to``, a group of lines at a time.

    :raises ReportUnreadable: it isn't that report
    :raises RowUnreadable: a line can't be read
    """
    digest = hashlib.sha256()
    staged = StagedReport(to)
    lines = read_report(report, reader, digest)
    with pq.ParquetWriter(to, LINES_SCHEMA) as writer:
        while chunk := list(islice(lines, LINES_PER_GROUP)):
            staged.lines += len(chunk)
            columns = list(zip(*_select_lines(chunk, staged, tenant), strict=True)) or [()] * len(LINES_SCHEMA)
            arrays = [
                pa.array(values, column_field.type) for values, column_field in zip(columns, LINES_SCHEMA, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=LINES_SCHEMA))
    staged.sha256 = digest.hexdigest()
    return staged


def role_of(movement: Movement) -> AccountRole:
    """Returns the account of a movement's booking that isn't the provider's clearing account."""
    debit, credit = BOOKINGS[movement]
    return credit if debit is AccountRole.CLEARING else debit


def direction_of(movement: Movement) -> int:
    """Returns 1 for money that comes to us, -1 for money that is taken."""
    return 1 if BOOKINGS[movement][0] is AccountRole.CLEARING else -1


def _select_lines(chunk: list[ReportLine], staged: StagedReport, tenant: str | None) -> Iterator[tuple[object, ...]]:
    for line in chunk:
        if line.fee is not None:
            staged.fee_lines[line.fee.currency] += 1
            staged.fees_minor[line.fee.currency] += line.fee.amount_minor
        if isinstance(line, NotCompared):
            staged.not_compared[line.category] += 1
        elif line.fact.money.amount_minor == 0:
            staged.not_compared[ZERO] += 1
        else:
            staged.first_at = min(staged.first_at or line.occurred_at, line.occurred_at)
            staged.last_at = max(staged.last_at or line.occurred_at, line.occurred_at)
            staged.accounts.add(line.fact.account)
            yield _build_columns(line, tenant)


def _build_columns(line: SettlementLine, tenant: str | None) -> tuple[object, ...]:
    fact = line.fact
    return (
        line.line,
        of_tenant(tenant, fact.fact_key),
        fact.movement.value,
        role_of(fact.movement).value,
        fact.account,
        key_part(fact.account),
        fact.payment,
        line.entity_key,
        direction_of(fact.movement) * fact.money.amount_minor,
        fact.money.currency,
        line.occurred_at,
        line.adds,
        None if line.or_fact_key is None else of_tenant(tenant, line.or_fact_key),
        None if fact.pair is None else of_tenant(tenant, fact.pair),
    )


ADDS_TO_NONE = "part of a movement that this report has no line of"
UNLISTED = "booked payouts, which this report doesn't cover"

_JOURNAL_COLUMNS = (
    *("seq", "fact_key", "event_key", "entity_key", "provider", "decision", "postings", "occurred_at", "decided_at"),
)


class ReconcileImpossible(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"can't reconcile: {problem}")


@dataclass(frozen=True, slots=True)
class Period:
    """The period in which the ledger's facts are looked for: ``until`` is excluded. None: by the report's own dates."""

    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Books:
    tables: Sequence[tuple[Location, Location]]
    found: Reconciliations


@dataclass(frozen=True, slots=True)
class ReportRequest:
    report: Path
    reader: SettlementReport
    account: str = ""
    tenant: str | None = None
    period: Period = Period()


@dataclass(frozen=True, slots=True)
class _PinnedJournal:
    at: Location
    journal: JournalReader
    seq: int
    own_after: int
    postings_at: Location
    postings: DeltaTable | None

    @property
    def seen_versions(self) -> ReconciledJournal:
        postings = None if self.postings is None else self.postings.version()
        return ReconciledJournal(self.at.name, self.journal.version, self.seq, postings)

    def rows(self, session: SparkSession) -> DataFrame:
        mark = 0 if self.postings is None else mark_of(self.postings)
        rows = read_table(session, self.at, self.journal.version).select(*_JOURNAL_COLUMNS)
        return rows.where(fn.col("seq") > self.own_after).withColumn("reflected", fn.col("seq") <= mark)

    def lines(self, session: SparkSession) -> DataFrame:
        if self.postings is None:
            return session.createDataFrame(POSTINGS_SCHEMA.empty_table())
        return read_table(session, self.postings_at, self.postings.version())


def run(
    books: Books,
    request: ReportRequest,
    jars: Sequence[Path],
    work_dir: Path,
    settings: LedgerSettings,
    clock: Clock,
) -> Reconciliation:
    work_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reconcile-", dir=work_dir) as scratch:
        # The report first: a wrong one is refused before Spark takes its seconds.
        staged = stage_report(request.report, request.reader, request.tenant, Path(scratch) / "lines.parquet")
        rows = sum(journal.seq for journal in _pin_journals(books)) + staged.lines
        name, memory = "payhook reconcile", settings.driver_memory
        with read_session(name, settings.master, memory, jars, work_dir, rows) as session:
            return _compare_report(session, books, request, staged, Path(scratch), clock)


def reconcile(
    session: SparkSession, books: Books, request: ReportRequest, scratch: Path, clock: Clock
) -> Reconciliation:
    """Compares in a session that is passed in; ``scratch`` is a folder for the report's lines and what is found.

    :raises ReportUnreadable, RowUnreadable: the report is wrong; nothing is written
    :raises ReconcileImpossible: there is no journal, or there is no period to compare
    """
    staged = stage_report(request.report, request.reader, request.tenant, scratch / "lines.parquet")
    return _compare_report(session, books, request, staged, scratch, clock)


def _compare_report(
    session: SparkSession, books: Books, request: ReportRequest, staged: StagedReport, scratch: Path, clock: Clock
) -> Reconciliation:
    started, at = clock.monotonic_s(), clock.now()
    scope, pinned = _build_scope(request, staged), _pin_journals(books)
    _register_tables(session, staged, pinned)
    views = register_views(session, scope)
    try:
        run_id = f"{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        books.found.make_tables()
        found_files = _write_differences(
            session, _stamp_rows(find_differences(session), run_id, at, request, staged), scratch / run_id
        )
        books.found.append_differences(found_files)
        counted, sums = count_figures(session), _build_totals(sum_kind_totals(session), staged)
    finally:
        for view in views:
            view.unpersist()
    counts, (first, *others) = books.found.count_differences(run_id), [journal.seen_versions for journal in pinned]
    run = Reconciliation(
        run_id=run_id,
        at=at,
        provider=request.reader.provider,
        tenant=request.tenant,
        report_name=request.report.name,
        report_sha256=staged.sha256,
        since=scope.since,
        until=scope.until,
        lines=staged.lines,
        compared=counted["compared"],
        agreed=counted["compared"] - sum(counts[kind] for kind in KINDS if kind not in ("missing_there", "twice")),
        counts=counts,
        not_compared=_count_not_compared(staged, counted),
        journal_version=first.journal_version,
        journal_seq=first.journal_seq,
        postings_version=first.postings_version,
        seconds=round(clock.monotonic_s() - started, 3),
        other_shards=others,
        account=_name_accounts(request, staged),
        totals=sums,
    )
    books.found.add_run(run)
    return run


def _build_totals(rows: Sequence[Mapping[str, Any]], staged: StagedReport) -> list[KindTotal]:
    sums = {(row["role"], row["currency"]): [int(row[name]) for name in _SUMS] for row in rows}
    for currency, lines in staged.fee_lines.items():
        _, _, *booked = sums.get((AccountRole.FEES.value, currency), [0] * len(_SUMS))
        sums[AccountRole.FEES.value, currency] = [lines, -staged.fees_minor[currency], *booked]
    return [
        KindTotal.build(kind, currency, *sums[role, currency])
        for role, kind in KINDS_OF_MONEY.items()
        for currency in sorted(code for of_role, code in sums if of_role == role)
    ]


_SUMS = ("reported", "reported_minor", "booked", "booked_minor")


def _build_scope(request: ReportRequest, staged: StagedReport) -> ComparisonScope:
    period = request.period
    if staged.first_at is None and (period.since is None or period.until is None):
        raise ReconcileImpossible(
            f"no line of {request.report.name} is of a movement that is booked, so it has no period: give --from and "
            "--to"
        )
    return ComparisonScope(
        provider=request.reader.provider,
        tenant=request.tenant,
        account=None if request.reader.names_account else request.account,
        since=period.since or staged.first_at,
        until=period.until or staged.last_at,
        to_excluded=period.until is not None,
        always=sorted({role_of(movement).value for movement in ALWAYS}),
    )


def _name_accounts(request: ReportRequest, staged: StagedReport) -> str | None:
    named = sorted(staged.accounts) if request.reader.names_account else []
    return request.account or ",".join(named) or None


def _pin_journals(books: Books) -> list[_PinnedJournal]:
    """Pins the postings first, so that the journal has whatever they reflect; leaves out journals that
    haven't begun.
    """
    pinned = [_pin_journal(journal, postings) for journal, postings in books.tables if has_table(str(journal))]
    if not pinned:
        raise ReconcileImpossible(f"there is no journal at {books.tables[0][0]}: nothing has been decided yet")
    return pinned


def _pin_journal(journal: Location, postings: Location) -> _PinnedJournal:
    table = open_table(str(postings)) if has_table(str(postings)) else None
    reader = JournalReader(str(journal))
    return _PinnedJournal(journal, reader, reader.last_seq, own_after(reader.state().notes), postings, table)


def _register_tables(session: SparkSession, staged: StagedReport, pinned: Sequence[_PinnedJournal]) -> None:
    session.read.parquet(str(staged.path)).createOrReplaceTempView("staged")
    for name, parts in (
        ("journal", [journal.rows(session) for journal in pinned]),
        ("postings", [journal.lines(session) for journal in pinned]),
    ):
        functools.reduce(DataFrame.unionByName, parts).createOrReplaceTempView(name)


def _stamp_rows(
    differences: DataFrame, run_id: str, at: datetime, request: ReportRequest, staged: StagedReport
) -> DataFrame:
    of_run = {
        "run_id": fn.lit(run_id),
        "at": fn.lit(at),
        "provider": fn.lit(request.reader.provider),
        "tenant": fn.lit(request.tenant).cast("string"),
        "report_name": fn.lit(request.report.name),
        "report_sha256": fn.lit(staged.sha256),
    }
    return differences.withColumns(of_run).select(*DIFFERENCES_SCHEMA.names)


def _write_differences(session: SparkSession, differences: DataFrame, folder: Path) -> list[Path]:
    """Writes the differences by Spark: with an empty ledger every line of the report is one.

    Spark doesn't commit them: its commit may replace another one's (docs/decisions/0021).
    """
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    sorted_rows = differences.sortWithinPartitions("kind", "line", "seq")
    sorted_rows.write.option("compression", "zstd").parquet(str(folder))
    return [part for part in sorted(folder.glob("part-*.parquet")) if pq.read_metadata(part).num_rows]


def _count_not_compared(staged: StagedReport, counted: Mapping[str, int]) -> dict[str, int]:
    of_ledger = {UNLISTED: counted["unlisted"], ADDS_TO_NONE: counted["adding_to_none"]}
    return {**staged.not_compared, **{name: count for name, count in of_ledger.items() if count}}
