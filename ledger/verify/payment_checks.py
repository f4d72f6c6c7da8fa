"""Invariants of each payment: what was given back, what was undone, and whose it is."""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from typing import Any

from pyspark import StorageLevel

from ledger.verify.body_checks import BodyFacts
from ledger.verify.evidence import Evidence
from ledger.verify.fast_path import Doubt
from ledger.verify.report import Finding, Invariant
from ledger.verify.views import collect

_COLUMNS = "seq, event_key, fact_key, entity_key"
FROM_POSTINGS = f"SELECT {_COLUMNS}, account, side, amount_minor, currency, decided_at, mine FROM every_line"  # noqa: S608

FROM_JOURNAL = f"""
    SELECT {_COLUMNS}, posting.account, posting.side, posting.amount_minor, posting.currency, decided_at, mine
    FROM every_row LATERAL VIEW explode(lines) AS posting
    WHERE books AND postings IS NOT NULL
"""  # noqa: S608 - words of our own

_NAMED = """
    SELECT seq, event_key, fact_key, account, side, amount_minor, currency, decided_at, mine,
           IF(payment IS NULL OR size(split(entity_key, ':')) > 2, entity_key, entity_key || ':' || payment)
               AS entity_key
    FROM ({lines}) LEFT JOIN (
        SELECT event_key AS of_event, max(payment) AS payment
        FROM body_facts LEFT ANTI JOIN (
            SELECT entity_key FROM body_facts WHERE NOT is_read OR (payment IS NULL AND problem IS NOT NULL))
            USING (entity_key)
        WHERE payment IS NOT NULL GROUP BY event_key)
    ON event_key = of_event
"""
"""Where the entity is a merchant account as a whole, the payment that the body names is put after it. An account of
which one body is gone or can't be read stays whole: a refund would lack its capture by that alone."""

_MOVED = """
    SELECT seq, entity_key, fact_key, account, currency, decided_at, mine,
           split_part(account, ':', 2) AS merchant, split_part(account, ':', 3) AS role,
           coalesce(fact_key LIKE '%:payout_failed', false) AS payout_failed,
           split_part(fact_key, ':', 1) || ':' || split_part(fact_key, ':', 2) AS named,
           IF(side = 'debit', amount_minor, -amount_minor) AS minor
    FROM ({lines})
    WHERE account LIKE 'merchant:%' AND entity_key IS NOT NULL
"""
"""The lines of all shards: a payment may have been another journal's before its shard began. Only its shard judges it
(``mine``)."""

_GIVEN_BACK = """
    WITH moved AS ({moved}),
    gone AS (
        SELECT entity_key, currency,
               sum(IF(role = 'refunds', minor, 0)) AS refunded, sum(IF(role = 'refunds', 0, minor)) AS disputed,
               min(decided_at) AS since, min(IF(role = 'refunds', NULL, decided_at)) AS disputed_since,
               min(seq) AS seq, split_part(entity_key, ':', 1) || ':' || split_part(entity_key, ':', 3) AS payment
        FROM moved WHERE mine AND role IN ('refunds', 'disputes', 'dispute_losses') GROUP BY entity_key, currency
        HAVING refunded + disputed > 0),
    captures AS (
        SELECT entity_key, currency, -sum(minor) AS captured
        FROM moved LEFT SEMI JOIN gone USING (entity_key, currency)
        WHERE role = 'payable' GROUP BY entity_key, currency),
    named AS (
        SELECT moved.named AS payment, moved.currency, -sum(minor) AS captured
        FROM moved LEFT SEMI JOIN gone ON gone.payment = moved.named AND gone.currency = moved.currency
        WHERE role = 'payable' GROUP BY moved.named, moved.currency),
    held AS (
        SELECT gone.*, coalesce(nullif(captures.captured, 0), named.captured, 0) AS captured
        FROM gone LEFT JOIN captures USING (entity_key, currency)
                  LEFT JOIN named ON named.payment = gone.payment AND named.currency = gone.currency)
    SELECT entity_key, currency, refunded, disputed, captured, seq,
           IF(captured > 0 AND refunded <= captured, disputed_since, since) AS since,
           captured > 0 AND refunded > captured AS at_once
    FROM held WHERE refunded + disputed > captured
"""
"""Payments of which more was given back than captured. A refund whose provider doesn't name the payment is of the
capture that it names: its fact's id is then the entity's payment."""

_UNDONE = """
    WITH moved AS ({moved}),
    ways AS (
        SELECT entity_key, currency, seq, decided_at, role, minor, payout_failed,
               IF(role = 'payable', -minor, minor) AS forward,
               CASE role WHEN 'payable' THEN 'capture' WHEN 'refunds' THEN 'refund' WHEN 'disputes' THEN 'dispute'
                         ELSE 'payout' END AS movement
        FROM moved WHERE mine AND role IN ('payable', 'refunds', 'disputes', 'payouts')),
    steps AS (
        SELECT *, CASE WHEN role <> 'payouts' THEN greatest(forward, 0L)
                       WHEN payout_failed THEN 0L ELSE minor END AS does,
                  CASE WHEN role <> 'payouts' THEN greatest(-forward, 0L)
                       WHEN payout_failed THEN -minor ELSE 0L END AS undoes
        FROM ways)
    SELECT entity_key, currency, movement, sum(does) AS done, sum(undoes) AS undone,
           min(IF(undoes <> 0, seq, NULL)) AS seq, min(IF(undoes <> 0, decided_at, NULL)) AS since,
           sum(does) <> 0 AS at_once
    FROM steps GROUP BY entity_key, currency, movement
    HAVING (undone > 0 AND undone > done) OR (undone < 0 AND undone < done)
"""
"""By movement: what was done, and what was undone of it. A payout below zero and one that failed touch the same sides,
so its fact's name tells them apart. A lost dispute ends a dispute as a won one does."""

_MERCHANTS = """
    WITH moved AS ({moved}),
    standing AS (
        SELECT entity_key, merchant, min(seq) AS seq
        FROM moved WHERE mine AND size(split(entity_key, ':')) > 2
        GROUP BY entity_key, merchant, account, fact_key, currency HAVING sum(minor) <> 0)
    SELECT 'the bookings of one payment name several merchants' AS problem,
           entity_key, sort_array(collect_set(merchant)) AS merchants, max(seq) AS seq
    FROM standing GROUP BY entity_key HAVING count(DISTINCT merchant) > 1
    ORDER BY seq
"""
"""A booking that was reversed stands for none: it and its reversal have one fact."""


class _OfPayments(Invariant):
    """``bodies``: what names the payment where the entity doesn't, under ``--deep``. ``sql`` finds offenders, and what
    may still be put right by an event that is under way.
    """

    doubt: Doubt
    sql: str

    def __init__(self, bodies: BodyFacts | None = None) -> None:
        self.bodies = bodies

    def _is_cleared(self, evidence: Evidence) -> bool:
        fast = evidence.fast_path()
        if not fast.clears(Doubt.READ, Doubt.BALANCE):
            return False
        if not evidence.is_whole:
            return fast.taken_back == 0
        return fast.clears(self.doubt) and not self._names_by_body(evidence)

    def _names_by_body(self, evidence: Evidence) -> bool:
        fast = evidence.fast_path()
        may_be = fast.nameless > 0 or not fast.clears(Doubt.READ, Doubt.BALANCE)
        return self.bodies is not None and evidence.is_whole and may_be

    def _sql(self, evidence: Evidence) -> str:
        lines = FROM_POSTINGS if evidence.has_every_line else FROM_JOURNAL
        if self.bodies is not None and self._names_by_body(evidence):
            self.bodies.register(evidence)
            lines = _NAMED.format(lines=lines)
        return self.sql.format(moved=_MOVED.format(lines=lines))

    def _unknown(self, evidence: Evidence) -> str | None:
        fast = evidence.fast_path()
        since = "" if evidence.is_whole or fast.taken_back else "payments of which nothing was taken back since"
        by_body = "--deep reads it in the bodies" if self.bodies is None else "bodies that are kept name it"
        nameless = f"payments by themselves: {fast.nameless} bookings name a merchant account as a whole; {by_body}"
        return "; ".join([one for one in (since, nameless if fast.nameless else "") if one]) or None


class _Awaited(_OfPayments):
    """What is wrong now may still be put right by an event that is under way: after a while it is an offence."""

    @abstractmethod
    def problem_of(self, one: dict[str, Any]) -> str:
        """What is wrong with an offender."""

    def check(self, evidence: Evidence) -> Finding:
        unknown = self._unknown(evidence)
        if self._is_cleared(evidence):
            return self.finding(evidence, (), {"awaiting": 0}, unknown)
        found, figures = self._looked_up(evidence)
        offenders = ({"problem": self.problem_of(one), **one} for one in found)
        return self.finding(evidence, offenders, figures, unknown)

    def _looked_up(self, evidence: Evidence) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Offenders, and the figures of those that may still be put right by an event that is under way."""
        found = evidence.session.sql(self._sql(evidence)).persist(StorageLevel.MEMORY_AND_DISK)
        limit = evidence.now - timedelta(days=evidence.limits.refund_awaits_days_max)
        late = f"(at_once OR since < timestamp'{limit.isoformat()}')"
        try:
            offenders, waiting = (
                collect(found.where(which).drop("at_once").orderBy("seq").limit(evidence.sample_max))
                for which in (late, f"NOT {late}")
            )
            [counts] = collect(found.where(f"NOT {late}").selectExpr("count(*) AS awaiting", "min(since) AS oldest"))
        finally:
            found.unpersist()
        return offenders, {**counts, **({"payments": [one["entity_key"] for one in waiting]} if waiting else {})}


class RefundsHaveCaptures(_Awaited):
    name = "refunds_have_captures"
    sentence = (
        "No more is given back or withheld than was captured, and a refund that came first doesn't wait long for its "
        "capture."
    )
    doubt = Doubt.GIVEN_BACK
    sql = _GIVEN_BACK

    def problem_of(self, one: dict[str, Any]) -> str:
        if one["refunded"] > one["captured"] > 0:
            return "more was given back than captured"
        if one["captured"] > 0:
            return "more was given back and withheld than captured"
        return f"a {'refund' if one['refunded'] > 0 else 'dispute'} waits too long for its capture"


class UndosHaveMovements(_Awaited):
    name = "undos_have_movements"
    sentence = (
        "No more is undone than was done: of a payment's captures, refunds and disputes, and of a payout; an undo that "
        "came first doesn't wait long."
    )
    doubt = Doubt.UNDONE
    sql = _UNDONE

    def problem_of(self, one: dict[str, Any]) -> str:
        if one["done"]:
            return f"more of a {one['movement']} was undone than was done"
        return f"a {one['movement']} was undone that was never done"


class OneMerchantAPayment(_OfPayments):
    name = "one_merchant_a_payment"
    sentence = "All bookings of one payment are one merchant's."
    doubt = Doubt.MERCHANTS
    sql = _MERCHANTS

    def check(self, evidence: Evidence) -> Finding:
        cleared = self._is_cleared(evidence)
        offenders = [] if cleared else evidence.sample(self._sql(evidence))
        return self.finding(evidence, offenders, unknown=self._unknown(evidence))
