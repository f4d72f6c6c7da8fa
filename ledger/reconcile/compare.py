"""Step 2: every line against every booked fact, as Spark jobs over views of pinned tables.

Both sides are what a movement does to the provider's clearing account, since that is what the report is about: a
dispute that is lost for good touches no clearing, so no report can lack it. A fact's lines are summed, so a booking
that was reversed counts for what is left of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from core.clock import to_micros
from core.keys import key_part
from core.routing import of_tenant
from ledger.postings import BOOKING_DECISIONS, POSTINGS_TYPE


@dataclass(frozen=True, slots=True)
class ComparisonScope:
    """The facts that are compared. ``until`` is excluded where ``to_excluded``.

    ``always``: roles that every such report lists. ``account``: whose report it is, where its lines don't name it.
    """

    provider: str
    tenant: str | None
    account: str | None
    since: datetime | None
    until: datetime | None
    to_excluded: bool
    always: Collection[str]

    @property
    def key_prefix(self) -> str:
        return of_tenant(self.tenant, self.provider) + ":"

    def build_literals(self) -> dict[str, str]:
        """Returns the SQL literals by their names in the views. Spark 4.2 left a parameter beside a generator unbound,
        so they aren't parameters.
        """
        return {
            "provider": _quote_literal(self.provider),
            "prefix": _quote_literal(self.key_prefix),
            "account": "NULL" if self.account is None else _quote_literal(key_part(self.account)),
            "since": _format_time(self.since),
            "until": _format_time(self.until),
            "to_excluded": str(self.to_excluded).lower(),
            "always": ", ".join(map(_quote_literal, self.always)),
            "booking": ", ".join(map(_quote_literal, sorted(BOOKING_DECISIONS))),
            "postings": _quote_literal(POSTINGS_TYPE),
        }


KEPT = frozenset({"facts", "lines", "reported", "unmatched"})


def register_views(session: SparkSession, scope: ComparisonScope) -> list[DataFrame]:
    """Makes the views ``facts``, ``reported``, ``others`` and ``unmatched`` of ``staged``, ``postings`` and
    ``journal``.

    ``reflected`` of ``journal`` says which rows the postings have. ``facts``: one row a booked fact, net. ``reported``:
    one row a fact of the report. ``others``: its further lines. ``unmatched``: facts of the report's accounts and
    period that it doesn't list. Returns the cached ones: unpersist them when the queries are done.
    """
    literals, kept = scope.build_literals(), []
    for name, sql in _VIEWS.items():
        view = session.sql(sql.format(**literals))
        if name in KEPT:
            kept.append(view.persist(StorageLevel.MEMORY_AND_DISK))
        view.createOrReplaceTempView(name)
    return kept


def find_differences(session: SparkSession) -> DataFrame:
    return session.sql(_DIFFERENCES)


def count_figures(session: SparkSession) -> dict[str, int]:
    [row] = session.sql(_FIGURES).toArrow().to_pylist()
    return {name: int(count) for name, count in row.items()}


def sum_kind_totals(session: SparkSession) -> list[dict[str, Any]]:
    sums: list[dict[str, Any]] = session.sql(_TOTALS).toArrow().to_pylist()
    return sums


def _quote_literal(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _format_time(value: datetime | None) -> str:
    return "CAST(NULL AS TIMESTAMP)" if value is None else f"timestamp_micros({to_micros(value)})"


_NAMED = "regexp_replace(fact_key, ':[^:]*[.]dispute_won$', ':dispute_won')"
"""A fact's name as reports know it: the rounds of a dispute have no names of their own there."""

_VIEWS = {
    "booked_lines": f"""
        SELECT seq, event_key, {_NAMED} AS fact_key, entity_key, provider, account, side, amount_minor, currency,
               coalesce(occurred_at, decided_at) AS occurred_at
        FROM postings
        UNION ALL
        SELECT seq, event_key, {_NAMED}, entity_key, provider, posting.account, posting.side, posting.amount_minor,
               posting.currency, coalesce(occurred_at, decided_at)
        FROM journal LATERAL VIEW explode(from_json(postings, {{postings}})) AS posting
        WHERE NOT reflected AND decision IN ({{booking}}) AND postings IS NOT NULL
        """,  # noqa: S608 - made of constants
    "facts": """
        SELECT fact_key,
               sum(CASE WHEN account NOT LIKE 'provider:%' THEN 0
                        WHEN side = 'debit' THEN amount_minor ELSE -amount_minor END) AS minor,
               min_by(currency, seq) AS currency,
               max(CASE WHEN account LIKE 'merchant:%' THEN split_part(account, ':', 3) END) AS role,
               min(seq) AS seq,
               min_by(event_key, seq) AS event_key,
               min_by(entity_key, seq) AS entity_key,
               split_part(substring(min_by(entity_key, seq), length({prefix}) + 1), ':', 1) AS account_part,
               min_by(occurred_at, seq) AS occurred_at
        FROM booked_lines
        WHERE provider = {provider} AND startswith(entity_key, {prefix}) AND fact_key IS NOT NULL
        GROUP BY fact_key
        HAVING count_if(account LIKE 'provider:%') > 0
        """,
    "lines": """
        SELECT staged.* EXCEPT (fact_key), coalesce(facts.fact_key, staged.fact_key) AS fact_key
        FROM staged LEFT JOIN facts ON facts.fact_key = staged.or_fact_key
        """,
    "ranked": "SELECT *, row_number() OVER (PARTITION BY fact_key ORDER BY line) AS place FROM lines WHERE NOT adds",
    "reported": """
        SELECT ranked.line, ranked.fact_key, movement, role, account, account_part, payment, entity_key, pair,
               ranked.minor + coalesce(more.minor, 0) AS minor, currency, occurred_at
        FROM ranked
        LEFT JOIN (SELECT fact_key, sum(minor) AS minor FROM lines WHERE adds GROUP BY fact_key) AS more
             ON more.fact_key = ranked.fact_key
        WHERE place = 1
        """,
    "others": "SELECT * FROM ranked WHERE place > 1",
    "accounts": """
        SELECT account_part FROM lines UNION SELECT {account} WHERE {account} IS NOT NULL
        """,
    "unmatched": """
        SELECT facts.*, role IN ({always}) OR of_lines.listed_role IS NOT NULL AS listed
        FROM facts
        LEFT SEMI JOIN accounts ON accounts.account_part = facts.account_part
        LEFT ANTI JOIN lines ON lines.fact_key = facts.fact_key
        LEFT JOIN (SELECT DISTINCT role AS listed_role FROM lines) AS of_lines ON of_lines.listed_role = facts.role
        WHERE minor <> 0
          AND ({since} IS NULL OR occurred_at >= {since})
          AND ({until} IS NULL OR occurred_at < {until} OR (NOT {to_excluded} AND occurred_at = {until}))
        """,
    "decided": """
        SELECT fact_key,
               max_by(decision, place) AS decision,
               max_by(event_key, place) AS event_key,
               max_by(seq, place) AS seq,
               bool_or(decision NOT IN ('ignored', 'unknown', 'duplicate')) AS held
        FROM (SELECT fact_key, decision, event_key, seq,
                     struct(decision NOT IN ('duplicate', 'duplicate_fact') AS decides, seq) AS place
              FROM journal
              LEFT SEMI JOIN reported ON reported.fact_key = journal.fact_key
              LEFT ANTI JOIN facts ON facts.fact_key = journal.fact_key)
        GROUP BY fact_key
        """,
}

_DIFFERENCES = """
    SELECT CASE WHEN facts.fact_key IS NULL THEN 'missing_here'
                WHEN facts.currency <> reported.currency THEN 'currency_differs'
                WHEN facts.minor <> reported.minor THEN 'amount_differs'
                ELSE 'account_differs' END AS kind,
           reported.fact_key, reported.movement, reported.account, reported.payment, reported.entity_key,
           reported.minor AS reported_minor, reported.currency AS reported_currency,
           facts.minor AS booked_minor, facts.currency AS booked_currency,
           coalesce(facts.event_key, decided.event_key) AS event_key, coalesce(facts.seq, decided.seq) AS seq,
           CASE WHEN facts.fact_key IS NULL THEN decided.decision ELSE 'applied' END AS decision,
           facts.fact_key IS NULL AND NOT coalesce(decided.held, false) AS absent,
           reported.occurred_at, reported.line, reported.pair
    FROM reported
    LEFT JOIN facts ON facts.fact_key = reported.fact_key
    LEFT JOIN decided ON decided.fact_key = reported.fact_key
    WHERE (facts.fact_key IS NULL AND reported.minor <> 0) OR facts.currency <> reported.currency
       OR facts.minor <> reported.minor OR facts.account_part <> reported.account_part
    UNION ALL
    SELECT 'twice', others.fact_key, others.movement, others.account, others.payment, others.entity_key,
           others.minor, others.currency, facts.minor, facts.currency, facts.event_key, facts.seq,
           CASE WHEN facts.fact_key IS NULL THEN NULL ELSE 'applied' END, false, others.occurred_at, others.line,
           others.pair
    FROM others LEFT JOIN facts ON facts.fact_key = others.fact_key
    UNION ALL
    SELECT 'missing_there', fact_key, NULL, account_part, NULL, entity_key, NULL, NULL, minor, currency, event_key, seq,
           'applied', false, occurred_at, NULL, NULL
    FROM unmatched WHERE listed
    """

_FIGURES = """
    SELECT (SELECT count(*) FROM reported) AS compared,
           (SELECT count(*) FROM unmatched WHERE NOT listed AND role <> 'fees') AS unlisted,
           (SELECT count(*) FROM lines LEFT ANTI JOIN ranked ON ranked.fact_key = lines.fact_key WHERE adds)
               AS adding_to_none
    """

_TOTALS = """
    SELECT role, currency, sum(reported) AS reported, sum(reported_minor) AS reported_minor,
           sum(booked) AS booked, sum(booked_minor) AS booked_minor
    FROM (
        SELECT role, currency, 1L AS reported, minor AS reported_minor, 0L AS booked, 0L AS booked_minor FROM lines
        UNION ALL
        SELECT role, currency, 0L, 0L, 1L, minor FROM facts LEFT SEMI JOIN reported USING (fact_key)
        UNION ALL
        SELECT role, currency, 0L, 0L, 1L, minor FROM unmatched WHERE listed OR role = 'fees')
    GROUP BY role, currency
    """
