"""What the invariants look at: a journal pinned to one version, and what everything else held around that moment."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from core.decision import OPEN_DECISIONS, Decision
from core.event import Mode
from core.routing import topics_of
from journal.anchors import AnchorKeys
from journal.schema import HASHED_COLUMNS, JOURNAL_SCHEMA, LATER_COLUMNS
from journal.state import JournalState
from ledger.postings import BOOKING_DECISIONS

CONFLICT_CLASS = "EventConflict"
"""The error class of an event whose key is held by another content; it holds no key itself."""

POSTINGS_TYPE = "array<struct<account:string,side:string,amount_minor:bigint,currency:string>>"

Ends = dict[str, dict[int, tuple[int, int]]]
"""First offset held and next offset written, by topic and partition."""


class Kafka(Protocol):
    """What is asked of Kafka."""

    def ends(self, topics: Sequence[str]) -> Ends:
        """A topic that doesn't exist is left out."""

    def timestamp(self, topic: str, partition: int, offset: int) -> datetime | None:
        """When the first record at or after an offset was written; None where there is none."""

    def frame(self, session: SparkSession, topic: str) -> DataFrame:
        """All of a topic: ``partition, offset, key, value, headers`` as Spark's Kafka source gives them."""


class KeyIndex(Protocol):
    """What is asked of the key index on the driver."""

    @property
    def seq(self) -> int: ...
    def event_count(self) -> int: ...
    def open_count(self) -> int: ...
    def dead_count(self) -> int: ...


@dataclass(frozen=True, slots=True)
class CommitDigest:
    """One commit as its rows tell it. ``wrong_hashes`` rows aren't what their hash says, ``wrong_seq`` is the first.

    ``decided_at``: its last row's.
    """

    batch_seq: int
    rows: int
    distinct_seqs: int
    first_seq: int
    last_seq: int
    epoch_first: int
    epoch_last: int
    decided_at: datetime
    digest: str
    wrong_hashes: int
    wrong_seq: int | None


@dataclass
class Evidence:
    """Everything is up to ``seq``, the last row of the pinned journal; marks say how far each derived thing got.

    The views ``journal`` (see `journal_view`), ``postings`` and, where they are collected, ``receipts`` are registered
    in ``session``; and the journal up to the mark of what is derived from it: ``booked`` for the postings, ``indexed``
    for the index.
    """

    session: SparkSession
    state: JournalState
    stream: str
    mode: Mode
    kafka: Kafka
    anchor_keys: AnchorKeys
    dlq_topic: str
    ends: Ends
    dlq_ends: dict[int, tuple[int, int]]
    anchor_ends: dict[int, tuple[int, int]]
    postings_mark: int | None
    has_receipts: bool
    index: KeyIndex | None
    index_root: Path | None
    now: datetime
    sample_max: int
    in_flight_age_s_max: float
    anchor_age_s_max: float
    acts: Path | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _commits: list[CommitDigest] | None = None

    @property
    def seq(self) -> int:
        return self.state.next_seq - 1

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The result of a query, for results that are small by construction: one job."""
        return collect(self.session.sql(sql))

    def sample(self, sql: str) -> list[dict[str, Any]]:
        """At most ``sample_max`` rows of a query's result: one job."""
        return collect(self.session.sql(sql).limit(self.sample_max))

    def commits(self) -> list[CommitDigest]:
        """Every commit's digest in order, computed once: one job over the journal, one row a commit."""
        with self._lock:
            if self._commits is None:
                table = _digests(self.session.table("journal")).toArrow().sort_by("batch_seq")
                self._commits = [CommitDigest(**row) for row in table.to_pylist()]
            return self._commits

    def anchor_records(self) -> Iterator[tuple[int, bytes]]:
        """Offset and bytes of what the anchors' topic held of this stream before the journal was pinned, by seq."""
        topic = topics_of(self.mode).anchors
        if not any(high > low for low, high in self.anchor_ends.values()):
            return
        until = max(high for _, high in self.anchor_ends.values())
        frame = self.kafka.frame(self.session, topic).where(
            (fn.col("offset") < until) & (fn.col("key").cast("string") == self.stream)
        )
        by_seq = frame.select("offset", "value", fn.expr("get_json_object(CAST(value AS string), '$.seq')").alias("at"))
        for row in by_seq.orderBy(fn.expr("TRY_CAST(at AS bigint)"), "offset").toLocalIterator():
            yield row["offset"], bytes(row["value"])

    def last_row_age_s(self) -> float:
        """Since the journal's last row was decided; 0 of an empty one."""
        commits = self.commits()
        return (self.now - commits[-1].decided_at).total_seconds() if commits else 0.0

    def partitions(self) -> Iterator[tuple[str, int, int, int]]:
        """Topic, partition, first and next offset, as the journal's metadata has them."""
        for topic, untils in sorted(self.state.marks.items()):
            for number, until in sorted(untils.items()):
                yield topic, number, self.state.start.get(topic, {}).get(number, until), until


def collect(frame: DataFrame) -> list[dict[str, Any]]:
    """A frame that is small by construction."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def journal_view(rows: DataFrame) -> DataFrame:
    """The journal's rows with what follows from each by itself.

    ``holds``: the row makes its event key known. ``waits``: while it is its item's last row, the item is open.
    ``closes``: it is its item's last row. ``books``: its postings took effect. ``lines``: the postings, parsed.
    Use ``lines`` once in a query, by ``LATERAL VIEW explode(array(lines))``: else each mention parses again.
    """
    decision, first = fn.col("decision"), fn.col("first")
    is_class = fn.coalesce("error_class", fn.lit("")) == CONFLICT_CLASS
    # A handler's own error of that name comes with the handler's version.
    conflict = (decision == Decision.DEAD.value) & is_class & fn.col("handler_version").isNull()
    is_open = decision.isin(*(one.value for one in OPEN_DECISIONS))
    return rows.withColumns(
        {
            "holds": first & (decision != Decision.DUPLICATE.value) & ~conflict,
            "waits": is_open & ~(first & (decision == Decision.REPLAYED.value)),
            "closes": ~is_open & (decision != Decision.REVERSED.value),
            "books": decision.isin(*(one.value for one in BOOKING_DECISIONS)),
            "lines": fn.from_json("postings", POSTINGS_TYPE),
        }
    )


def _digests(journal: DataFrame) -> DataFrame:
    """The chain's digests as Spark computes them: the same text that `journal.chain.commit_digest` hashes."""
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
    """`journal.schema.row_hash`, natively. ``there`` are the table's columns: older code's lacks later ones."""
    texts = [fn.coalesce(_as_text(name), fn.lit("\x00")) for name in HASHED_COLUMNS]
    # concat is NULL where a part is, and concat_ws leaves a NULL out.
    texts += [fn.concat(fn.lit(f"{name}="), fn.col(name)) for name in LATER_COLUMNS if name in there]
    return fn.sha2(fn.concat_ws("\x1f", *texts), 256)


def _as_text(name: str) -> Column:
    if str(JOURNAL_SCHEMA.field(name).type).startswith("timestamp"):
        return fn.unix_micros(fn.col(name)).cast("string")
    return fn.col(name).cast("string")
