"""delta-rs and Spark on one table: what Spark compacts, the writer, the reader and the bodies go on with."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from core.decision import Decision
from journal.bodies import BodyStore
from journal.errors import Fenced
from journal.index import Index
from journal.reader import JournalReader
from journal.schema import JournalRow
from journal.writer import JournalWriter
from ledger.verify.spark_engine import SparkEngine
from ledger.verify.views import build_journal_sql, build_row_hash_sql
from tests.unit.journal.rows import NOW, begin_journal, marks, row, sha

pytestmark = pytest.mark.more(reason="a Spark of its own; tests/contract rewrites the same tables without one")

BATCHES = 6


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal")


def commit(writer: JournalWriter, since: int, until: int) -> list[JournalRow]:
    rows = [row(seq, due_at=NOW, decision=Decision.RETRY, reason="größer") for seq in range(since, until)]
    writer.commit(rows, marks(until - 1), 0)
    return rows


def read(path: str, after: int = 0) -> list[JournalRow]:
    return [one for rows in JournalReader(path).rows_after(after) for one in rows]


def optimize(spark: SparkSession, path: str) -> None:
    spark.sql("SET spark.databricks.delta.optimize.maxFileSize = 1000000000")
    spark.sql(f"OPTIMIZE delta.`{path}`")


def test_a_table_that_spark_compacted_is_read_and_written_on(spark: SparkSession, path: str) -> None:
    """Rows, times and hashes are the same; the live writer doesn't notice."""
    writer = begin_journal(path)
    rows = [one for n in range(BATCHES) for one in commit(writer, 1 + 10 * n, 11 + 10 * n)]
    state = JournalReader(path).state()
    optimize(spark, path)
    table = DeltaTable(path)
    assert len(table.file_uris()) == 1
    assert read(path) == rows
    assert read(path, after=55) == rows[55:]
    after = JournalReader(path).state()
    assert (after.marks, after.next_seq, after.chain, after.epoch) == (
        state.marks,
        state.next_seq,
        state.chain,
        state.epoch,
    )
    assert after.version == table.version() > state.version
    rows += commit(writer, 61, 71)
    optimize(spark, path)
    rows += commit(writer, 71, 73)
    assert read(path) == rows
    assert JournalReader(path).row_hash_at(5) == rows[4].row_hash


def test_compaction_by_spark_does_not_let_a_stale_writer_through(spark: SparkSession, path: str) -> None:
    stale = begin_journal(path)
    commit(stale, 1, 3)
    commit(stale, 3, 5)
    fresh = begin_journal(path)
    optimize(spark, path)
    for _ in range(2):
        with pytest.raises(Fenced):
            commit(stale, 5, 7)
    commit(fresh, 5, 7)
    assert [one.seq for one in read(path)] == list(range(1, 7))


def test_an_index_is_rebuilt_from_compacted_tables(spark: SparkSession, path: str, tmp_path: Path) -> None:
    writer = begin_journal(path)
    bodies = BodyStore(str(tmp_path / "bodies"))
    rows = []
    for seq in range(1, 9):
        batch = [row(seq, decision=Decision.DEAD, body_sha256=sha(f"body {seq}"))]
        bodies.append([(sha(f"body {seq}"), f"body {seq}".encode())])
        writer.commit(batch, marks(seq), 0)
        rows += batch
    optimize(spark, path)
    optimize(spark, str(tmp_path / "bodies"))
    spark.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    spark.sql("SET spark.sql.sources.parallelPartitionDiscovery.parallelism = 2")
    spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    index = Index.open(tmp_path / "index", 2)
    index.catch_up(JournalReader(path), bodies)
    assert [item.body for item in index.open_items()] == [f"body {seq}".encode() for seq in range(1, 9)]
    bodies.append([(sha("later"), b"later")])
    assert bodies.fetch([sha("later"), sha("body 3")]) == {sha("later"): b"later", sha("body 3"): b"body 3"}
    index.close()


def test_spark_reads_what_delta_rs_wrote_and_the_constraints_hold_for_it_too(spark: SparkSession, path: str) -> None:
    commit(begin_journal(path), 1, 4)
    frame = spark.read.format("delta").load(path)
    assert [one.seq for one in frame.select("seq").orderBy("seq").collect()] == [1, 2, 3]
    with pytest.raises(Exception, match="(?i)constraint|check"):
        frame.selectExpr("*").withColumn("seq", -frame.seq).write.format("delta").mode("append").save(path)
    with pytest.raises(Exception, match="(?i)append"):
        spark.sql(f"DELETE FROM delta.`{path}`")


def test_spark_finds_each_rows_hash_right_before_and_after_the_files_are_joined(spark: SparkSession, path: str) -> None:
    """With and without the columns that rarely have a value."""
    writer = begin_journal(path)
    writer.commit([row(1), row(2)], marks(2), 0)
    writer.commit([row(3, tenant="shop-a", zone="eu")], marks(3), 0)
    for _ in range(2):
        assert hashes(spark, path) == [(1, None, True), (2, None, True), (3, "shop-a", True)]
        optimize(spark, path)


def hashes(spark: SparkSession, path: str) -> list[tuple[int, str | None, bool]]:
    """Each row's seq, its tenant, and whether its hash is right, as Spark sees them."""
    SparkEngine(spark).add_delta("hashed_rows", path, JournalReader(path).version)
    rows = spark.sql(build_journal_sql("hashed_rows"))
    right = rows.select("seq", "tenant", fn.expr(f"row_hash = {build_row_hash_sql()}"))
    return [tuple(one) for one in right.orderBy("seq").collect()]
