"""Invariants of the journal by itself: its chain, its numbers, its keys, its items, its bookings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from journal.chain import GENESIS, extend
from ledger.verify.evidence import Evidence
from ledger.verify.invariant import Finding
from ledger.verify.survey import Doubt
from ledger.verify.survey.commits import CommitDigest


class ChainWhole:
    name = "chain_whole"
    sentence = "No row was changed, removed or put in after its commit: every hash and the chain over them hold."

    def check(self, evidence: Evidence) -> Finding:
        commits = evidence.commits()
        offenders = list(islice(self._offenders(commits, evidence), evidence.sample_max))
        unknown = None if evidence.base.chain is not None else "the chain: no anchor tells its head before these rows"
        return Finding(self.name, self.sentence, tuple(offenders), {"commits": len(commits)}, unknown)

    def _offenders(self, commits: Sequence[CommitDigest], evidence: Evidence) -> Iterator[dict[str, Any]]:
        head, epoch = evidence.base.chain or GENESIS, 0
        for commit in commits:
            head = extend(head, commit.digest)
            if commit.wrong_hashes:
                wrong = {"seq": commit.wrong_seq, "rows": commit.wrong_hashes}
                yield {"problem": "rows aren't what their hash says"} | wrong
            if commit.epoch_first < epoch or commit.epoch_first != commit.epoch_last:
                yield {"problem": "an epoch wrote after its successor", "batch_seq": commit.batch_seq, "epoch": epoch}
            epoch = max(epoch, commit.epoch_last)
        if evidence.base.chain is not None and head != evidence.state.chain:
            heads = {"computed": head, "recorded": evidence.state.chain}
            yield {"problem": "the chain's head isn't the one that the last commit recorded"} | heads


class SeqWithoutGaps:
    name = "seq_without_gaps"
    sentence = "Rows are numbered from 1 to the last one, each number once, and no commit overlaps another."

    def check(self, evidence: Evidence) -> Finding:
        offenders = list(islice(self._offenders(evidence), evidence.sample_max))
        return Finding(self.name, self.sentence, tuple(offenders), {"last_seq": evidence.seq})

    def _offenders(self, evidence: Evidence) -> Iterator[dict[str, Any]]:
        expected = evidence.since
        for commit in evidence.commits():
            span = commit.last_seq - commit.first_seq + 1
            if commit.first_seq != expected or commit.batch_seq != commit.first_seq:
                yield {"problem": "a commit begins elsewhere", "expected": expected, "first_seq": commit.first_seq}
            if not commit.rows == commit.distinct_seqs == span:
                yield {
                    "problem": "a commit's rows aren't numbered once each",
                    "first_seq": commit.first_seq,
                    "last_seq": commit.last_seq,
                    "rows": commit.rows,
                }
            expected = commit.last_seq + 1
        if expected != evidence.state.next_seq:
            yield {"problem": "rows are missing at the end", "last_seq": expected - 1, "recorded": evidence.seq}


class OneEffectPerEventKey:
    name = "one_effect_per_event_key"
    sentence = "An event takes effect at most once, for ever, and a duplicate always has an earlier copy that was kept."

    def check(self, evidence: Evidence) -> Finding:
        offenders = evidence.search(
            Doubt.EVENTS,
            f"""
            SELECT * FROM (
                SELECT event_key,
                       count_if(decision = 'applied') AS applied,
                       count_if(holds) AS held,
                       count_if(decision = 'duplicate') AS duplicates,
                       min(IF(holds, item_seq, NULL)) AS held_by,
                       min(IF(decision = 'duplicate', item_seq, NULL)) AS first_duplicate
                FROM journal WHERE event_key IS NOT NULL AND decision <> 'lost' GROUP BY event_key)
            WHERE applied > 1 OR held {_other_than(evidence)} 1 OR first_duplicate < held_by
            """,  # noqa: S608 - one of two signs
        )
        unknown = None if evidence.is_whole else "copies of events that were decided before"
        return Finding(self.name, self.sentence, tuple(offenders), unknown=unknown)


class OneEffectPerFactKey:
    name = "one_effect_per_fact_key"
    sentence = "A movement of money is booked at most once, under whatever event ids it was reported."

    def check(self, evidence: Evidence) -> Finding:
        offenders = evidence.search(
            Doubt.FACTS,
            f"""
            SELECT * FROM (
                SELECT fact_key,
                       count_if(decision = 'applied') AS applied,
                       count_if(decision = 'duplicate_fact') AS duplicates,
                       min(IF(decision = 'applied', batch_seq, NULL)) AS applied_in,
                       min(IF(decision = 'duplicate_fact', batch_seq, NULL)) AS first_duplicate_in
                FROM journal
                WHERE fact_key IS NOT NULL AND decision IN ('applied', 'duplicate_fact')
                GROUP BY fact_key)
            WHERE applied {_other_than(evidence)} 1 OR first_duplicate_in < applied_in
            """,  # noqa: S608 - one of two signs
        )
        unknown = None if evidence.is_whole else "movements that were booked before"
        return Finding(self.name, self.sentence, tuple(offenders), unknown=unknown)


def _other_than(evidence: Evidence) -> str:
    """Where only the newest rows are looked at, what holds a key may have come before them."""
    return "<>" if evidence.is_whole else ">"


class OneMode:
    name = "one_mode"
    sentence = "Every event of the ledger is of its own mode: a live ledger holds nothing of test traffic."

    def check(self, evidence: Evidence) -> Finding:
        offenders = evidence.search(
            Doubt.MODE,
            f"""
            SELECT seq, event_key, topic, mode
            FROM journal
            WHERE mode <> '{evidence.mode}' OR (mode IS NULL AND event_key IS NOT NULL)
            """,  # noqa: S608 - one of two words
        )
        return Finding(self.name, self.sentence, tuple(offenders), {"mode": evidence.mode})


class Balanced:
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
        return Finding(self.name, self.sentence, tuple(offenders))


class ReversalsMirrorBookings:
    name = "reversals_mirror_bookings"
    sentence = "Every reversing entry takes back one booking whole, once, and names the approval that caused it."

    def check(self, evidence: Evidence) -> Finding:
        survey = evidence.survey()
        if survey.clears(Doubt.READ) and not survey.reversed_items:
            return Finding(self.name, self.sentence, (), {"reversals": 0})
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
        return Finding(self.name, self.sentence, tuple(offenders), {"reversals": len(survey.reversed_items)})


class ItemsCloseOnce:
    name = "items_close_once"
    sentence = (
        "Every later decision continues an item that was open, and nothing follows the one that closes it; only what "
        "was ignored may be taken up again."
    )

    def check(self, evidence: Evidence) -> Finding:
        offenders = evidence.search(
            Doubt.ITEMS,
            f"""
            SELECT * FROM (
                SELECT item_seq, min(seq) AS first_seq, max(seq) AS last_seq, count_if(first) AS first_rows,
                       count_if(ends) AS closings, max(IF(ends, seq, NULL)) AS closed_at
                FROM (
                    SELECT *, closes AND NOT (decision = 'ignored' AND next_decision <=> 'replayed') AS ends FROM (
                        SELECT item_seq, seq, first, closes, decision,
                               lead(decision) OVER (PARTITION BY item_seq ORDER BY seq) AS next_decision
                        FROM journal
                        WHERE (NOT first OR waits OR decision = 'ignored')
                          AND decision NOT IN ('reversed', 'lost', 'portion') AND item_seq >= {evidence.since}))
                GROUP BY item_seq)
            WHERE first_rows <> 1 OR first_seq <> item_seq OR closings > 1 OR closed_at <> last_seq
            """,  # noqa: S608 - a number
        )
        unknown = None if evidence.is_whole else "items whose first decision came before"
        return Finding(self.name, self.sentence, tuple(offenders), unknown=unknown)


class ReprocessedWereIgnored:
    name = "reprocessed_were_ignored"
    sentence = "What was taken up again had been ignored until then, and a command that was given for it is its cause."

    def check(self, evidence: Evidence) -> Finding:
        survey = evidence.survey()
        count = len(survey.reopened_items)
        if survey.clears(Doubt.READ, Doubt.ITEMS) and not count:
            return Finding(self.name, self.sentence, (), {"reprocessed": 0})
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
        return Finding(self.name, self.sentence, tuple(offenders), {"reprocessed": count})
