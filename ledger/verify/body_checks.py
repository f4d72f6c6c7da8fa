"""Invariants of the raw bodies, which only ``--deep`` asks for: they read every byte of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from core.clock import to_micros
from core.decision import Decision
from core.errors import PayhookError
from core.keys import key_part
from core.location import Location
from core.money import MoneyFact
from core.routing import of_tenant
from core.work import postings_to_json
from journal.bodies import BodyStore
from journal.index_changes import EMPTY_SHA256
from journal.lake import has_table, open_table
from journal.schema import TIMESTAMP, pair_of
from ledger.accounts import book_fact, holder_of
from ledger.handler import handler_version
from ledger.redactions import Redactions, RetentionState
from ledger.verify.evidence import Evidence
from ledger.verify.report import Finding, Invariant
from providers.port import Adapter
from providers.reconciled import choose_reader
from providers.registry import build_adapters
from providers.settings import ProvidersSettings

COLUMNS = (
    *("seq", "event_key", "entity_key", "provider", "event_type", "tenant", "fact_key", "fact_sha256"),
    *("handler_version", "postings", "pair", "body"),
)
"""Of an applied row, and its body: NULL where it isn't kept."""

FACTS = "seq bigint, event_key string, entity_key string, is_read boolean, payment string, problem string, reads string"
"""One for each row. ``is_read``: there was a body. ``payment``: as entity keys spell it. ``problem``: what is wrong,
NULL if nothing is. ``reads``: what the adapter reads, where something is wrong."""

UNREADABLE = "its adapter can't read the body that was booked"
TEXT_CHARS_MAX = 300
_MERCHANT = "any"


class BodyFact(NamedTuple):
    """A row of `FACTS`, without the columns of the journal."""

    payment: str | None
    problem: str | None = None
    reads: str | None = None


def read_bodies(batches: Iterator[pa.RecordBatch], settings: ProvidersSettings) -> Iterator[pa.RecordBatch]:
    adapters = build_adapters(settings)
    for batch in batches:
        rows = batch.to_pylist()
        facts = [read_body_fact(row, adapters) if row["body"] is not None else BodyFact(None) for row in rows]
        columns: list[list[Any]] = [
            *([row[name] for row in rows] for name in ("seq", "event_key", "entity_key")),
            [row["body"] is not None for row in rows],
            *([getattr(fact, name) for fact in facts] for name in BodyFact._fields),
        ]
        text = pa.string()
        types = (pa.int64(), text, text, pa.bool_(), text, text, text)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, [field.split()[0] for field in FACTS.split(", ")])


def read_body_fact(row: Mapping[str, Any], adapters: Mapping[str, Adapter]) -> BodyFact:
    adapter = adapters.get(row["provider"])
    if adapter is None:
        return BodyFact(None, problem=f"there is no adapter for {row['provider']} any more")
    try:
        fact = choose_reader(adapter, row["event_type"]).money(row["body"], row["event_type"])
    except PayhookError as refused:
        return BodyFact(None, problem=UNREADABLE, reads=str(refused)[:TEXT_CHARS_MAX])
    except Exception as bug:
        # One body that its adapter fails on must not hide the others. Its text may quote the body.
        return BodyFact(None, problem=UNREADABLE, reads=type(bug).__name__)
    if fact is None:
        return BodyFact(None, problem="its adapter reads no money in the body that was booked")
    payment = None if fact.payment is None else key_part(fact.payment)
    problem = _find_problem(row, fact)
    return BodyFact(payment, problem, None if problem is None else _describe_fact(fact))


def _find_problem(row: Mapping[str, Any], fact: MoneyFact) -> str | None:
    if of_tenant(row["tenant"], fact.fact_key) != row["fact_key"] or fact.sha256 != row["fact_sha256"]:
        return "its adapter reads another fact in the body than was reported"
    pair = None
    if fact.pair_key is not None:
        pair = pair_of(of_tenant(row["tenant"], fact.pair_key), undoes=fact.is_pair_end)
    if row["pair"] is not None and row["pair"] != pair:
        return "its adapter reads another pair in the body than was reported"
    if row["postings"] is None:
        # Whether it may be so is said by the promise about undos.
        return None if row["pair"] is not None else "what the body reports was applied and isn't booked"
    provider, account = fact.holder or (row["provider"], fact.account)
    booking = book_fact(fact, holder_of(provider, account, row["tenant"]), _MERCHANT, row["tenant"])
    expected = _strip_merchants(orjson.loads(postings_to_json(booking) or "[]"))
    booked = _strip_merchants(orjson.loads(row["postings"]))
    return None if booked == expected else "the booking isn't what the body reports"


def _strip_merchants(lines: list[dict[str, Any]]) -> list[tuple[str, str, int, str]]:
    return [(_strip_merchant(line["account"]), line["side"], line["amount_minor"], line["currency"]) for line in lines]


def _strip_merchant(account: str) -> str:
    kind, _, rest = account.partition(":")
    return f"merchant:{rest.rpartition(':')[2]}" if kind == "merchant" else account


def _describe_fact(fact: MoneyFact) -> str:
    money = fact.money
    return f"{fact.fact_key}: {fact.movement.value} of {money.amount_minor} {money.currency}, account {fact.account!r}"


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
    """The view ``body_facts`` (`ledger.verify.body_checks.FACTS`) of all applied rows, made once.

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
