"""Retention removes files that were replaced long enough ago, and bodies whose time is over."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from core.clock import to_micros
from core.decision import Decision
from core.location import Location
from journal.journals import shard_in
from journal.reader import JournalReader
from journal.rewrite import DataFile, Rewriter, Snapshot, take_snapshot
from journal.state import JournalState
from journal.storage import StoredFile, open_storage
from ledger.maintain.compact import FILES_MAX, LazySparkSession, RewriteResult, read_files, rewrite_files
from ledger.maintain.tables import MAINTAIN, SORTED_BY, StreamTables, open_staging
from ledger.redactions import RetentionState
from ledger.verify.spark_engine import SparkEngine
from ledger.verify.views import build_journal_sql

BEHIND_MAX = timedelta(days=7)
"""For a reading stream that is further behind no file is kept: it may never come back, and then begins by seq."""

MARGIN = timedelta(hours=1)
"""Between a row's decision and its file there are seconds; clocks may differ."""


def find_keep_since(now: datetime, retention: timedelta, behind: datetime | None) -> datetime:
    """Returns since when replaced files stay: for readers that began before, and for streams that are ``behind``."""
    since = now - retention
    if behind is not None:
        since = min(since, max(behind, now - BEHIND_MAX) - MARGIN)
    return since


def find_expired_files(path: Location, now: datetime, since: datetime) -> dict[str, int]:
    """Finds files that were replaced before ``since``, and older files that no version names, with their sizes."""
    hours = math.ceil((now - since) / timedelta(hours=1))
    names = set(DeltaTable(str(path)).vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True))
    return {file.name: file.size for file in list_data_files(path) if file.name in names}


def vacuum_table(path: Location, now: datetime, since: datetime) -> dict[str, int]:
    """Deletes what `find_expired_files` finds, and returns it, with the sizes.

    It does so by name, because Delta's own VACUUM needs a JVM and commits into a log that is being written
    (docs/decisions/0021).
    """
    sizes = find_expired_files(path, now, since)
    if sizes:
        open_storage(path).delete(sorted(sizes))
    return sizes


def list_data_files(path: Location) -> Iterator[StoredFile]:
    for file in open_storage(path).files():
        if file.name.endswith(".parquet") and not file.name.startswith(("_", ".")):
            yield file


@dataclass(frozen=True, slots=True)
class ExpiredBodies:
    """Files of a bodies table that lose bodies.

    ``needed``: the hashes that stay; ``kept_of``: how many, by file. ``retained``: what is gone afterwards.
    """

    bodies: Snapshot
    retained: RetentionState
    files: tuple[DataFile, ...]
    kept_of: dict[str, int]
    needed: DataFrame | None

    @property
    def count(self) -> int:
        return sum(file.rows - self.kept_of.get(file.name, 0) for file in self.files)


def find_expired_bodies(session: LazySparkSession, stream: StreamTables, now: datetime, days: int) -> ExpiredBodies:
    """Finds the bodies that aren't needed, in files that were written ``days`` days ago.

    A body is needed while a row that was decided later refers to it. It is also needed while its row's item is open, or
    the dead letter isn't on its topic yet. The bodies are listed first and the journal is read then, so that what is
    being decided now has its body in a younger file.
    """
    before, bodies = now - timedelta(days=days), take_snapshot(stream.bodies)
    state = JournalReader(str(stream.journal)).state()
    earlier = RetentionState.read(DeltaTable(str(stream.bodies)))
    retained = RetentionState(before, days, state.published_upto).with_earlier(earlier)
    old = [file for file in bodies.files if file.modified_ms < to_micros(before) // 1_000]
    if not old:
        return ExpiredBodies(bodies, retained, (), {}, None)
    spark = session.get_session()
    needed = _select_needed(spark, stream, state, before)
    named = read_files(spark, bodies, old).select("body_sha256", fn.col("_metadata.file_name").alias("name"))
    counted = named.join(needed, "body_sha256", "left_semi").groupBy("name").count().collect()
    kept_of = {row["name"]: int(row["count"]) for row in counted}
    less = tuple(file for file in old if kept_of.get(file.name, 0) < file.rows)
    return ExpiredBodies(bodies, retained, less, kept_of, needed)


def drop_bodies(session: LazySparkSession, expired: ExpiredBodies, now_ms: Callable[[], int], bytes_max: int) -> int:
    """Drops bodies, file by file; returns how many. They leave the disk with the files that held them.

    :raises CommitFailed: another process rewrites the table
    """
    rewriter, marks = Rewriter(expired.bodies), expired.retained.build_transactions()
    needed, dropped, nothing = expired.needed, 0, RewriteResult([], 0)
    if needed is None:
        return 0

    def keep(rows: DataFrame) -> DataFrame:
        return rows.join(needed, "body_sha256", "left_semi")

    try:
        for group in _group_files(expired.files, bytes_max):
            with_kept = [file for file in group if expired.kept_of.get(file.name)]
            with open_staging(expired.bodies.path, MAINTAIN) as folder:
                kept = (
                    rewrite_files(session.get_session(), expired.bodies, with_kept, SORTED_BY["bodies"], folder, keep)
                    if with_kept
                    else nothing
                )
                rewriter.replace_files(group, kept.files, now_ms(), drops_rows=True, marks=marks)
            dropped += sum(file.rows for file in group) - kept.rows
    finally:
        needed.unpersist()
    return dropped


def _group_files(files: Sequence[DataFile], bytes_max: int) -> list[list[DataFile]]:
    groups: list[list[DataFile]] = []
    size = 0
    for file in sorted(files, key=lambda file: (file.modified_ms, file.name)):
        if not groups or size + file.size > bytes_max or len(groups[-1]) == FILES_MAX:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return groups


def _select_needed(spark: SparkSession, stream: StreamTables, state: JournalState, before: datetime) -> DataFrame:
    engine = SparkEngine(spark)
    engine.add_delta("retained_rows", stream.journal, state.version)
    rows = spark.sql(build_journal_sql("retained_rows", shard_in(state.notes)))
    last = (
        rows.where("mine AND (NOT first OR waits)").groupBy("item_seq").agg(fn.max_by("waits", "seq").alias("is_open"))
    )
    of_open = rows.join(last.where("is_open"), "item_seq", "left_semi")
    young = fn.col("decided_at") >= fn.lit(before)
    unpublished = (fn.col("decision") == Decision.DEAD.value) & (fn.col("seq") > state.published_upto)
    needed = rows.where(young | unpublished).select("body_sha256").unionByName(of_open.select("body_sha256"))
    return needed.where("body_sha256 IS NOT NULL").distinct().persist()
