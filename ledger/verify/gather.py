"""Opens what is derived, pins the journal, asks Kafka's ends, in this order: what every invariant looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import orjson
import pyarrow as pa
from deltalake import DeltaTable

from core.clock import Clock, from_rfc3339, to_micros
from core.errors import PayhookError
from core.routing import Shard, is_sparse, source_of, topics_of
from journal.anchors import AnchorKeys
from journal.index import Index
from journal.journals import own_after, shard_in
from journal.lake import has_table, open_table
from journal.reader import JournalReader
from journal.schema import TIMESTAMP
from journal.state import JournalState, Marks
from ledger.postings import mark_of
from ledger.verify.engine import SqlEngine
from ledger.verify.evidence import Evidence, Lake, VerifyLimits, is_partition_read
from ledger.verify.kafka import Ends, Kafka, read_anchor_records
from ledger.verify.kafka_checks import Division, add_division
from ledger.verify.views import BOOKED_LINES, build_journal_sql, build_mine_sql, find_base
from providers.settings import ProvidersSettings


class VerifyImpossible(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"can't verify: {problem}")


@dataclass(frozen=True, slots=True)
class Options:
    """``deep``: bodies are hashed too. ``since``: only rows from this seq or moment on are looked at.

    ``providers``: how adapters read bodies. ``division``: where several streams divide its topic.
    """

    deep: bool = False
    since: int | datetime | None = None
    providers: ProvidersSettings = field(default_factory=ProvidersSettings)
    division: Division | None = None


def gather_evidence(
    engine: SqlEngine,
    lake: Lake,
    kafka: Kafka,
    anchor_keys: AnchorKeys,
    limits: VerifyLimits,
    clock: Clock,
    index: Index | None,
    options: Options,
) -> Evidence:
    """Opens derived things first, then the journal, then Kafka, so that each can only be behind the next one."""
    postings = _open_postings(lake)
    has_receipts = lake.is_ledger and _add_receipts(engine, lake, kafka)
    anchors = topics_of(lake.mode).anchors
    anchor_ends = kafka.find_ends([anchors]).get(anchors, {})
    state = JournalReader(str(lake.journal)).state()
    shard, copied = shard_in(state.notes), own_after(state.notes)
    others = _find_other_shards(lake, shard)
    sources, ends = _add_sources(engine, lake, [topic for topic in state.marks if is_sparse(topic)])
    every_end = kafka.find_ends([topic for topic in (*state.marks, lake.dlq_topic) if not is_sparse(topic)])
    ends |= {
        topic: {
            number: bounds for number, bounds in partitions.items() if is_partition_read(lake, shard, topic, number)
        }
        for topic, partitions in every_end.items()
    }
    engine.add_delta("whole_rows", lake.journal, state.version)
    engine.add_view("whole", build_journal_sql("whole_rows", shard))
    _add_every(engine, lake, state, postings, others, shard, options.since)
    base = find_base(engine, state, options.since, read_anchor_records(kafka, lake.stream, anchor_ends), anchor_keys)
    engine.add_view("journal", f"SELECT * FROM whole WHERE seq > {base.seq}")  # noqa: S608 - a number
    engine.add_view("own_lines", BOOKED_LINES.format(rows="journal"))
    index_seq = index.seq if index is not None else 0
    engine.add_view("indexed", f"SELECT * FROM journal WHERE seq <= {index_seq}")  # noqa: S608 - a number
    evidence = Evidence(
        engine=engine,
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
        postings_mark=None if postings is None else mark_of(postings),
        lowest=_read_lowest(engine) if base.seq else {},
        every_mark=_merge_marks([state, *(other.state for other in others)]),
        every_end=every_end,
        sources=sources,
    )
    _add_asked(evidence, copied)
    _add_partitions(evidence)
    if options.division is not None:
        evidence.is_divided = True
        evidence.not_divided = add_division(engine, lake.places, options.division)
    return evidence


def _read_lowest(engine: SqlEngine) -> dict[tuple[str, int], int]:
    rows = engine.ask(
        "SELECT life, partition, min(kafka_offset) AS low FROM journal WHERE first GROUP BY life, partition"
    )
    return {(row["life"], row["partition"]): row["low"] for row in rows}


_ASKED = pa.schema(
    [
        ("own_mode", pa.string()),
        *((name, pa.int64()) for name in ("before_seq", "last_seq", "own_after")),
        *((name, pa.int64()) for name in ("postings_mark", "published_upto")),
        *((name, TIMESTAMP) for name in ("waits_since", "late_before")),
    ]
)


def _add_asked(evidence: Evidence, copied: int) -> None:
    now, limits = evidence.now, evidence.limits
    asked = {
        "own_mode": str(evidence.lake.mode),
        "before_seq": evidence.base.seq,
        "last_seq": evidence.seq,
        "own_after": copied,
        "postings_mark": evidence.postings_mark or 0,
        "published_upto": evidence.state.published_upto,
        "waits_since": now - timedelta(seconds=limits.in_flight_age_s_max),
        "late_before": now - timedelta(days=limits.refund_awaits_days_max),
    }
    evidence.add_rows("asked", _ASKED, [asked])


_SPANS = pa.schema(
    [
        *((name, pa.string()) for name in ("topic", "life")),
        ("partition", pa.int32()),
        *((name, pa.int64()) for name in ("start_offset", "until_offset")),
        ("sparse", pa.bool_()),
    ]
)
_MARKS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        *((name, pa.int64()) for name in ("until_offset", "kafka_low", "kafka_high")),
        ("sparse", pa.bool_()),
    ]
)


def _add_partitions(evidence: Evidence) -> None:
    spans = [
        {
            "topic": span.topic,
            "life": span.history_name,
            "partition": span.partition,
            "start_offset": span.start,
            "until_offset": span.until,
            "sparse": is_sparse(span.topic),
        }
        for span in evidence.spans()
    ]
    evidence.add_rows("spans", _SPANS, spans)
    marks = []
    for topic, partition, _, until in evidence.partitions():
        low, high = evidence.ends.get(topic, {}).get(partition, (None, None))
        where = {"topic": topic, "partition": partition, "sparse": is_sparse(topic)}
        marks.append({**where, "until_offset": until, "kafka_low": low, "kafka_high": high})
    evidence.add_rows("marks", _MARKS, marks)


@dataclass(frozen=True, slots=True)
class OtherShard:
    lake: Lake
    state: JournalState
    postings: DeltaTable | None


def _find_other_shards(lake: Lake, shard: Shard) -> list[OtherShard]:
    lakes = [Lake(lake.places.of_shard(number)) for number in range(shard.count) if number != shard.number]
    begun = [other for other in lakes if has_table(str(other.journal))]
    return [OtherShard(other, JournalReader(str(other.journal)).state(), _open_postings(other)) for other in begun]


def _open_postings(lake: Lake) -> DeltaTable | None:
    is_there = lake.is_ledger and has_table(str(lake.postings))
    return open_table(str(lake.postings)) if is_there else None


def _merge_marks(states: Sequence[JournalState]) -> Marks:
    marks: Marks = {}
    for state in states:
        for topic, partitions in state.marks.items():
            marks[topic] = {**marks.get(topic, {}), **partitions}
    return marks


def _add_every(
    engine: SqlEngine,
    lake: Lake,
    state: JournalState,
    postings: DeltaTable | None,
    others: Sequence[OtherShard],
    shard: Shard,
    since: int | datetime | None,
) -> None:
    """Names the views ``postings``, ``every_row`` and ``every_line``.

    ``stream`` is the journal that has a row, ``recent`` whether it is to be looked at, ``mine`` whether the first
    journal's shard has it.
    """
    if since is None:
        recent = "true"
    else:
        recent = f"seq >= {since}" if isinstance(since, int) else f"unix_micros(decided_at) >= {to_micros(since)}"
    journals = [("whole", own_after(state.notes), lake.stream)]
    tables = [("postings", lake, postings)]
    for number, other in enumerate(others):
        engine.add_delta(f"other_{number}_rows", other.lake.journal, other.state.version)
        engine.add_view(f"other_{number}", build_journal_sql(f"other_{number}_rows", shard))
        journals.append((f"other_{number}", own_after(other.state.notes), other.lake.stream))
        tables.append((f"other_{number}_postings", other.lake, other.postings))
    every_row = (
        f"SELECT *, '{stream}' AS stream, {recent} AS recent FROM {name} WHERE seq > {after}"  # noqa: S608
        for name, after, stream in journals
    )
    engine.add_view("every_row", " UNION ALL ".join(every_row))
    for name, its_lake, table in tables:
        if table is not None:
            engine.add_delta(name, its_lake.postings, table.version())
    if any(table is None for _, _, table in tables):
        engine.add_view("every_line", BOOKED_LINES.format(rows="every_row"))
        return
    columns = (
        "seq",
        "event_key",
        "fact_key",
        "entity_key",
        "account",
        "side",
        "amount_minor",
        "currency",
        "decided_at",
    )
    every_line = (
        f"SELECT {', '.join(columns)}, {build_mine_sql(shard)} AS mine FROM {name}"  # noqa: S608 - names of our own
        for name, _, _ in tables
    )
    engine.add_view("every_line", " UNION ALL ".join(every_line))


_RECEIPTS = pa.schema([("at", TIMESTAMP), ("event_key", pa.string()), ("outcome", pa.string()), ("status", pa.int32())])
RECORDS_PER_BATCH = 10_000


def _add_receipts(engine: SqlEngine, lake: Lake, kafka: Kafka) -> bool:
    if has_table(str(lake.receipts)):
        engine.add_delta("receipts", lake.receipts, open_table(str(lake.receipts)).version())
        return True
    topic = topics_of(lake.mode).receipts
    if not any(high > low for low, high in kafka.find_ends([topic]).get(topic, {}).values()):
        return False
    engine.add_table("receipts", _read_receipts(kafka, topic), _RECEIPTS)
    return True


def _read_receipts(kafka: Kafka, topic: str) -> Iterator[pa.RecordBatch]:
    lines = (line for _, record in kafka.records(topic) for line in (record.value or b"").split(b"\n"))
    receipts = (receipt for line in lines if (receipt := _parse_receipt(line)) is not None)
    while batch := list(islice(receipts, RECORDS_PER_BATCH)):
        yield pa.RecordBatch.from_pylist(batch, _RECEIPTS)


def _parse_receipt(line: bytes) -> dict[str, Any] | None:
    try:
        fields = orjson.loads(line)
        return {**{name: fields.get(name) for name in _RECEIPTS.names}, "at": from_rfc3339(fields["at"])}
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


def _add_sources(engine: SqlEngine, lake: Lake, topics: Sequence[str]) -> tuple[dict[str, str], Ends]:
    sources: dict[str, str] = {}
    ends: Ends = {}
    for number, name in enumerate(sorted({source_of(topic) for topic in topics})):
        path = lake.journal.parent / name
        if has_table(str(path)):
            reader = JournalReader(str(path))
            engine.add_delta(f"source_{number}_rows", path, reader.version)
            engine.add_view(f"source_{number}", build_journal_sql(f"source_{number}_rows"))
            sources[name] = f"source_{number}"
            ends |= {topic: {0: (1, reader.last_seq + 1)} for topic in topics if source_of(topic) == name}
    return sources, ends


def read_last_seq(lake: Lake) -> int:
    if not has_table(str(lake.journal)):
        raise VerifyImpossible(f"there is no journal at {lake.journal}")
    return JournalReader(str(lake.journal)).state().next_seq - 1
