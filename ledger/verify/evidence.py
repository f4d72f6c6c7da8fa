"""What the invariants look at: a journal pinned to one version, and what everything else held around that moment."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from core.decision import NO_STEP_DECISIONS, OPEN_DECISIONS, Decision
from core.event import Mode
from core.place import Place
from core.routing import mode_of, topics_of
from journal.anchors import AnchorKeys
from journal.chain import GENESIS
from journal.histories import life_of
from journal.index import Entries, KnownEvent
from journal.kafka_log import Point
from journal.open_item import CONFLICT_CLASS, OpenItem
from journal.records import Record
from journal.schema import HASHED_COLUMNS, JOURNAL_SCHEMA, LATER_COLUMNS
from journal.state import JournalState
from ledger.postings import BOOKING_DECISIONS
from ledger.verify.survey import Doubt, Survey, Tables, Told, survey
from ledger.verify.survey.commits import CommitDigest
from ledger.verify.survey.digests import SALT_BYTES

POSTINGS_TYPE = "array<struct<account:string,side:string,amount_minor:bigint,currency:string>>"

Ends = dict[str, dict[int, tuple[int, int]]]
"""First offset held and next offset written, by topic and partition."""


class Kafka(Protocol):
    """What is asked of Kafka."""

    def ends(self, topics: Sequence[str]) -> Ends:
        """A topic that doesn't exist is left out."""

    def timestamp(self, topic: str, partition: int, offset: int) -> datetime | None:
        """When the first record at or after an offset was written; None where there is none, or it has no time.

        :raises KafkaUnreachable: it doesn't answer
        """

    def frame(self, session: SparkSession, topic: str) -> DataFrame:
        """All of a topic: ``partition, offset, key, value, headers`` as Spark's Kafka source gives them."""

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Kafka's own id of each topic; one that doesn't exist is left out."""

    def records_at(self, points: Collection[Point]) -> Mapping[Point, Record]:
        """The record at each offset; a point that Kafka holds no record for is left out.

        :raises KafkaSilent: it doesn't answer
        """


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition that one history decided: from ``start`` to before ``until``."""

    topic: str
    history: int
    partition: int
    start: int
    until: int

    @property
    def life(self) -> str:
        """Topic and history in one word (`journal.histories.life_of`)."""
        return life_of(self.topic, self.history)


class KeyIndex(Protocol):
    """What is asked of the key index on the driver."""

    @property
    def seq(self) -> int: ...
    def open_count(self) -> int: ...
    def dead_count(self) -> int: ...
    def known_event(self, event_key: str) -> KnownEvent | None: ...
    def known_conflict(self, event_key: str, content_sha256: str) -> bool: ...
    def open_item(self, item_seq: int) -> OpenItem | None: ...
    def is_reversed(self, item_seq: int) -> bool: ...
    def reopened_at(self, item_seq: int) -> int | None: ...
    def event_entries(self) -> Iterator[Entries]: ...
    def fact_entries(self) -> Iterator[Entries]: ...


@dataclass(frozen=True, slots=True)
class Base:
    """The row before the first one that is looked at, and the chain's head after it where an anchor tells it."""

    seq: int = 0
    chain: str | None = GENESIS


@dataclass
class Evidence:
    """Everything is up to ``seq``, the last row of the pinned journal; marks say how far each derived thing got.

    The views ``journal`` (see `journal_view`), ``postings`` and, where they are collected, ``receipts`` are registered
    in ``session``; and the journal up to the mark of what is derived from it: ``booked`` for the postings, ``indexed``
    for the index. All begin with the row after ``base``; ``whole`` is the journal from its first row.
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
    refund_awaits_s_max: float
    tables: Tables
    base: Base
    acts: Place | None = None
    sources: Mapping[str, DataFrame] = field(default_factory=dict)
    """The journals that the stream reads, by their stream's name, as `journal_view`."""

    no_index: str = ""
    """Why there is none."""

    told: Told = lambda done, of: None
    salt: bytes = field(default_factory=lambda: os.urandom(SALT_BYTES))
    """Of the digests by which keys are compared."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _survey: Survey | None = None
    _commits: Sequence[CommitDigest] | None = None

    @property
    def seq(self) -> int:
        return self.state.next_seq - 1

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The result of a query, for results that are small by construction: one job."""
        return collect(self.session.sql(sql))

    def sample(self, sql: str) -> list[dict[str, Any]]:
        """At most ``sample_max`` rows of a query's result: one job."""
        return collect(self.session.sql(sql).limit(self.sample_max))

    def survey(self) -> Survey:
        """What one pass over the ledger clears, made once. What it doubts is to be looked at by itself."""
        with self._lock:
            if self._survey is None:
                self._survey = survey(self.session, self.tables, self.salt, self.since, self.told)
            return self._survey

    def search(self, doubt: Doubt, sql: str) -> list[dict[str, Any]]:
        """At most ``sample_max`` rows of a query's result; none of it is asked where the survey has no such doubt."""
        return [] if self.survey().clears(doubt) else self.sample(sql)

    def commits(self) -> Sequence[CommitDigest]:
        """Every commit's digest in order, one a commit."""
        with self._lock:
            if self._commits is None:
                self._commits = self.survey().commits if self.survey().clears(Doubt.ORDER) else self._search_commits()
            return self._commits

    def _search_commits(self) -> list[CommitDigest]:
        """However their rows lie: one job over the journal."""
        table = _digests(self.session.table("journal")).toArrow().sort_by("batch_seq")
        return [CommitDigest(**row) for row in table.to_pylist()]

    def anchor_records(self) -> Iterator[tuple[int, bytes]]:
        """Offset and bytes of what the anchors' topic held of this stream before the journal was pinned, by seq."""
        return anchored(self.kafka, self.session, self.stream, self.anchor_ends)

    def last_row_age_s(self) -> float:
        """Since the journal's last row was decided; 0 of an empty one."""
        commits = self.commits()
        return (self.now - commits[-1].decided_at).total_seconds() if commits else 0.0

    @property
    def since(self) -> int:
        """The first row that is looked at; 1: all are."""
        return self.base.seq + 1

    @property
    def is_whole(self) -> bool:
        return self.base.seq == 0

    def partitions(self) -> Iterator[tuple[str, int, int, int]]:
        """Topic, partition, first and next offset, as the journal's metadata has them.

        Where not all rows are looked at, the first offset is the lowest one among them.
        """
        for topic, untils in sorted(self.state.marks.items()):
            for number, until in sorted(untils.items()):
                start = self.state.start.get(topic, {}).get(number, until)
                if not self.is_whole:
                    start = self._lowest(life_of(topic, self.state.history(topic).number), number, until)
                yield topic, number, start, until

    def spans(self) -> Iterator[Span]:
        """As `partitions`, of every history."""
        for topic, history in sorted(self.state.histories.items()):
            for ended in history.ended:
                for number, until in sorted(ended.end.items()):
                    span = Span(topic, ended.number, number, ended.start.get(number, until), until)
                    yield span if self.is_whole else replace(span, start=self._lowest(span.life, number, until))
        for topic, number, start, until in self.partitions():
            yield Span(topic, self.state.history(topic).number, number, start, until)

    def _lowest(self, life: str, number: int, until: int) -> int:
        """The lowest offset among the rows that are looked at."""
        return min((low for low, _ in self.survey().runs.get((life, number), ())), default=until)


def anchored(
    kafka: Kafka, session: SparkSession, stream: str, ends: dict[int, tuple[int, int]]
) -> Iterator[tuple[int, bytes]]:
    """As `Evidence.anchor_records`."""
    if not any(high > low for low, high in ends.values()):
        return
    until = max(high for _, high in ends.values())
    frame = kafka.frame(session, topics_of(mode_of(stream)).anchors).where(
        (fn.col("offset") < until) & (fn.col("key").cast("string") == stream)
    )
    by_seq = frame.select("offset", "value", fn.expr("get_json_object(CAST(value AS string), '$.seq')").alias("at"))
    for row in by_seq.orderBy(fn.expr("TRY_CAST(at AS bigint)"), "offset").toLocalIterator():
        yield row["offset"], bytes(row["value"])


def collect(frame: DataFrame) -> list[dict[str, Any]]:
    """A frame that is small by construction."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def journal_view(rows: DataFrame) -> DataFrame:
    """The journal's rows with what follows from each by itself.

    ``life``: the topic's history (`journal.histories.life_of`).
    ``holds``: the row makes its event key known. ``waits``: while it is its item's last row, the item is open.
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
            "life": fn.coalesce(fn.concat("topic", fn.lit("#"), fn.col("history").cast("string")), "topic"),
            "holds": first & ~decision.isin(Decision.DUPLICATE.value, Decision.LOST.value) & ~conflict,
            "waits": is_open & ~(first & (decision == Decision.REPLAYED.value)),
            "closes": ~is_open & ~decision.isin(*(one.value for one in NO_STEP_DECISIONS)),
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
