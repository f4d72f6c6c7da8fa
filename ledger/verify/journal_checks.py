"""Invariants of the journal by itself: its chain, its numbers, its keys, its items, its order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from journal.schema import GENESIS, extend
from ledger.verify.evidence import Evidence
from ledger.verify.fast_path import Doubt
from ledger.verify.fast_path.commits import CommitDigest
from ledger.verify.report import Finding, Invariant


class ChainWhole(Invariant):
    name = "chain_whole"
    sentence = "No row was changed, removed or put in after its commit: every hash and the chain over them hold."

    def check(self, evidence: Evidence) -> Finding:
        commits = evidence.commits()
        unknown = None if evidence.base.chain is not None else "the chain: no anchor has its head before these rows"
        return self.finding(evidence, self._offenders(commits, evidence), {"commits": len(commits)}, unknown)

    def _offenders(self, commits: Sequence[CommitDigest], evidence: Evidence) -> Iterator[dict[str, Any]]:
        head, epoch = evidence.base.chain or GENESIS, 0
        for commit in commits:
            head = extend(head, commit.digest)
            if commit.wrong_hashes:
                wrong = {"seq": commit.wrong_seq, "rows": commit.wrong_hashes}
                yield {"problem": "rows don't match their hash"} | wrong
            if commit.epoch_first < epoch or commit.epoch_first != commit.epoch_last:
                yield {"problem": "an epoch wrote after its successor", "batch_seq": commit.batch_seq, "epoch": epoch}
            epoch = max(epoch, commit.epoch_last)
        if evidence.base.chain is not None and head != evidence.state.chain:
            heads = {"computed": head, "recorded": evidence.state.chain}
            yield {"problem": "the chain's head isn't the one that the last commit recorded"} | heads


class SeqWithoutGaps(Invariant):
    name = "seq_without_gaps"
    sentence = "Rows are numbered from 1 to the last one, each number once, and no commit overlaps another."

    def check(self, evidence: Evidence) -> Finding:
        return self.finding(evidence, self._offenders(evidence), {"last_seq": evidence.seq})

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


class OneEffectPerEventKey(Invariant):
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
        unknown = evidence.in_part("copies of events that were decided earlier")
        return self.finding(evidence, offenders, unknown=unknown)


class OneEffectPerFactKey(Invariant):
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
        unknown = evidence.in_part("movements that were booked earlier")
        return self.finding(evidence, offenders, unknown=unknown)


class OneEffectInAllShards(Invariant):
    """Each journal by itself shows that nothing took effect twice in it. A key that one holds from before it was
    divided is in the rows of those that began as its copies, so the rows after these are held against each other.
    """

    name = "one_effect_in_all_shards"
    sentence = "No event and no movement of money took effect in the journals of two shards."

    def check(self, evidence: Evidence) -> Finding:
        queries = (_IN_TWO_SHARDS.format(key=key) for key in ("event_key", "fact_key"))
        offenders = [one for query in queries for one in evidence.sample(query)]
        unknown = None if evidence.is_whole else "what took effect in both of them earlier"
        return self.finding(evidence, offenders, {"shards": evidence.shard.count}, unknown)


_IN_TWO_SHARDS = """
    SELECT 'it took effect in the journals of several shards' AS problem, {key},
           sort_array(collect_set(struct(stream, seq))) AS in
    FROM every_row WHERE decision = 'applied' AND {key} IS NOT NULL
    GROUP BY {key} HAVING count(DISTINCT stream) > 1 AND bool_or(recent)
"""


def _other_than(evidence: Evidence) -> str:
    """Where only the newest rows are looked at, what holds a key may have come before them."""
    return "<>" if evidence.is_whole else ">"


class OneMode(Invariant):
    name = "one_mode"
    sentence = "Every event of the ledger is of its own mode: a live ledger holds nothing of test traffic."

    def check(self, evidence: Evidence) -> Finding:
        offenders = evidence.search(
            Doubt.MODE,
            f"""
            SELECT seq, event_key, topic, mode
            FROM journal
            WHERE mode <> '{evidence.lake.mode}' OR (mode IS NULL AND event_key IS NOT NULL)
            """,  # noqa: S608 - one of two words
        )
        return self.finding(evidence, offenders, {"mode": evidence.lake.mode})


class ItemsCloseOnce(Invariant):
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
        unknown = evidence.in_part("items whose first decision came earlier")
        return self.finding(evidence, offenders, unknown=unknown)


BROADCAST_ROWS_MAX = 1_000_000


class OrderKept(Invariant):
    """Each partition's records were numbered in Kafka's order, and what took effect behind a later event of its entity
    is marked (``out_of_order``). Only what took effect after its first row can have been overtaken.
    """

    name = "order_kept"
    sentence = (
        "An entity's events took effect in the order in which Kafka held them, or the row is marked as out of order."
    )

    def check(self, evidence: Evidence) -> Finding:
        fast = evidence.fast_path()
        offenders = evidence.search(
            Doubt.PLACES,
            """
            SELECT 'a record was numbered behind a later one of its partition' AS problem, life AS topic, partition,
                   offset, seq, before AS after_offset
            FROM (SELECT life, partition, offset, seq,
                         max(offset) OVER (PARTITION BY life, partition ORDER BY seq
                                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
                  FROM journal WHERE first AND partition >= 0)
            WHERE offset < before
            """,
        )
        if fast.late or not fast.clears(Doubt.READ):
            offenders += self._overtaken(evidence, fast.late)
        unknown = evidence.in_part("what took effect earlier")
        figures = {"after_their_first_row": fast.late}
        return self.finding(evidence, offenders, figures, unknown)

    def _overtaken(self, evidence: Evidence, late: int) -> list[dict[str, Any]]:
        hint = "/*+ BROADCAST(late) */" if late <= BROADCAST_ROWS_MAX else ""
        return evidence.sample(
            f"""
            SELECT {hint} 'took effect behind a later event of its entity, and is not marked' AS problem,
                   late.entity_key, late.item_seq, late.seq, max(other.item_seq) AS later_item
            FROM (SELECT entity_key, item_seq, seq FROM journal
                  WHERE decision = 'applied' AND NOT first AND NOT out_of_order AND entity_key IS NOT NULL) AS late
            JOIN (SELECT entity_key, item_seq, seq FROM journal
                  WHERE decision = 'applied' AND entity_key IS NOT NULL AND NOT event_type <=> 'book_entry') AS other
            ON other.entity_key = late.entity_key AND other.seq < late.seq AND other.item_seq > late.item_seq
            GROUP BY late.entity_key, late.item_seq, late.seq
            """  # noqa: S608 - a hint
        )
