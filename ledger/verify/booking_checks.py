"""Invariants of bookings: balance, what was reported, what was taken back, and what was booked by hand."""

from __future__ import annotations

from core.keys import PART_CHARS_MAX
from core.routing import TENANT_MARK
from ledger.accounts import BOOKINGS, PAYOUTS
from ledger.verify.evidence import Evidence
from ledger.verify.fast_path import Doubt
from ledger.verify.report import Finding, Invariant


def _moved(swapped: bool) -> str:
    """The movement that books these two roles, as SQL; with its sides swapped, of an amount below zero."""
    cases = [
        f"WHEN debit = '{(credit if swapped else debit).value}' AND credit = '{(debit if swapped else credit).value}' "
        f"THEN '{movement.value}'"
        for movement, (debit, credit) in BOOKINGS.items()
        if movement in PAYOUTS or not swapped
    ]
    return f"CASE {' '.join(cases)} END"


_FACT = "sha2(concat_ws(char(31), fact, {movement}, coalesce(account, ''), {amount}, currency), 256)"
_KIND = "IF(split_part({line}.account, ':', 3) = 'clearing', 'provider', 'merchant')"
_BOOKED = f"""
    WITH rows AS (
        SELECT seq, event_key, fact_key, fact_sha256, account, tenant, provider, size(parsed) AS size,
               IF(tenant IS NULL, provider, tenant || '{TENANT_MARK}' || provider) AS own,
               IF(tenant IS NULL, fact_key, substring(fact_key, length(tenant) + {len(TENANT_MARK)} + 1)) AS fact,
               try_element_at(filter(parsed, line -> line.side = 'debit'), 1) AS one,
               try_element_at(filter(parsed, line -> line.side = 'credit'), 1) AS other,
               split_part(try_element_at(filter(parsed, line -> line.account LIKE 'provider:%'), 1).account, ':', 2)
                   AS holder,
               size(array_distinct(transform(filter(parsed, line -> line.account LIKE 'merchant:%'),
                                             line -> split_part(line.account, ':', 2)))) AS merchants
        FROM journal LATERAL VIEW explode(array(lines)) AS parsed
        WHERE decision = 'applied' AND postings IS NOT NULL AND fact_sha256 IS NOT NULL
              AND handler_version LIKE 'ledger-%.%'),
    booked AS (
        SELECT seq, event_key, fact_key, fact, fact_sha256, account, tenant, own, holder,
               one.currency, one.amount_minor,
               split_part(one.account, ':', 3) AS debit, split_part(other.account, ':', 3) AS credit,
               size = 2 AND merchants = 1 AND split_part(one.account, ':', 1) = {_KIND.format(line="one")}
               AND split_part(other.account, ':', 1) = {_KIND.format(line="other")} AS known,
               replace(replace(IF(coalesce(account, '') = '', own, own || '/' || account), '%', '%25'), ':', '%3A')
                   AS balance
        FROM rows),
    judged AS (
        SELECT *, holder <> balance AND balance RLIKE '^[ -~]{{1,{PART_CHARS_MAX}}}$' AND (
                   holder = own OR startswith(holder, own || '/')
                   OR NOT IF(tenant IS NULL, holder NOT RLIKE '^[^/]*{TENANT_MARK}',
                             startswith(holder, tenant || '{TENANT_MARK}'))) AS elsewhere
        FROM (SELECT *, {_moved(swapped=False)} AS moved, {_moved(swapped=True)} AS turned FROM booked))
    SELECT CASE WHEN moved IS NULL OR NOT known THEN 'a booking that the chart of accounts does not know'
                WHEN elsewhere THEN 'a booking on another balance than that of its account'
                ELSE 'a booking that is not what was reported' END AS problem,
           seq, event_key, fact_key, debit, credit, holder, amount_minor, currency
    FROM judged
    WHERE moved IS NULL OR NOT known OR elsewhere
       OR NOT (fact_sha256 = {_FACT.format(movement="moved", amount="CAST(amount_minor AS string)")}
               OR (turned IS NOT NULL
                   AND fact_sha256 = {_FACT.format(movement="turned", amount="CAST(-amount_minor AS string)")}))
    ORDER BY seq
"""  # noqa: S608 - words of our own
"""``balance``: the holder by provider, account and tenant. A fact may name one at another provider
(`MoneyFact.holder`); whether that is right shows only in its body."""


class BookingsAreReported(Invariant):
    """A row keeps the hash of the fact that its event reported, so what was booked can be held against it without the
    body. Rows of a handler of one's own aren't looked at.
    """

    name = "bookings_are_reported"
    sentence = (
        "Every booking is the movement, amount, currency and account that its event reported, on the accounts of the "
        "chart."
    )

    def check(self, evidence: Evidence) -> Finding:
        return self.finding(evidence, evidence.sample(_BOOKED))


class Balanced(Invariant):
    name = "balanced"
    sentence = "Every booking's debits equal its credits in each currency, and only what took effect is booked."

    def check(self, evidence: Evidence) -> Finding:
        offenders = evidence.search(
            Doubt.BALANCE,
            """
            SELECT seq, event_key, decision, postings
            FROM journal LATERAL VIEW explode(array(lines)) AS parsed
            WHERE postings IS NOT NULL AND (NOT books OR NOT coalesce(
                   size(parsed) > 1
                   AND forall(parsed, line -> line.account IS NOT NULL AND line.currency IS NOT NULL
                                             AND line.side IN ('debit', 'credit') AND line.amount_minor > 0)
                   AND forall(array_distinct(transform(parsed, line -> line.currency)), code ->
                       aggregate(parsed, 0L, (sum, line) -> sum + CASE
                           WHEN line.currency <> code THEN 0L
                           WHEN line.side = 'debit' THEN line.amount_minor
                           ELSE -line.amount_minor END) = 0L),
                   false))
            """,
        )
        return self.finding(evidence, offenders)


class ReversalsMirrorBookings(Invariant):
    name = "reversals_mirror_bookings"
    sentence = "Every reversing entry takes back one booking whole, once, and names the approval that caused it."

    def check(self, evidence: Evidence) -> Finding:
        fast = evidence.fast_path()
        if fast.clears(Doubt.READ) and not fast.reversed_items:
            return self.finding(evidence, (), {"reversals": 0})
        offenders = evidence.sample(
            """
            WITH entries AS (
                SELECT seq, item_seq, cause_seq, array_sort(transform(lines, line -> named_struct(
                    'account', line.account, 'side', IF(line.side = 'debit', 'credit', 'debit'),
                    'amount_minor', line.amount_minor, 'currency', line.currency))) AS taken_back
                FROM journal WHERE decision = 'reversed' AND NOT first),
            bookings AS (
                SELECT item_seq AS booked_item, array_sort(lines) AS booked
                FROM whole
                WHERE decision = 'applied' AND postings IS NOT NULL
                  AND item_seq IN (SELECT /*+ BROADCAST(entries) */ item_seq FROM entries)),
            approvals AS (
                SELECT seq AS approved_by
                FROM whole WHERE decision = 'reversed' AND first AND event_type = 'reverse')
            SELECT item_seq, min(seq) AS seq, count(*) AS reversals, count(booked_item) AS bookings,
                   count(approved_by) AS approvals, bool_and(coalesce(booked = taken_back, false)) AS mirrored
            FROM entries LEFT JOIN bookings ON booked_item = item_seq LEFT JOIN approvals ON approved_by = cause_seq
            GROUP BY item_seq
            HAVING reversals <> 1 OR bookings <> 1 OR approvals <> 1 OR NOT mirrored
            """
        )
        return self.finding(evidence, offenders, {"reversals": len(fast.reversed_items)})


class ReprocessedWereIgnored(Invariant):
    name = "reprocessed_were_ignored"
    sentence = "What was taken up again had been ignored until then, and a command that was given for it is its cause."

    def check(self, evidence: Evidence) -> Finding:
        fast = evidence.fast_path()
        count = len(fast.reopened_items)
        if fast.clears(Doubt.READ, Doubt.ITEMS) and not count:
            return self.finding(evidence, (), {"reprocessed": 0})
        offenders = evidence.sample(
            """
            WITH openings AS (SELECT DISTINCT item_seq FROM journal WHERE decision = 'replayed' AND NOT first),
            of_items AS (
                SELECT item_seq, seq, cause_seq, decision, event_key, first,
                       lag(decision) OVER (PARTITION BY item_seq ORDER BY seq) AS was,
                       lag(closes) OVER (PARTITION BY item_seq ORDER BY seq) AS was_closed
                FROM whole
                WHERE item_seq IN (SELECT /*+ BROADCAST(openings) */ item_seq FROM openings)
                  AND decision <> 'reversed'),
            reopenings AS (
                SELECT item_seq, seq, cause_seq, was, event_key
                FROM of_items
                WHERE decision = 'replayed' AND NOT first AND coalesce(was_closed, true)),
            commands AS (
                SELECT seq AS given_by FROM whole WHERE decision = 'replayed' AND first AND event_type = 'reprocess')
            SELECT item_seq, seq, was, cause_seq
            FROM reopenings LEFT JOIN commands ON given_by = cause_seq
            WHERE NOT (was <=> 'ignored') OR given_by IS NULL OR event_key IS NULL
            """
        )
        return self.finding(evidence, offenders, {"reprocessed": count})


_ENTRIES = """
    WITH entries AS (
        SELECT seq, event_key, fact_key, fact_sha256, event_type, postings, actor
        FROM journal WHERE decision = 'applied' AND provider = 'payhook'),
    proposals AS (
        SELECT seq AS proposed_in, event_key AS proposal, actor AS proposer
        FROM whole WHERE decision = 'resolved' AND event_type = 'propose_entry' AND first
          AND event_key IN (SELECT /*+ BROADCAST(entries) */ fact_key FROM entries))
    SELECT * FROM (
        SELECT CASE
                   WHEN NOT event_type <=> 'book_entry' OR postings IS NULL THEN 'it is no entry'
                   WHEN proposed_in IS NULL OR proposed_in >= seq THEN 'it was not proposed before'
                   WHEN lower(trim(proposer)) <=> lower(trim(actor)) THEN 'one person proposed and approved it'
                   WHEN NOT fact_sha256 <=> sha2(postings, 256) THEN 'its lines are not those that were approved'
               END AS problem, seq, event_key, proposal, proposer, actor
        FROM entries LEFT JOIN proposals ON proposal = fact_key)
    WHERE problem IS NOT NULL ORDER BY seq
"""


class EntriesHaveTwoPeople(Invariant):
    """A row of an entry has its proposal as its fact, and the hash of its lines."""

    name = "entries_have_two_people"
    sentence = "What was booked by hand is what one person proposed before and another one approved."

    def check(self, evidence: Evidence) -> Finding:
        return self.finding(evidence, evidence.sample(_ENTRIES))
