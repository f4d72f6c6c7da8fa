"""What the invariants query: the journal and its tables as views of a Spark session."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from core.decision import NO_STEP_DECISIONS, OPEN_DECISIONS, Decision
from core.routing import WHOLE, Shard
from journal.anchors import AnchorInvalid, AnchorKeys
from journal.histories import is_given_up
from journal.open_item import CONFLICT_CLASS
from journal.schema import GENESIS, HASHED_COLUMNS, JOURNAL_SCHEMA, LATER_COLUMNS
from journal.state import JournalState
from ledger.postings import BOOKING_DECISIONS, POSTINGS_TYPE


def collect(frame: DataFrame) -> list[dict[str, Any]]:
    """A frame that is small by construction."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def journal_view(rows: DataFrame, shard: Shard = WHOLE) -> DataFrame:
    """The journal's rows with what follows from each by itself.

    ``life``: the topic's history (`journal.histories.life_of`).
    ``holds``: the row makes its event key known. ``waits``: while it is its item's last row, the item is open.
    ``mine``: the item is the shard's (`journal.shards.decides`); one that isn't is open in another shard's journal.
    ``closes``: it is its item's last row. ``books``: its postings took effect. ``lines``: the postings, parsed.
    Use ``lines`` once in a query, by ``LATERAL VIEW explode(array(lines))``: else each mention parses again.
    """
    for name, kind in (("history", "int"), ("offset_until", "bigint")):
        if name not in rows.columns:
            rows = rows.withColumn(name, fn.lit(None).cast(kind))
    decision, first = fn.col("decision"), fn.col("first")
    is_class = fn.coalesce("error_class", fn.lit("")) == CONFLICT_CLASS
    # A handler's own error of that name comes with the handler's version.
    conflict = (decision == Decision.DEAD.value) & is_class & fn.col("handler_version").isNull()
    is_open = decision.isin(*(one.value for one in OPEN_DECISIONS))
    return rows.withColumns(
        {
            "mine": mine(shard, "partition"),
            "life": fn.coalesce(fn.concat("topic", fn.lit("#"), fn.col("history").cast("string")), "topic"),
            "holds": first & ~decision.isin(Decision.DUPLICATE.value, Decision.LOST.value) & ~conflict,
            "waits": is_open & ~(first & (decision == Decision.REPLAYED.value)),
            "closes": ~is_open & ~decision.isin(*(one.value for one in NO_STEP_DECISIONS)),
            "books": decision.isin(*(one.value for one in BOOKING_DECISIONS)),
            "lines": fn.from_json("postings", POSTINGS_TYPE),
        }
    )


def mine(shard: Shard, *instead: str) -> Column:
    """`journal.shards.decides`, natively. ``instead``: the column with the partition; of postings there is none."""
    if shard.count == 1:
        return fn.lit(True)
    by_entity = fn.crc32(fn.col("entity_key").cast("binary"))
    number = fn.coalesce(by_entity, *(fn.col(one).cast("bigint") for one in instead))
    return number % shard.count == shard.number


def commit_digests(journal: DataFrame) -> DataFrame:
    """The chain's digests as Spark computes them: the same text that `journal.schema.commit_digest` hashes."""
    wrong = (fn.col("row_hash") != row_hash_column(journal.columns)).alias("wrong")
    rows = journal.select("batch_seq", "seq", "epoch", "decided_at", "row_hash", wrong)
    grouped = rows.groupBy("batch_seq").agg(
        fn.count("*").alias("rows"),
        fn.min("seq").alias("first_seq"),
        fn.max("seq").alias("last_seq"),
        fn.min("epoch").alias("epoch_first"),
        fn.max("epoch").alias("epoch_last"),
        fn.max("decided_at").alias("decided_at"),
        fn.sort_array(fn.collect_list(fn.struct("seq", "row_hash"))).alias("hashes"),
        fn.count_if("wrong").alias("wrong_hashes"),
        fn.min(fn.when(fn.col("wrong"), fn.col("seq"))).alias("wrong_seq"),
    )
    return grouped.select(
        "batch_seq",
        "rows",
        fn.size(fn.array_distinct("hashes.seq")).alias("distinct_seqs"),
        "first_seq",
        "last_seq",
        "epoch_first",
        "epoch_last",
        "decided_at",
        fn.sha2(fn.concat_ws("", "hashes.row_hash"), 256).alias("digest"),
        "wrong_hashes",
        "wrong_seq",
    )


def row_hash_column(there: Collection[str]) -> Column:
    """`journal.schema.row_hashes`, in Spark. ``there`` are the table's columns: older code's lacks later ones."""
    texts = [fn.coalesce(_as_text(name), fn.lit("\x00")) for name in HASHED_COLUMNS]
    # concat is NULL where a part is, and concat_ws leaves a NULL out.
    texts += [fn.concat(fn.lit(f"{name}="), fn.col(name)) for name in LATER_COLUMNS if name in there]
    return fn.sha2(fn.concat_ws("\x1f", *texts), 256)


def _as_text(name: str) -> Column:
    if str(JOURNAL_SCHEMA.field(name).type).startswith("timestamp"):
        return fn.unix_micros(fn.col(name)).cast("string")
    return fn.col(name).cast("string")


@dataclass(frozen=True, slots=True)
class Base:
    """The row before the first one that is looked at, and the chain's head after it where an anchor has it."""

    seq: int = 0
    chain: str | None = GENESIS


def base_before(
    rows: DataFrame,
    state: JournalState,
    since: int | datetime | None,
    anchors: Iterable[tuple[int, bytes]],
    keys: AnchorKeys,
) -> Base:
    """The row before the first one that is looked at: the last one that an anchor names before ``since``, so that
    the chain is known from there on. Where there is no such anchor, the end of a commit. Of a ``since`` beyond the
    journal's last row that is the last row.

    :param rows: the journal's
    :param since: a seq, or when a row was decided
    """
    if since is None:
        return Base()
    first = min(since, state.next_seq) if isinstance(since, int) else _first_since(rows, since)
    if first <= 1:
        return Base()
    known = [anchor for anchor in _believed(anchors, keys, state) if anchor.seq < first]
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


def _believed(anchors: Iterable[tuple[int, bytes]], keys: AnchorKeys, state: JournalState) -> Iterable[Base]:
    """What the anchors name of this journal's rows; one without a known signature is another invariant's."""
    for _, record in anchors:
        try:
            anchor = keys.decode(record)
        except AnchorInvalid:
            continue
        if not is_given_up(state.notes, anchor.lineage, anchor.seq):
            yield Base(anchor.seq, anchor.chain)
