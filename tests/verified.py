"""A verification's report, as of an afternoon: one invariant doesn't hold, one couldn't be checked."""

from __future__ import annotations

from datetime import UTC, datetime

from ledger.verify.job import INVARIANTS
from ledger.verify.journal_checks import OneEffectInAllShards
from ledger.verify.kafka_checks import TopicDivided
from ledger.verify.report import Finding, Report

AT = datetime(2026, 1, 31, 14, 30, tzinfo=UTC)
WRONG, NOT_CHECKED = "order_kept", "index_equals_journal"


def verified(stream: str = "ledger", at: datetime = AT, since: int = 1, wrong: str = WRONG) -> Report:
    """Of rows ``since`` to 1,234."""
    offender = {"problem": "decided before its time", "seq": 7, "event_key": "stripe:evt_<i>7</i>"}
    findings = [
        Finding(
            one.name,
            one.sentence,
            (offender,) if one.name == wrong else (),
            not_checked="there is no key index here" if one.name == NOT_CHECKED else None,
        )
        for one in INVARIANTS
        if not isinstance(one, (OneEffectInAllShards, TopicDivided))
    ]
    return Report(stream, 12, 1_234, at, 3.21, tuple(findings), since)
