"""The invariant between the order of Kafka's records and the order in which they were decided."""

from __future__ import annotations

from typing import Any

from ledger.verify.evidence import Evidence
from ledger.verify.invariant import Finding
from ledger.verify.survey import Doubt

BROADCAST_ROWS_MAX = 1_000_000


class OrderKept:
    """Each partition's records were numbered in Kafka's order, and what took effect behind a later event of its entity
    says so (``out_of_order``). Only what took effect after its first row can have been overtaken.
    """

    name = "order_kept"
    sentence = "An entity's events took effect in the order in which Kafka held them, or the row says that they didn't."

    def check(self, evidence: Evidence) -> Finding:
        survey = evidence.survey()
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
        if survey.late or not survey.clears(Doubt.READ):
            offenders += self._overtaken(evidence, survey.late)
        unknown = None if evidence.is_whole else "what took effect before"
        figures = {"after_their_first_row": survey.late}
        return Finding(self.name, self.sentence, tuple(offenders[: evidence.sample_max]), figures, unknown)

    def _overtaken(self, evidence: Evidence, late: int) -> list[dict[str, Any]]:
        hint = "/*+ BROADCAST(late) */" if late <= BROADCAST_ROWS_MAX else ""
        return evidence.sample(
            f"""
            SELECT {hint} 'took effect behind a later event of its entity, and does not say so' AS problem,
                   late.entity_key, late.item_seq, late.seq, max(other.item_seq) AS later_item
            FROM (SELECT entity_key, item_seq, seq FROM journal
                  WHERE decision = 'applied' AND NOT first AND NOT out_of_order AND entity_key IS NOT NULL) AS late
            JOIN (SELECT entity_key, item_seq, seq FROM journal
                  WHERE decision = 'applied' AND entity_key IS NOT NULL AND NOT event_type <=> 'book_entry') AS other
            ON other.entity_key = late.entity_key AND other.seq < late.seq AND other.item_seq > late.item_seq
            GROUP BY late.entity_key, late.item_seq, late.seq
            """  # noqa: S608 - a hint
        )
