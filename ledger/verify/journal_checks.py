"""Invariants of the journal by itself: its chain, its numbers, its keys, its items, its order."""

from __future__ import annotations

from typing import Any

from ledger.verify.evidence import Evidence
from ledger.verify.report import Finding, PromiseInvariant, drop_nulls


class ChainWhole(PromiseInvariant):
    name = "chain_whole"

    def check(self, evidence: Evidence) -> Finding:
        commits = evidence.read_commits()
        unknown = None if evidence.base.chain is not None else "the chain: no anchor has its head before these rows"
        offenders = map(drop_nulls, evidence.search_offenders(self.name))
        return self.build_finding(evidence, offenders, {"commits": len(commits)}, unknown)


class SeqWithoutGaps(PromiseInvariant):
    name = "seq_without_gaps"

    def check(self, evidence: Evidence) -> Finding:
        evidence.read_commits()
        return self.build_finding(
            evidence, map(drop_nulls, evidence.search_offenders(self.name)), {"last_seq": evidence.seq}
        )


class OneEffectPerEventKey(PromiseInvariant):
    name = "one_effect_per_event_key"
    looked_past = "copies of events that were decided earlier"


class OneEffectPerFactKey(PromiseInvariant):
    name = "one_effect_per_fact_key"
    looked_past = "movements that were booked earlier"


class OneEffectInAllShards(PromiseInvariant):
    """Compares the rows after a division, of all shards.

    Each journal by itself shows that nothing took effect twice in it. Rows from before the division are in its copies
    too.
    """

    name = "one_effect_in_all_shards"
    looked_past = "what took effect in both of them earlier"

    def describe_offender(self, row: dict[str, Any], evidence: Evidence) -> dict[str, Any]:  # noqa: ARG002
        return drop_nulls(row)

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        return {"shards": evidence.shard.count}


class OneMode(PromiseInvariant):
    name = "one_mode"

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        return {"mode": evidence.lake.mode}


class ItemsCloseOnce(PromiseInvariant):
    name = "items_close_once"
    looked_past = "items whose first decision came earlier"


class OrderKept(PromiseInvariant):
    """Checks that each partition's records were numbered in Kafka's order, and that overtaken events are marked
    (``out_of_order``).

    Only what took effect after its first row can have been overtaken.
    """

    name = "order_kept"
    looked_past = "what took effect earlier"

    def describe_offender(self, row: dict[str, Any], evidence: Evidence) -> dict[str, Any]:  # noqa: ARG002
        return drop_nulls(row)

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        [late] = evidence.rows(
            "SELECT count(*) AS late FROM journal WHERE decision = 'applied' AND NOT first AND NOT out_of_order"
        )
        return {"after_their_first_row": late["late"]}
