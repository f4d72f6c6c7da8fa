"""Invariants of the journal by itself: its chain and its anchors, its numbers, its keys, its items, its order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from core.location import Location
from core.routing import topics_of
from journal.anchors import Anchor, AnchorInvalid, anchored_before
from journal.histories import is_given_up
from journal.lake import has_table, open_table
from journal.reader import read_rows
from journal.schema import extend_chain
from ledger.verify.evidence import Evidence
from ledger.verify.kafka import read_anchor_records
from ledger.verify.report import Finding, Invariant, PromiseInvariant, drop_nulls
from operations.audit_log import STREAM, ChainWalk

BEYOND = (sys.maxsize, None)
"""Where no commit is."""


class AnchorsHold(Invariant):
    name = "anchors_hold"
    sentence = "Every anchor, signed and kept outside the lake, names a commit of this journal with the chain up to it."

    def check(self, evidence: Evidence) -> Finding:
        # Earlier anchors stand under the name of the stream that this journal began as a copy of.
        newest = [evidence.own_after, 0]
        offenders = list(islice(self._find_offenders(evidence, newest), evidence.sample_max))
        anchored, count = newest
        figures = {"anchors": count, "anchored_seq": anchored, "behind": max(0, evidence.seq - anchored)}
        unknown = evidence.explain_part("anchors of earlier rows")
        return self.build_finding(evidence, offenders, figures, unknown)

    def _find_offenders(self, evidence: Evidence, newest: list[int]) -> Iterator[dict[str, Any]]:
        heads = _read_heads(evidence)
        at, head = next(heads)
        for offset, record in read_anchor_records(evidence.kafka, evidence.lake.stream, evidence.anchor_ends):
            try:
                anchor = evidence.anchor_keys.decode(record)
            except AnchorInvalid as invalid:
                yield {"problem": f"a record among the anchors isn't one: {invalid.problem}", "offset": offset}
                continue
            if is_given_up(evidence.state.notes, anchor.lineage, anchor.seq):
                continue
            newest[:] = max(newest[0], anchor.seq), newest[1] + 1
            if anchor.seq < evidence.base.seq or (evidence.base.chain is None and anchor.seq <= evidence.seq):
                continue
            while at < anchor.seq:
                at, head = next(heads, BEYOND)
            if (problem := _find_problem(anchor, at, head, evidence)) is not None:
                yield {"problem": problem, "seq": anchor.seq, "epoch": anchor.epoch, "anchored_at": anchor.at}
        yield from self._find_missing(evidence, newest[0])

    def _find_missing(self, evidence: Evidence, anchored: int) -> Iterator[dict[str, Any]]:
        remembered = anchored_before(evidence.state.notes)
        if anchored < remembered:
            yield {"problem": "anchors that Kafka acknowledged are gone", "anchored": anchored, "known": remembered}
        if removed := sum(low for low, _ in evidence.anchor_ends.values()):
            yield {"problem": "anchors were removed from their topic", "records": removed}
        if anchored < evidence.seq and (age := evidence.last_row_age_s()) > evidence.limits.anchor_age_s_max:
            yield {"problem": "the journal's end isn't anchored", "anchored": anchored, "age_s": round(age, 3)}


def _read_heads(evidence: Evidence) -> Iterator[tuple[int, str | None]]:
    head = evidence.base.chain
    yield evidence.base.seq, head
    for commit in evidence.read_commits():
        head = None if head is None else extend_chain(head, commit.digest)
        yield commit.last_seq, head


def _find_problem(anchor: Anchor, at: int, head: str | None, evidence: Evidence) -> str | None:
    if anchor.seq > evidence.seq:
        return f"the journal ends with {evidence.seq}, before its anchor: its end was cut off, or an older copy is here"
    if anchor.seq != at:
        return "no commit ends at the row that the anchor names"
    if anchor.chain != head:
        return "what the journal holds up to here isn't what was anchored: rows were changed or removed"
    return None


class AuditLogWhole(Invariant):
    name = "audit_log_whole"
    sentence = "No entry of the audit log was changed or removed: its chain is whole, up to its anchors."

    def check(self, evidence: Evidence) -> Finding:
        # The anchors first: the record may only be ahead of them.
        anchors = list(_read_anchors(evidence))
        walk = ChainWalk(anchor.seq for _, anchor in anchors if isinstance(anchor, Anchor))
        offenders = chain(walk.find_offenders(_read_rows(evidence.lake.audit_log)), _compare_anchors(anchors, walk))
        sample = tuple(islice(offenders, evidence.sample_max))
        anchored = max((anchor.seq for _, anchor in anchors if isinstance(anchor, Anchor)), default=0)
        return self.build_finding(evidence, sample, {"entries": walk.number, "anchored": anchored})


def _read_rows(path: Location | None) -> Iterator[dict[str, Any]]:
    if path is None or not has_table(str(path)):
        return
    for batch in read_rows(open_table(str(path))).sort_by("number").to_batches():
        yield from batch.to_pylist()


def _read_anchors(evidence: Evidence) -> Iterator[tuple[int, Anchor | AnchorInvalid]]:
    topic = topics_of("live").anchors
    ends = evidence.kafka.find_ends([topic]).get(topic, {})
    for offset, record in read_anchor_records(evidence.kafka, STREAM, ends):
        try:
            yield offset, evidence.anchor_keys.decode(record)
        except AnchorInvalid as invalid:
            yield offset, invalid


def _compare_anchors(anchors: list[tuple[int, Anchor | AnchorInvalid]], walk: ChainWalk) -> Iterator[dict[str, Any]]:
    for offset, anchor in anchors:
        if isinstance(anchor, AnchorInvalid):
            yield {
                "problem": f"a record among the anchors of the audit log isn't one: {anchor.problem}",
                "offset": offset,
            }
        elif anchor.seq > walk.number:
            problem = f"the record ends with {walk.number}, before its anchor: its end was cut off"
            yield {"problem": problem, "number": anchor.seq, "anchored_at": anchor.at}
        elif walk.heads.get(anchor.seq) != anchor.chain:
            problem = "what is on record up to here isn't what was anchored: entries were changed or removed"
            yield {"problem": problem, "number": anchor.seq, "anchored_at": anchor.at}


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
