"""Drops bodies whose time is over; hashes, keys and postings stay, and with them the proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from core.clock import to_micros
from core.decision import Decision
from journal.reader import JournalReader
from journal.rewrite import DataFile, Rewriter, Snapshot, snapshot
from ledger.maintain.compact import Rewritten, read, rewrite
from ledger.maintain.plan import FILES_MAX
from ledger.maintain.session import Session
from ledger.maintain.tables import SORTED_BY, StreamTables
from ledger.spark import MAINTAIN, staging
from ledger.verify.views import journal_view


@dataclass(frozen=True, slots=True)
class Expired:
    """Files of a bodies table that lose bodies. ``needed``: the hashes that stay; ``kept_of``: how many, by file."""

    bodies: Snapshot
    files: tuple[DataFile, ...]
    kept_of: dict[str, int]
    needed: DataFrame | None

    @property
    def count(self) -> int:
        return sum(one.rows - self.kept_of.get(one.name, 0) for one in self.files)


def find_expired(session: Session, stream: StreamTables, before: datetime) -> Expired:
    """The bodies that nobody needs, in files that were written ``before``.

    A body is needed while a row of the journal refers to it that was decided later, whose item is open (a retry, what
    is parked, a dead letter), or whose dead letter isn't on its topic yet. The bodies are looked at first and the
    journal then: what is being decided now has its body in a younger file.
    """
    bodies = snapshot(stream.bodies)
    old = [one for one in bodies.files if one.modified_ms < to_micros(before) // 1_000]
    if not old:
        return Expired(bodies, (), {}, None)
    spark = session.get()
    needed = _needed(spark, stream, before)
    named = read(spark, bodies, old).select("body_sha256", fn.col("_metadata.file_name").alias("name"))
    counted = named.join(needed, "body_sha256", "left_semi").groupBy("name").count().collect()
    kept_of = {one["name"]: int(one["count"]) for one in counted}
    less = tuple(one for one in old if kept_of.get(one.name, 0) < one.rows)
    return Expired(bodies, less, kept_of, needed)


def drop(session: Session, expired: Expired, now_ms: Callable[[], int], bytes_max: int) -> int:
    """Drops them, file by file; returns how many. They leave the disk with the files that held them.

    :raises CommitFailed: somebody else rewrites the table
    """
    needed, dropped = expired.needed, 0
    if needed is None:
        return 0
    rewriter = Rewriter(expired.bodies)
    try:
        for group in _groups(expired.files, bytes_max):
            some = [one for one in group if expired.kept_of.get(one.name)]
            with staging(expired.bodies.path, MAINTAIN) as folder:
                kept = _kept(session, expired.bodies, some, needed, folder)
                rewriter.replace(group, kept.files, now_ms(), drops_rows=True)
            dropped += sum(one.rows for one in group) - kept.rows
    finally:
        needed.unpersist()
    return dropped


def _kept(session: Session, bodies: Snapshot, files: Sequence[DataFile], needed: DataFrame, folder: Path) -> Rewritten:
    if not files:
        return Rewritten([], 0)
    return rewrite(
        session.get(),
        bodies,
        files,
        SORTED_BY["bodies"],
        folder,
        lambda rows: rows.join(needed, "body_sha256", "left_semi"),
    )


def _groups(files: Sequence[DataFile], bytes_max: int) -> list[list[DataFile]]:
    """Files that become one."""
    groups: list[list[DataFile]] = []
    size = 0
    for file in sorted(files, key=lambda one: (one.modified_ms, one.name)):
        if not groups or size + file.size > bytes_max or len(groups[-1]) == FILES_MAX:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return groups


def _needed(spark: SparkSession, stream: StreamTables, before: datetime) -> DataFrame:
    """The hashes of the bodies that must stay, held in memory or on Spark's own disk."""
    state = JournalReader(str(stream.journal)).state()
    rows = journal_view(
        spark.read.format("delta").option("versionAsOf", state.version).load(str(stream.journal)),
    )
    last = rows.where("NOT first OR waits").groupBy("item_seq").agg(fn.max_by("waits", "seq").alias("is_open"))
    of_open = rows.join(last.where("is_open"), "item_seq", "left_semi")
    young = fn.col("decided_at") >= fn.lit(before)
    unpublished = (fn.col("decision") == Decision.DEAD.value) & (fn.col("seq") > state.published_upto)
    needed = rows.where(young | unpublished).select("body_sha256").unionByName(of_open.select("body_sha256"))
    return needed.where("body_sha256 IS NOT NULL").distinct().persist()
