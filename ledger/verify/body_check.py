"""The invariant between what was booked and the kept bodies, which only ``--deep`` asks for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import DeltaTable
from pyspark import StorageLevel
from pyspark.sql import functions as fn

from core.location import Location
from ledger.handler_version import handler_version
from ledger.verify.body_facts import COLUMNS, FACTS, read_bodies
from ledger.verify.evidence import Evidence
from ledger.verify.invariant import Finding
from providers.settings import ProvidersSettings


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
        if DeltaTable.is_deltatable(str(self.bodies)):
            version = DeltaTable(str(self.bodies)).version()
            held = evidence.session.read.format("delta").option("versionAsOf", version).load(str(self.bodies))
            rows = rows.join(held, "body_sha256", "left")
        else:
            rows = rows.withColumn("body", fn.lit(None).cast("binary"))
        settings = self.providers

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return read_bodies(batches, settings)

        facts = rows.select(*COLUMNS).mapInArrow(read, FACTS)
        facts.persist(StorageLevel.DISK_ONLY).createOrReplaceTempView("body_facts")


@dataclass
class BookingsAreInBodies:
    """Compares everything but the merchant, which the directory named then and no body does. A body that its adapter
    reads otherwise today is an offence too: that booking can't be derived again.
    """

    facts: BodyFacts
    name: str = "bookings_are_in_bodies"
    sentence: str = (
        "Every booking is what its adapter reads in the kept body again: fact, accounts, sides, amount and currency."
    )

    def check(self, evidence: Evidence) -> Finding:
        self.facts.register(evidence)
        offenders = evidence.sample(
            f"""
            WITH wrong AS (
                SELECT seq, problem, reads FROM body_facts WHERE problem IS NOT NULL
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
            FROM body_facts
            """
        )
        figures = {**counts, "read_by": handler_version(self.facts.providers)}
        gone = counts["without_body"]
        unknown = f"{gone} bookings whose bodies were redacted or dropped" if gone else None
        return Finding(self.name, self.sentence, tuple(offenders), figures, unknown)
