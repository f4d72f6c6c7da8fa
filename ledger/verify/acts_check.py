"""The invariant of the record of what people did: nothing in it was changed, removed or put in."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import functions as fn

from core.place import Place
from core.routing import topics_of
from dlq.audit_log import STREAM, ChainWalk
from journal.anchors import Anchor, AnchorInvalid
from journal.dataset import dataset_of
from ledger.verify.evidence import Evidence
from ledger.verify.invariant import Finding


class ActsChainWhole:
    name = "acts_chain_whole"
    sentence = "Every act of a person is on record as it was recorded: the record's chain is whole, up to its anchors."

    def check(self, evidence: Evidence) -> Finding:
        # The anchors first: the record may only be ahead of them.
        anchors = list(_anchors(evidence))
        walk = ChainWalk(one.seq for _, one in anchors if isinstance(one, Anchor))
        offenders = chain(walk.offenders(_rows(evidence.acts)), _held_against(anchors, walk))
        found = tuple(islice(offenders, evidence.sample_max))
        anchored = max((one.seq for _, one in anchors if isinstance(one, Anchor)), default=0)
        return Finding(self.name, self.sentence, found, {"acts": walk.number, "anchored": anchored})


def _rows(path: Place | None) -> Iterator[dict[str, Any]]:
    if path is None or not DeltaTable.is_deltatable(str(path)):
        return
    for batch in dataset_of(DeltaTable(str(path))).to_table().sort_by("number").to_batches():
        yield from batch.to_pylist()


def _anchors(evidence: Evidence) -> Iterator[tuple[int, Anchor | AnchorInvalid]]:
    """Offset and anchor of every record that names this record; there is one for live and test traffic."""
    topic = topics_of("live").anchors
    ends = evidence.kafka.ends([topic]).get(topic, {})
    if not any(high > low for low, high in ends.values()):
        return
    until = max(high for _, high in ends.values())
    said = evidence.kafka.frame(evidence.session, topic).where(
        (fn.col("offset") < until) & (fn.col("key").cast("string") == STREAM)
    )
    for row in said.select("offset", "value").orderBy("offset").toLocalIterator():
        try:
            yield row["offset"], evidence.anchor_keys.decode(bytes(row["value"]))
        except AnchorInvalid as invalid:
            yield row["offset"], invalid


def _held_against(anchors: list[tuple[int, Anchor | AnchorInvalid]], walk: ChainWalk) -> Iterator[dict[str, Any]]:
    for offset, one in anchors:
        if isinstance(one, AnchorInvalid):
            yield {"problem": f"a record among the anchors of acts isn't one: {one.problem}", "offset": offset}
        elif one.seq > walk.number:
            problem = f"the record ends with {walk.number}, before its anchor: its end was cut off"
            yield {"problem": problem, "number": one.seq, "anchored_at": one.at}
        elif walk.heads.get(one.seq) != one.chain:
            problem = "what is on record up to here isn't what was anchored: acts were changed or removed"
            yield {"problem": problem, "number": one.seq, "anchored_at": one.at}
