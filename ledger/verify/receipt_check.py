"""The invariant between what the receiver answered and what was decided."""

from __future__ import annotations

from datetime import datetime, timedelta

from core.routing import topics_of
from ledger.verify.evidence import Evidence
from ledger.verify.invariant import Finding

SLACK = timedelta(seconds=60)
"""Between a record's time and its receipt's: a request takes seconds, and clocks differ by less than that."""


class ReceiptsHaveDecisions:
    name = "receipts_have_decisions"
    sentence = "Every event that was answered with a 2xx has its decision in the journal, or is still on its way there."

    def check(self, evidence: Evidence) -> Finding:
        if not evidence.has_receipts:
            none = "no receipts were collected, and their topic holds none" if evidence.seq else None
            return Finding(self.name, self.sentence, (), {"receipts": None}, not_checked=none)
        settled = _settled(evidence)
        offenders = evidence.sample(
            f"""
            SELECT 'answered with a 2xx and never decided' AS problem, at, event_key, outcome, status
            FROM receipts LEFT ANTI JOIN whole ON whole.event_key = receipts.event_key
            WHERE status BETWEEN 200 AND 299 AND event_key IS NOT NULL AND at < timestamp'{settled.isoformat()}'
            """  # noqa: S608 - a moment of our own making
        )
        [count] = evidence.rows("SELECT count(*) AS receipts, max(at) AS newest FROM receipts")
        return Finding(self.name, self.sentence, tuple(offenders), count)


def _settled(evidence: Evidence) -> datetime:
    """Before this moment everything that was answered is decided: the oldest record that isn't is younger."""
    topic = topics_of(evidence.mode).events
    waiting = (
        evidence.kafka.timestamp(topic, partition, evidence.state.marks.get(topic, {}).get(partition, low))
        for partition, (low, high) in evidence.ends.get(topic, {}).items()
        if high > evidence.state.marks.get(topic, {}).get(partition, low)
    )
    return min([evidence.now, *(at for at in waiting if at is not None)]) - SLACK
