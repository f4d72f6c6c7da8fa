"""The invariant between what was given back and what was captured of the same payment."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pyspark import StorageLevel

from ledger.verify.evidence import Evidence
from ledger.verify.invariant import Finding
from ledger.verify.survey import Doubt

FROM_POSTINGS = "SELECT seq, fact_key, entity_key, account, side, amount_minor, currency, decided_at FROM every_line"

FROM_JOURNAL = """
    SELECT seq, fact_key, entity_key, posting.account, posting.side, posting.amount_minor, posting.currency, decided_at
    FROM whole LATERAL VIEW explode(lines) AS posting
    WHERE books AND postings IS NOT NULL
"""

GIVEN_BACK = """
    WITH moved AS (
        SELECT seq, entity_key, currency, decided_at, split_part(account, ':', 3) AS role,
               split_part(fact_key, ':', 1) || ':' || split_part(fact_key, ':', 2) AS named,
               IF(side = 'credit', amount_minor, -amount_minor) AS minor
        FROM ({lines})
        WHERE account LIKE 'merchant:%:payable' OR account LIKE 'merchant:%:refunds'),
    refunds AS (
        SELECT entity_key, currency, -sum(minor) AS refunded, min(decided_at) AS since, min(seq) AS seq,
               split_part(entity_key, ':', 1) || ':' || split_part(entity_key, ':', 3) AS payment
        FROM moved WHERE role = 'refunds' AND entity_key IS NOT NULL GROUP BY entity_key, currency
        HAVING refunded > 0),
    captures AS (
        SELECT entity_key, currency, sum(minor) AS captured
        FROM moved LEFT SEMI JOIN refunds USING (entity_key, currency)
        WHERE role = 'payable' GROUP BY entity_key, currency),
    named AS (
        SELECT moved.named AS payment, moved.currency, sum(minor) AS captured
        FROM moved LEFT SEMI JOIN refunds ON refunds.payment = moved.named AND refunds.currency = moved.currency
        WHERE role = 'payable' GROUP BY moved.named, moved.currency)
    SELECT refunds.entity_key, refunds.currency, refunds.refunded, refunds.since, refunds.seq,
           coalesce(nullif(captures.captured, 0), named.captured, 0) AS captured
    FROM refunds LEFT JOIN captures USING (entity_key, currency)
                 LEFT JOIN named ON named.payment = refunds.payment AND named.currency = refunds.currency
    WHERE refunds.refunded > coalesce(nullif(captures.captured, 0), named.captured, 0)
"""
"""Payments of which more was given back than captured. A refund whose provider doesn't tell the payment is of the
capture that it names: its fact's id is then the entity's payment."""


class RefundsHaveCaptures:
    name = "refunds_have_captures"
    sentence = (
        "No more is given back than was captured, and a refund that came first doesn't wait long for its capture."
    )

    def check(self, evidence: Evidence) -> Finding:
        survey = evidence.survey()
        if survey.clears(Doubt.READ, Doubt.BALANCE) and survey.refund_lines == 0:
            unknown = None if evidence.is_whole else "payments of which nothing was given back since"
            return Finding(self.name, self.sentence, (), {"awaiting": 0}, unknown)
        lines = FROM_JOURNAL if evidence.postings_mark is None else FROM_POSTINGS
        given_back = evidence.session.sql(GIVEN_BACK.format(lines=lines)).persist(StorageLevel.MEMORY_AND_DISK)
        given_back.createOrReplaceTempView("given_back")
        limit = evidence.now - timedelta(seconds=evidence.refund_awaits_s_max)
        late = f"(captured > 0 OR since < timestamp'{limit.isoformat()}')"
        try:
            offenders = [
                _offender(one)
                for one in evidence.sample(f"SELECT * FROM given_back WHERE {late} ORDER BY seq")  # noqa: S608 - a moment of our own making
            ]
            [counts] = evidence.rows(
                f"SELECT count(*) AS awaiting, min(since) AS oldest FROM given_back WHERE NOT {late}"  # noqa: S608
            )
            waiting = evidence.sample(f"SELECT * FROM given_back WHERE NOT {late} ORDER BY seq")  # noqa: S608
        finally:
            given_back.unpersist()
        told = {"payments": [one["entity_key"] for one in waiting]} if waiting else {}
        return Finding(self.name, self.sentence, tuple(offenders), {**counts, **told})


def _offender(one: dict[str, Any]) -> dict[str, Any]:
    problem = "more was given back than captured" if one["captured"] > 0 else "a refund waits too long for its capture"
    return {"problem": problem, **one}
