"""The invariant between the journal's chain and its anchors, which no one who can write the lake can change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

from journal.anchors import Anchor, AnchorInvalid, anchored_before
from journal.histories import is_given_up
from journal.schema import extend
from ledger.verify.evidence import Evidence
from ledger.verify.invariant import Finding

BEYOND = (sys.maxsize, None)
"""Where no commit is."""


class AnchorsHold:
    name = "anchors_hold"
    sentence = "Every anchor, signed and kept outside the lake, names a commit of this journal with the chain up to it."

    def check(self, evidence: Evidence) -> Finding:
        newest = [0, 0]
        offenders = list(islice(self._offenders(evidence, newest), evidence.sample_max))
        anchored, count = newest
        figures = {"anchors": count, "anchored_seq": anchored, "behind": max(0, evidence.seq - anchored)}
        unknown = None if evidence.is_whole else "what anchors of rows before say of the journal"
        return Finding(self.name, self.sentence, tuple(offenders), figures, unknown)

    def _offenders(self, evidence: Evidence, newest: list[int]) -> Iterator[dict[str, Any]]:
        heads = _heads(evidence)
        at, head = next(heads)
        for offset, record in evidence.anchor_records():
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
            if (problem := _problem(anchor, at, head, evidence)) is not None:
                yield {"problem": problem, "seq": anchor.seq, "epoch": anchor.epoch, "anchored_at": anchor.at}
        yield from self._missing(evidence, newest[0])

    def _missing(self, evidence: Evidence, anchored: int) -> Iterator[dict[str, Any]]:
        remembered = anchored_before(evidence.state.notes)
        if anchored < remembered:
            yield {"problem": "anchors that Kafka acknowledged are gone", "anchored": anchored, "known": remembered}
        if removed := sum(low for low, _ in evidence.anchor_ends.values()):
            yield {"problem": "anchors were removed from their topic", "records": removed}
        if anchored < evidence.seq and (age := evidence.last_row_age_s()) > evidence.anchor_age_s_max:
            yield {"problem": "the journal's end isn't anchored", "anchored": anchored, "age_s": round(age, 3)}


def _heads(evidence: Evidence) -> Iterator[tuple[int, str | None]]:
    """The last seq of each commit, and the chain's head after it."""
    head = evidence.base.chain
    yield evidence.base.seq, head
    for commit in evidence.commits():
        head = None if head is None else extend(head, commit.digest)
        yield commit.last_seq, head


def _problem(anchor: Anchor, at: int, head: str | None, evidence: Evidence) -> str | None:
    if anchor.seq > evidence.seq:
        return f"the journal ends with {evidence.seq}, before its anchor: its end was cut off, or an older copy is here"
    if anchor.seq != at:
        return "no commit ends where the anchor says that one did"
    if anchor.chain != head:
        return "what the journal holds up to here isn't what was anchored: rows were changed or removed"
    return None
