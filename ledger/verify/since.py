"""Where a verification of the newest rows begins."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from journal.anchors import AnchorInvalid, AnchorKeys
from ledger.verify.evidence import Base, collect


def base_before(
    rows: DataFrame, since: int | datetime | None, anchors: Iterable[tuple[int, bytes]], keys: AnchorKeys
) -> Base:
    """The row before the first one that is looked at: the last one that an anchor speaks of before ``since``, so that
    the chain is known from there on. Where there is no such anchor, the end of a commit.

    :param rows: the journal's
    :param since: a seq, or when a row was decided
    """
    if since is None:
        return Base()
    first = since if isinstance(since, int) else _first_since(rows, since)
    if first <= 1:
        return Base()
    known = [anchor for anchor in _believed(anchors, keys) if anchor.seq < first]
    newest = max(known, key=lambda base: base.seq, default=None)
    if newest is not None:
        return newest
    [commit] = collect(rows.where(fn.col("seq") >= first).agg(fn.min_by("batch_seq", "seq").alias("begins")))
    begins = commit["begins"] if commit["begins"] is not None else first
    return Base(begins - 1, None) if begins > 1 else Base()


def _first_since(rows: DataFrame, since: datetime) -> int:
    """The first row that was decided then or later; past the last one where none was."""
    decided_then = fn.when(fn.col("decided_at") >= fn.lit(since), fn.col("seq"))
    [found] = collect(rows.agg(fn.min(decided_then).alias("first"), fn.max("seq").alias("last")))
    return int(found["first"] or (found["last"] or 0) + 1)


def _believed(anchors: Iterable[tuple[int, bytes]], keys: AnchorKeys) -> Iterable[Base]:
    """What the anchors say; one that nobody here signed is another invariant's."""
    for _, record in anchors:
        try:
            anchor = keys.decode(record)
        except AnchorInvalid:
            continue
        yield Base(anchor.seq, anchor.chain)
