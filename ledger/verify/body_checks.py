"""Invariants of the raw bodies, which only ``--deep`` asks for: they read every byte of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from core.clock import to_micros
from core.decision import Decision
from core.location import Location
from journal.bodies import BodyStore
from journal.index_changes import EMPTY_SHA256
from journal.lake import has_table, open_table
from journal.schema import TIMESTAMP
from ledger.handler import handler_version
from ledger.redactions import Redactions, RetentionState
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
            return self.build_finding(evidence, nowhere, {"bodies": 0})
        if lost := BodyStore(str(self.bodies), may_create=False).lost_files():
            # The engine would name the first one alone, in words of its own.
            offenders = ({"problem": "a file of bodies can't be read", "file": file} for file in lost)
            return self.build_finding(evidence, offenders, {"lost_files": len(lost)})
        self._register_views(evidence)
        return self.build_finding(evidence, self._find_offenders(evidence), self._count_figures(evidence))

    def _find_offenders(self, evidence: Evidence) -> list[dict[str, Any]]:
        offenders = evidence.ask_sample(
            """
            SELECT 'a body isn''t what its hash says' AS problem, body_sha256, sha2(body, 256) AS computed
            FROM bodies WHERE sha2(body, 256) <> body_sha256
            """
        )
        offenders += evidence.ask_sample(
            "SELECT 'a body is nowhere' AS problem, seq, body_sha256, decided_at FROM bodiless WHERE status = 'gone'"
        )
        offenders += evidence.ask_sample(
            """
            WITH brought AS (
                SELECT body_sha256, max(decided_at) AS last_at FROM whole
                WHERE first AND decision <> 'duplicate' AND body_sha256 IN (SELECT body_sha256 FROM redacted)
                GROUP BY body_sha256)
            SELECT 'a redacted body is there again, as from a backup: redact it again' AS problem,
                   redacted.body_sha256 AS body_sha256, event_key
            FROM redacted LEFT JOIN brought ON brought.body_sha256 = redacted.body_sha256
            WHERE own AND done AND redacted.body_sha256 IN (SELECT body_sha256 FROM bodies)
                  AND NOT coalesce(last_at >= redacted.at, false)
            """
        )
        return offenders

    def _register_views(self, evidence: Evidence) -> None:
        """Names the missing bodies ``bodiless``, which is kept for the queries that read it.

        The journal is pinned already, so every body that it refers to is there, or went by order or by time.
        """
        engine = evidence.engine
        table = open_table(str(self.bodies))
        engine.add_delta("bodies", self.bodies, table.version())
        stream = evidence.lake.stream
        orders = [
            {
                "body_sha256": order.body_sha256,
                "event_key": order.event_key,
                "at": order.at,
                "own": order.stream == stream,
                "done": done is not None,
            }
            for order, done in Redactions(self.redactions).list_last_orders(stream).values()
        ]
        evidence.add_rows("redacted", _REDACTED, orders)
        retained = RetentionState.read(table)
        engine.add_result(
            "bodiless",
            f"""
            WITH missing AS (
                SELECT min(seq) AS seq, body_sha256, max(decided_at) AS decided_at, max(seq) AS brought
                FROM journal
                WHERE first AND body_sha256 <> '{EMPTY_SHA256}' AND decision <> 'duplicate'
                      AND body_sha256 NOT IN (SELECT body_sha256 FROM bodies)
                GROUP BY body_sha256),
            referring AS (
                SELECT whole.seq AS seq, whole.body_sha256 AS body_sha256, whole.decided_at AS decided_at, brought,
                       CASE WHEN mine AND waits THEN 1 ELSE 0 END AS open,
                       CASE WHEN {_build_unpublished_sql(retained)} THEN 1 ELSE 0 END AS unpublished,
                       coalesce(lag(CASE WHEN mine AND waits THEN 1 ELSE 0 END)
                                OVER (PARTITION BY item_seq ORDER BY whole.seq), 0) AS was_open
                FROM whole JOIN missing ON missing.body_sha256 = whole.body_sha256),
            spans AS (
                SELECT body_sha256, seq >= brought AS is_last, decided_at,
                       sum(open - was_open) OVER by_seq AS open,
                       sum(unpublished) OVER by_seq AS unpublished,
                       lead(decided_at) OVER by_seq AS next_at
                FROM referring WINDOW by_seq AS (PARTITION BY body_sha256 ORDER BY seq)),
            had_its_time AS (
                SELECT DISTINCT body_sha256 FROM spans WHERE {_build_time_over_sql(retained)})
            SELECT missing.*, CASE WHEN redacted.body_sha256 IS NOT NULL THEN 'redacted'
                                   WHEN had_its_time.body_sha256 IS NOT NULL THEN 'dropped' ELSE 'gone' END AS status
            FROM missing LEFT JOIN redacted
                      ON redacted.body_sha256 = missing.body_sha256 AND (own OR redacted.at >= missing.decided_at)
                 LEFT JOIN had_its_time ON had_its_time.body_sha256 = missing.body_sha256
            """,  # noqa: S608 - a moment, a number and words of our own making
        )

    def _count_figures(self, evidence: Evidence) -> dict[str, Any]:
        [totals] = evidence.rows(
            "SELECT count(*) AS bodies, CAST(coalesce(sum(octet_length(body)), 0) AS bigint) AS bytes FROM bodies"
        )
        counted = evidence.rows("SELECT status, count(*) AS count FROM bodiless GROUP BY status")
        counts = {row["status"]: row["count"] for row in counted}
        return {**totals, "redacted": counts.get("redacted", 0), "dropped": counts.get("dropped", 0)}


def _build_unpublished_sql(retained: RetentionState | None) -> str:
    """Returns the SQL condition that a dead letter wasn't on its topic when retention dropped bodies: its body stayed.

    The journal's ``published_upto`` doesn't tell: after a recovery all are published again.
    """
    if retained is None:
        return "false"
    return f"decision = '{Decision.DEAD.value}' AND whole.seq > {retained.published_upto}"


def _build_time_over_sql(retained: RetentionState | None) -> str:
    """Returns the SQL condition that retention could drop a body between a row that refers to it and the next such row.

    The next one may have come when it was gone: a redelivery, a reversal. ``is_last``: no later event brought the body
    again.
    """
    if retained is None:
        return "false"
    return (
        f"is_last AND open = 0 AND unpublished = 0 AND unix_micros(decided_at) < {to_micros(retained.before)} "
        f"AND (next_at IS NULL OR unix_micros(next_at) - unix_micros(decided_at) >= {retained.days * DAY_US})"
    )


@dataclass
class BodyFacts:
    """The view ``body_facts`` (`ledger.verify.body_facts.FACTS`) of all applied rows, made once.

    The engine joins rows and bodies: its scratch folder needs as much room as the bodies.
    """

    bodies: Location
    providers: ProvidersSettings
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_there: bool = False

    def register_once(self, evidence: Evidence) -> None:
        with self._lock:
            if not self._is_there:
                self._register_view(evidence)
                self._is_there = True

    def _register_view(self, evidence: Evidence) -> None:
        applied = (
            f"SELECT {', '.join(COLUMNS[:-1])}, body_sha256 FROM journal "  # noqa: S608 - names of our own
            "WHERE decision = 'applied' AND fact_sha256 IS NOT NULL AND handler_version LIKE 'ledger-%.%'"
        )
        engine = evidence.engine
        if has_table(str(self.bodies)):
            engine.add_delta("kept_bodies", self.bodies, open_table(str(self.bodies)).version())
            rows = (
                f"SELECT {', '.join(COLUMNS)} FROM ({applied}) AS applied LEFT JOIN kept_bodies "  # noqa: S608
                "ON kept_bodies.body_sha256 = applied.body_sha256"
            )
        else:
            rows = f"SELECT {', '.join(COLUMNS[:-1])}, CAST(NULL AS binary) AS body FROM ({applied}) AS applied"  # noqa: S608
        settings = self.providers

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return read_bodies(batches, settings)

        engine.add_read("body_facts", rows, read, FACTS)


_REDACTED = pa.schema(
    [
        *((name, pa.string()) for name in ("body_sha256", "event_key")),
        ("at", TIMESTAMP),
        *((name, pa.bool_()) for name in ("own", "done")),
    ]
)
DAY_US = 86_400_000_000


@dataclass
class BookingsAreInBodies(Invariant):
    """Compares everything but the merchant, which the directory named then and no body does.

    A body that its adapter reads otherwise today is an offence too: that booking can't be derived again.
    """

    facts: BodyFacts
    name = "bookings_are_in_bodies"
    sentence = (
        "Every booking is what its adapter reads in the kept body again: fact, pair, accounts, sides, amount and "
        "currency."
    )

    def check(self, evidence: Evidence) -> Finding:
        self.facts.register_once(evidence)
        offenders = evidence.ask_sample(
            """
            SELECT problem, journal.seq AS seq, journal.event_key AS event_key, event_type, reads, fact_key, postings,
                   handler_version
            FROM journal JOIN body_facts ON body_facts.seq = journal.seq
            WHERE problem IS NOT NULL ORDER BY journal.seq
            """
        )
        [counts] = evidence.rows(
            """
            SELECT count(*) FILTER (WHERE is_read) AS compared, count(*) FILTER (WHERE NOT is_read) AS without_body,
                   count(*) FILTER (WHERE problem IS NOT NULL) AS wrong
            FROM body_facts
            """
        )
        figures = {**counts, "read_by": handler_version(self.facts.providers)}
        without_body = counts["without_body"]
        unknown = f"{without_body} bookings whose bodies were redacted or dropped" if without_body else None
        return self.build_finding(evidence, offenders, figures, unknown)
