"""The invariant between the journal's dead rows and the dead-letter topic."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from dlq.record import DECIDED_HEADER, SEQ_HEADER
from journal.histories import cuts
from ledger.verify.evidence import Evidence
from ledger.verify.invariant import Finding
from ledger.verify.survey import Doubt

NO_SEQ = -1
"""Stands for the seq of a record that names none: no dead row has it, so the record is an offender."""


class DlqEqualsOpenDead:
    name = "dlq_equals_open_dead"
    sentence = (
        "Every dead row that counts as published is on the dead-letter topic with its bytes, and nothing else is."
    )

    def check(self, evidence: Evidence) -> Finding:
        figures = {"published_upto": evidence.state.published_upto}
        if _nothing_died(evidence):
            return Finding(self.name, self.sentence, (), figures)
        _dead_rows(evidence).unionByName(_records(evidence)).createOrReplaceTempView("dead_letters")
        offenders = evidence.sample(
            """
            SELECT * FROM (
                SELECT seq, count_if(NOT is_record) AS dead_rows, count_if(is_record) AS records,
                       count(record_sha256) AS with_bytes, max(row_sha256) AS row_sha256,
                       min(record_sha256) AS record_sha256, max(record_sha256) AS other_sha256,
                       min(partition) AS partition, max(partition) AS other_partition, bool_or(expected) AS expected
                FROM dead_letters GROUP BY seq)
            WHERE dead_rows = 0 OR (expected AND records = 0) OR partition <> other_partition
               OR (with_bytes > 0 AND NOT (row_sha256 <=> record_sha256 AND row_sha256 <=> other_sha256))
            """
        )
        unknown = None if evidence.is_whole else "dead letters of rows before"
        return Finding(self.name, self.sentence, tuple(offenders), figures, unknown)


def _nothing_died(evidence: Evidence) -> bool:
    """Nothing to compare: no row is dead, and the topic is empty."""
    survey = evidence.survey()
    empty = not any(high > low for low, high in evidence.dlq_ends.values())
    return empty and survey.clears(Doubt.READ) and survey.dead_rows == 0


def _dead_rows(evidence: Evidence) -> DataFrame:
    rows = evidence.session.table("journal").where("decision = 'dead'")
    expected = (fn.col("seq") <= evidence.state.published_upto) & _retained(evidence)
    return rows.select(
        "seq",
        "partition",
        fn.lit(False).alias("is_record"),
        fn.col("body_sha256").alias("row_sha256"),
        fn.lit(None).cast("string").alias("record_sha256"),
        expected.alias("expected"),
    )


def _records(evidence: Evidence) -> DataFrame:
    """What the topic holds of dead rows up to the pinned seq; later ones belong to a later verification."""
    session = evidence.session
    if not any(high > low for low, high in evidence.dlq_ends.values()):
        topic = session.createDataFrame([], "partition int, seq bigint, record_sha256 string")
    else:
        topic = evidence.kafka.frame(session, evidence.dlq_topic).selectExpr(
            "partition",
            f"coalesce(TRY_CAST({_header(SEQ_HEADER)} AS bigint), {NO_SEQ}) AS seq",
            f"TRY_CAST({_header(DECIDED_HEADER)} AS timestamp) AS decided_at",
            "sha2(value, 256) AS record_sha256",
        )
        # Of rows that the journal gave up when it went on from an older copy.
        for after, at in cuts(evidence.state.notes):
            given_up = (fn.col("seq") > after) & (fn.col("decided_at") < fn.lit(at))
            topic = topic.where(~fn.coalesce(given_up, fn.lit(False)))
    looked_at = fn.col("seq").between(evidence.since, evidence.seq) | (fn.col("seq") == NO_SEQ)
    return topic.where(looked_at).select(
        "seq",
        "partition",
        fn.lit(True).alias("is_record"),
        fn.lit(None).cast("string").alias("row_sha256"),
        "record_sha256",
        fn.lit(False).alias("expected"),
    )


def _header(name: str) -> str:
    return f"CAST(get(filter(headers, h -> h.key = '{name}'), 0).value AS string)"


def _retained(evidence: Evidence) -> Column:
    """Whether a row is young enough for its partition still to hold its record."""
    retained = fn.lit(True)
    for partition, (low, high) in evidence.dlq_ends.items():
        if low > 0:
            since = _held_since(evidence, partition, low, high)
            retained &= ~((fn.col("partition") == partition) & (fn.col("decided_at") < fn.lit(since)))
    return retained


def _held_since(evidence: Evidence, partition: int, low: int, high: int) -> datetime:
    oldest = evidence.kafka.timestamp(evidence.dlq_topic, partition, low) if high > low else None
    return oldest or evidence.now
