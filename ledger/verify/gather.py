"""Opens what is derived, pins the journal, asks Kafka's ends, in this order: what every invariant looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from core.clock import Clock
from core.errors import PayhookError
from core.routing import Shard, is_sparse, source_of, topics_of
from journal.anchors import AnchorKeys
from journal.index import Index
from journal.lake import has_table, open_table
from journal.reader import JournalReader
from journal.shards import own_after, shard_in
from journal.state import JournalState, Marks
from ledger.postings import mark_of
from ledger.spark import read_table
from ledger.verify.evidence import Evidence, Lake, Limits, reads
from ledger.verify.fast_path import Tables
from ledger.verify.kafka import Ends, Kafka, anchor_records
from ledger.verify.views import base_before, journal_view, mine
from providers.settings import ProvidersSettings


class VerifyImpossible(PayhookError):
    """There is nothing to verify."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"can't verify: {problem}")


@dataclass(frozen=True, slots=True)
class Options:
    """``deep``: bodies are hashed too. ``since``: only rows from this seq on, or decided from this moment on, are
    looked at. ``providers``: how adapters read bodies."""

    deep: bool = False
    since: int | datetime | None = None
    providers: ProvidersSettings = field(default_factory=ProvidersSettings)


def gather(
    session: SparkSession,
    lake: Lake,
    kafka: Kafka,
    anchor_keys: AnchorKeys,
    limits: Limits,
    clock: Clock,
    index: Index | None,
    options: Options,
) -> Evidence:
    """Derived things first, then the journal, then Kafka: so each may only be behind the one that comes after it."""
    postings = _postings(lake)
    has_receipts = lake.is_ledger and _register_receipts(session, lake, kafka)
    anchors = topics_of(lake.mode).anchors
    anchor_ends = kafka.ends([anchors]).get(anchors, {})
    state = JournalReader(str(lake.journal)).state()
    shard, copied = shard_in(state.notes), own_after(state.notes)
    others = _others(lake, shard)
    sources, ends = _sources(session, lake, [topic for topic in state.marks if is_sparse(topic)])
    every_end = kafka.ends([topic for topic in (*state.marks, lake.dlq_topic) if not is_sparse(topic)])
    ends |= {
        topic: {number: held for number, held in partitions.items() if reads(lake, shard, topic, number)}
        for topic, partitions in every_end.items()
    }
    whole = journal_view(read_table(session, lake.journal, state.version), shard)
    whole.createOrReplaceTempView("whole")
    has_every_line = _register_every(session, lake, whole, state, postings, others, shard, options.since)
    anchored = anchor_records(kafka, session, lake.stream, anchor_ends)
    base = base_before(whole, state, options.since, anchored, anchor_keys)
    looked_at = fn.col("seq") > base.seq
    journal = whole if base.seq == 0 else whole.where(looked_at)
    journal.createOrReplaceTempView("journal")
    if postings is not None:
        own = journal.where(fn.col("seq") > copied)
        own.where(fn.col("seq") <= mark_of(postings)).createOrReplaceTempView("booked")
        lines = read_table(session, lake.postings, postings.version())
        (lines if base.seq == 0 else lines.where(looked_at)).createOrReplaceTempView("postings")
    if index is not None:
        journal.where(fn.col("seq") <= index.seq).createOrReplaceTempView("indexed")
    return Evidence(
        session=session,
        lake=lake,
        state=state,
        kafka=kafka,
        anchor_keys=anchor_keys,
        ends=ends,
        anchor_ends=anchor_ends,
        has_receipts=has_receipts,
        index=index,
        now=clock.now(),
        limits=limits,
        base=base,
        has_every_line=has_every_line,
        every_mark=_every_mark([state, *(one.state for one in others)]),
        every_end=every_end,
        sources=sources,
        tables=Tables(
            journal=str(lake.journal),
            journal_version=state.version,
            last_seq=state.next_seq - 1,
            postings=str(lake.postings) if postings is not None else None,
            postings_version=postings.version() if postings is not None else 0,
            postings_mark=mark_of(postings) if postings is not None else 0,
            index_seq=index.seq if index is not None else 0,
            mode=str(lake.mode),
            shard=shard,
            own_after=copied,
        ),
    )


@dataclass(frozen=True, slots=True)
class OtherShard:
    """The journal of another shard, and its table of postings, each as of one version; ``postings``: None without."""

    lake: Lake
    state: JournalState
    postings: DeltaTable | None


def _others(lake: Lake, shard: Shard) -> list[OtherShard]:
    """The shards beside one; without those that have no journal yet."""
    lakes = [Lake(lake.places.of_shard(number)) for number in range(shard.count) if number != shard.number]
    there = [one for one in lakes if has_table(str(one.journal))]
    return [OtherShard(one, JournalReader(str(one.journal)).state(), _postings(one)) for one in there]


def _postings(lake: Lake) -> DeltaTable | None:
    there = lake.is_ledger and has_table(str(lake.postings))
    return open_table(str(lake.postings)) if there else None


def _every_mark(states: Sequence[JournalState]) -> Marks:
    marks: Marks = {}
    for state in states:
        for topic, partitions in state.marks.items():
            marks[topic] = {**marks.get(topic, {}), **partitions}
    return marks


def _register_every(
    session: SparkSession,
    lake: Lake,
    whole: DataFrame,
    state: JournalState,
    postings: DeltaTable | None,
    others: Sequence[OtherShard],
    shard: Shard,
    since: int | datetime | None,
) -> bool:
    """The views ``every_row`` and, where each shard has postings, ``every_line``; returns whether that is there.

    ``stream`` is whose journal a row is in, ``recent`` whether it is to be looked at; ``mine`` is by the first one's
    shard.
    """
    rows = whole.where(fn.col("seq") > own_after(state.notes)).withColumn("stream", fn.lit(lake.stream))
    for one in others:
        theirs = journal_view(read_table(session, one.lake.journal, one.state.version), shard)
        own = theirs.where(fn.col("seq") > own_after(one.state.notes)).withColumn("stream", fn.lit(one.lake.stream))
        rows = rows.unionByName(own, allowMissingColumns=True)
    recent = fn.lit(True) if since is None else fn.col("seq" if isinstance(since, int) else "decided_at") >= since
    rows.withColumn("recent", recent).createOrReplaceTempView("every_row")
    tables = [(lake, postings), *((one.lake, one.postings) for one in others)]
    parts = [read_table(session, one.postings, table.version()) for one, table in tables if table is not None]
    if len(parts) < len(tables):
        return False
    lines = reduce(DataFrame.unionByName, parts)
    lines.withColumn("mine", mine(shard)).createOrReplaceTempView("every_line")
    return True


def _register_receipts(session: SparkSession, lake: Lake, kafka: Kafka) -> bool:
    """The view ``receipts``: those that were collected; where none were yet, those on their topic."""
    if has_table(str(lake.receipts)):
        read_table(session, lake.receipts, open_table(str(lake.receipts)).version()).createOrReplaceTempView("receipts")
        return True
    topic = topics_of(lake.mode).receipts
    if not any(high > low for low, high in kafka.ends([topic]).get(topic, {}).values()):
        return False
    lines = kafka.frame(session, topic).selectExpr("explode(split(CAST(value AS string), '\\n')) AS line")
    parsed = lines.selectExpr("from_json(line, 'at timestamp, event_key string, outcome string, status int') AS line")
    parsed.select("line.*").createOrReplaceTempView("receipts")
    return True


def _sources(session: SparkSession, lake: Lake, topics: Sequence[str]) -> tuple[dict[str, DataFrame], Ends]:
    """The journals that are read under these names, and what each topic holds; without those that aren't there."""
    sources: dict[str, DataFrame] = {}
    ends: Ends = {}
    for name in sorted({source_of(topic) for topic in topics}):
        path = lake.journal.parent / name
        if has_table(str(path)):
            reader = JournalReader(str(path))
            sources[name] = journal_view(read_table(session, path, reader.version))
            ends |= {topic: {0: (1, reader.last_seq + 1)} for topic in topics if source_of(topic) == name}
    return sources, ends


def last_seq(lake: Lake) -> int:
    if not has_table(str(lake.journal)):
        raise VerifyImpossible(f"there is no journal at {lake.journal}")
    return JournalReader(str(lake.journal)).state().next_seq - 1
