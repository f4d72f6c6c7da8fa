"""Invariants of the raw bodies, which only ``--deep`` asks for: they read every byte of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from core.decision import Decision
from core.location import Location
from journal.index_changes import EMPTY_SHA256
from journal.lake import has_table, open_table
from ledger.handler import handler_version
from ledger.redactions import Redactions, Retained
from ledger.spark import read_table
from ledger.verify.body_facts import COLUMNS, FACTS, read_bodies
from ledger.verify.evidence import Evidence
from ledger.verify.report import Finding, Invariant
from providers.settings import ProvidersSettings


@dataclass
class BodiesWhole(Invariant):
    bodies: Location
    redactions: Location
    name = "bodies_whole"
    sentence = (
        "Every body that is kept is what its hash says; one that is missing was redacted or dropped by retention; one "
        "that was redacted is there only if another event brought it since."
    )

    def check(self, evidence: Evidence) -> Finding:
        if not has_table(str(self.bodies)):
            nowhere = ({"problem": f"there is no table of bodies at {self.bodies}"},) if evidence.seq else ()
            return self.finding(evidence, nowhere, {"bodies": 0})
        missing = self._register(evidence)
        try:
            return self.finding(evidence, self._offenders(evidence), self._figures(evidence))
        finally:
            missing.unpersist()

    def _offenders(self, evidence: Evidence) -> list[dict[str, Any]]:
        offenders = evidence.sample(
            """
            SELECT 'a body isn''t what its hash says' AS problem, body_sha256, sha2(body, 256) AS computed
            FROM bodies WHERE sha2(body, 256) <> body_sha256
            """
        )
        offenders += evidence.sample(
            "SELECT 'a body is nowhere' AS problem, seq, body_sha256, decided_at FROM bodiless WHERE status = 'gone'"
        )
        offenders += evidence.sample(
            """
            SELECT 'a redacted body is there again, as from a backup: redact it again' AS problem,
                   body_sha256, event_key
            FROM redacted LEFT SEMI JOIN bodies USING (body_sha256)
            WHERE own AND done AND NOT EXISTS (
                SELECT 1 FROM whole
                WHERE first AND decision <> 'duplicate'
                      AND whole.body_sha256 = redacted.body_sha256 AND decided_at >= redacted.at)
            """
        )
        return offenders

    def _register(self, evidence: Evidence) -> DataFrame:
        """The journal is pinned already, so every body that it refers to is there, or went by order or by time.

        Returns what is missing, ``bodiless``, which is kept for the queries that read it.
        """
        session = evidence.session
        table = open_table(str(self.bodies))
        held = read_table(session, self.bodies, table.version())
        held.createOrReplaceTempView("bodies")
        stream = evidence.lake.stream
        last = Redactions(self.redactions).last_orders(stream).values()
        ordered = [
            (one.body_sha256, one.event_key, one.at, one.stream == stream, done is not None) for one, done in last
        ]
        columns = "body_sha256 string, event_key string, at timestamp, own boolean, done boolean"
        session.createDataFrame(ordered, columns).createOrReplaceTempView("redacted")
        retained = Retained.of(table)
        missing = session.sql(
            f"""
            WITH missing AS (
                SELECT min(seq) AS seq, body_sha256, max(decided_at) AS decided_at, max(seq) AS brought
                FROM journal LEFT ANTI JOIN bodies USING (body_sha256)
                WHERE first AND body_sha256 <> '{EMPTY_SHA256}' AND decision <> 'duplicate'
                GROUP BY body_sha256),
            referring AS (
                SELECT whole.seq, body_sha256, whole.decided_at, brought, int(mine AND waits) AS open,
                       int({_unpublished(retained)}) AS unpublished,
                       lag(int(mine AND waits), 1, 0) OVER (PARTITION BY item_seq ORDER BY whole.seq) AS was_open
                FROM whole JOIN missing USING (body_sha256)),
            spans AS (
                SELECT body_sha256, seq >= brought AS is_last, decided_at,
                       sum(open - was_open) OVER by_seq AS open,
                       sum(unpublished) OVER by_seq AS unpublished,
                       lead(decided_at) OVER by_seq AS next_at
                FROM referring WINDOW by_seq AS (PARTITION BY body_sha256 ORDER BY seq)),
            had_its_time AS (
                SELECT DISTINCT body_sha256 FROM spans WHERE {_had_its_time(retained)})
            SELECT missing.*, CASE WHEN redacted.body_sha256 IS NOT NULL THEN 'redacted'
                                   WHEN had_its_time.body_sha256 IS NOT NULL THEN 'dropped' ELSE 'gone' END AS status
            FROM missing LEFT JOIN redacted
                      ON redacted.body_sha256 = missing.body_sha256 AND (own OR redacted.at >= missing.decided_at)
                 LEFT JOIN had_its_time ON had_its_time.body_sha256 = missing.body_sha256
            """  # noqa: S608 - a moment, a number and words of our own making
        ).persist(StorageLevel.MEMORY_AND_DISK)
        missing.createOrReplaceTempView("bodiless")
        return missing

    def _figures(self, evidence: Evidence) -> dict[str, Any]:
        [held] = evidence.rows("SELECT count(*) AS bodies, coalesce(sum(length(body)), 0) AS bytes FROM bodies")
        counted = evidence.rows("SELECT status, count(*) AS count FROM bodiless GROUP BY status")
        counts = {one["status"]: one["count"] for one in counted}
        return {**held, "redacted": counts.get("redacted", 0), "dropped": counts.get("dropped", 0)}


def _unpublished(retained: Retained | None) -> str:
    """Whether a row is of a dead letter that wasn't on its topic when retention dropped bodies: it kept the body.

    The journal's ``published_upto`` doesn't tell: after a recovery all are published again.
    """
    if retained is None:
        return "false"
    return f"decision = '{Decision.DEAD.value}' AND whole.seq > {retained.published_upto}"


def _had_its_time(retained: Retained | None) -> str:
    """Whether retention could drop a body after a row that refers to it and before the next one, which may have come
    when it was gone: a redelivery, a reversal. ``is_last``: no later event brought the body again.
    """
    if retained is None:
        return "false"
    return (
        f"is_last AND open = 0 AND unpublished = 0 AND decided_at < timestamp'{retained.before.isoformat()}' "
        f"AND (next_at IS NULL OR next_at >= decided_at + INTERVAL {retained.days} DAYS)"
    )


@dataclass
class BodyFacts:
    """The view ``body_facts`` (`ledger.verify.body_facts.FACTS`) of all applied rows, made once.

    Rows and bodies are sorted together by Spark: its scratch folder needs room for as much as the bodies take.
    """

    bodies: Location
    providers: ProvidersSettings
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_there: bool = False

    def register(self, evidence: Evidence) -> None:
        with self._lock:
            if not self._is_there:
                self._register(evidence)
                self._is_there = True

    def _register(self, evidence: Evidence) -> None:
        rows = evidence.session.table("journal").where(
            "decision = 'applied' AND fact_sha256 IS NOT NULL AND handler_version LIKE 'ledger-%.%'"
        )
        if has_table(str(self.bodies)):
            version = open_table(str(self.bodies)).version()
            held = read_table(evidence.session, self.bodies, version)
            rows = rows.join(held, "body_sha256", "left")
        else:
            rows = rows.withColumn("body", fn.lit(None).cast("binary"))
        settings = self.providers

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return read_bodies(batches, settings)

        facts = rows.select(*COLUMNS).mapInArrow(read, FACTS)
        facts.persist(StorageLevel.DISK_ONLY).createOrReplaceTempView("body_facts")


_IN_ORDER = """
    WITH before AS (
        SELECT one.seq, bool_or(other.seq < one.seq) AS pair_was_applied
        FROM body_facts AS one JOIN whole AS other ON other.fact_key = coalesce(one.undoes, one.undone_by)
        WHERE other.decision = 'applied'
        GROUP BY one.seq)
    SELECT facts.seq, is_read, reads,
           CASE WHEN problem IS NOT NULL THEN problem
                WHEN undone_by IS NOT NULL AND is_booked AND coalesce(pair_was_applied, false)
                THEN 'it was undone before it was reported, and is booked'
                WHEN undone_by IS NOT NULL AND NOT is_booked AND NOT coalesce(pair_was_applied, false)
                THEN 'what the body reports was applied and isn''t booked'
                WHEN undoes IS NOT NULL AND NOT is_booked AND pair_was_applied
                THEN 'what it undoes was applied before, and the undo isn''t booked' END AS problem
    FROM body_facts AS facts LEFT JOIN before ON before.seq = facts.seq
    """
"""As the engine settles a movement and its undo (`core.work.Applied`). An undo that is booked without its movement is
found by `payment_checks.UndosHaveMovements`."""


@dataclass
class BookingsAreInBodies(Invariant):
    """Compares everything but the merchant, which the directory named then and no body does. A body that its adapter
    reads otherwise today is an offence too: that booking can't be derived again.
    """

    facts: BodyFacts
    name = "bookings_are_in_bodies"
    sentence = (
        "Every booking is what its adapter reads in the kept body again: fact, accounts, sides, amount and currency. A "
        "movement that was undone before it was reported books nothing, and no other does."
    )

    def check(self, evidence: Evidence) -> Finding:
        self.facts.register(evidence)
        evidence.session.sql(_IN_ORDER).createOrReplaceTempView("facts_in_order")
        offenders = evidence.sample(
            f"""
            WITH wrong AS (
                SELECT seq, problem, reads FROM facts_in_order WHERE problem IS NOT NULL
                ORDER BY seq LIMIT {evidence.sample_max})
            SELECT /*+ BROADCAST(wrong) */
                   problem, seq, event_key, event_type, reads, fact_key, postings, handler_version
            FROM journal JOIN wrong USING (seq) ORDER BY seq
            """  # noqa: S608 - a number
        )
        [counts] = evidence.rows(
            """
            SELECT count_if(is_read) AS compared, count_if(NOT is_read) AS without_body,
                   count_if(problem IS NOT NULL) AS wrong
            FROM facts_in_order
            """
        )
        figures = {**counts, "read_by": handler_version(self.facts.providers)}
        gone = counts["without_body"]
        unknown = f"{gone} bookings whose bodies were redacted or dropped" if gone else None
        return self.finding(evidence, offenders, figures, unknown)
