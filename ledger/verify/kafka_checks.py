"""Invariants between the journal and Kafka: offsets, what is in flight, whose a record is, what was answered."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, islice
from typing import Any

import pyarrow as pa

from core.errors import Unparseable
from core.event import ELSEWHERE_TYPE, from_record
from core.layout import StreamLayout
from core.routing import is_events, is_sparse, topics_of
from core.where import HeaderFilter
from journal.histories import FIRST, History
from journal.kafka_log import Point
from journal.lake import has_table
from journal.reader import JournalReader
from journal.schema import TIMESTAMP, TopicRecord
from journal.state import JournalState
from ledger.verify.engine import SqlEngine
from ledger.verify.evidence import Evidence
from ledger.verify.report import Finding, Invariant, PromiseInvariant
from ledger.verify.views import OPEN_ITEMS, build_journal_sql


class OffsetsAccounted(PromiseInvariant):
    name = "offsets_accounted"
    looked_past = "offsets that were decided earlier"

    def check(self, evidence: Evidence) -> Finding:
        offenders = [
            offender
            for row in evidence.search_offenders(self.name)
            for offender in islice(_describe_row(row), evidence.sample_max)
        ]
        accounted = sum(span.until - span.start for span in evidence.spans())
        unknown = evidence.explain_part(self.looked_past)
        return self.build_finding(evidence, offenders, {"offsets": accounted, **self._count_lost(evidence)}, unknown)

    def _count_lost(self, evidence: Evidence) -> dict[str, Any]:
        if all(not history.ended for history in evidence.state.histories.values()):
            return {}
        [figures] = evidence.rows(
            """
            SELECT CAST(coalesce(sum(CASE WHEN first THEN offset_until - kafka_offset ELSE 0 END), 0) AS bigint)
                       AS lost_offsets,
                   count(*) FILTER (WHERE NOT first) AS lost_events,
                   count(*) FILTER (WHERE NOT first AND event_key IN (
                       SELECT event_key FROM whole WHERE decision <> 'lost' AND event_key IS NOT NULL)) AS found_again
            FROM journal WHERE decision = 'lost'
            """
        )
        return figures


def _describe_row(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    about = {name: row[name] for name in ("problem", "topic", "partition")}
    bounds = None if row["high"] is None else [row["low"], row["high"]]
    match row["problem"]:
        case "rows beyond the marks":
            yield about | {"marks": [row["start_offset"], row["until_offset"]], "rows": bounds}
        case "an offset with several first rows":
            yield about | {"offset": row["at_offset"]}
        case "an offset with no first row":
            yield from (about | {"offset": offset} for offset in range(row["at_offset"], row["until_offset"]))
        case "decided offsets that Kafka never had":
            yield about | {"until": row["until_offset"], "kafka": bounds}
        case _:
            yield about


_UNDECIDED = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("at_offset", pa.int64()), ("written_at", TIMESTAMP)]
)


class InFlight(PromiseInvariant):
    name = "in_flight"
    looked_past = "items whose first decision came earlier"

    def check(self, evidence: Evidence) -> Finding:
        undecided = [
            {
                "topic": topic,
                "partition": partition,
                "at_offset": offset,
                "written_at": evidence.kafka.timestamp(topic, partition, offset),
            }
            for topic, partition, offset, _ in _find_undecided(evidence)
        ]
        evidence.add_rows("undecided", _UNDECIDED, undecided)
        evidence.engine.add_result("open_items", OPEN_ITEMS.format(rows="journal"))
        return super().check(evidence)

    def describe_offender(self, row: dict[str, Any], evidence: Evidence) -> dict[str, Any]:
        if row["item_seq"] is not None:
            about = {"item_seq": row["item_seq"]}
        else:
            about = {"topic": row["topic"], "partition": row["partition"]}
            if row["since"] is None:
                return {"problem": row["problem"], **about, "lost": [row["at_offset"], row["until_offset"]]}
            about["offset"] = row["at_offset"]
        return {"problem": row["problem"], **about, "age_s": _age_s(row["since"], evidence)}

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        [waiting] = evidence.rows(
            """
            SELECT count(*) FILTER (WHERE decision <> 'dead') AS waiting,
                   count(*) FILTER (WHERE decision = 'dead') AS dead,
                   min(CASE WHEN decision <> 'dead' THEN since END) AS oldest
            FROM open_items, asked WHERE mine AND item_seq > before_seq
            """
        )
        return {
            "undecided": sum(count for *_, count in _find_undecided(evidence)),
            "waiting": waiting["waiting"],
            "dead": waiting["dead"],
            "oldest_waiting_s": _age_s(waiting["oldest"], evidence),
        }


def _find_undecided(evidence: Evidence) -> Iterator[tuple[str, int, int, int]]:
    for topic in evidence.state.marks:
        if is_sparse(topic):
            continue
        for partition, (low, high) in sorted(evidence.ends.get(topic, {}).items()):
            until = evidence.state.marks[topic].get(partition, low)
            if high > until:
                yield topic, partition, until, high - until


def _age_s(since: datetime | None, evidence: Evidence) -> float | None:
    return None if since is None else round(max(0.0, (evidence.now - since).total_seconds()), 3)


class ReceiptsHaveDecisions(PromiseInvariant):
    """A receipt names no entity, so its decision may be in the journal of any shard."""

    name = "receipts_have_decisions"

    def check(self, evidence: Evidence) -> Finding:
        if not evidence.has_receipts:
            none = "no receipts were collected, and their topic holds none" if evidence.seq else None
            return self.build_finding(evidence, (), {"receipts": None}, not_checked=none)
        evidence.add_rows("settled", pa.schema([("before", TIMESTAMP)]), [{"before": find_settled_before(evidence)}])
        return super().check(evidence)

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        return evidence.rows("SELECT count(*) AS receipts, max(receipts.at) AS newest FROM receipts")[0]


SLACK = timedelta(seconds=60)
"""Between a record's time and its receipt's: a request takes seconds, and clocks differ by less than that."""


def find_settled_before(evidence: Evidence) -> datetime:
    """Returns the moment before which all answered events are decided: the oldest undecided record is younger."""
    topic = topics_of(evidence.lake.mode).events
    marks = evidence.every_mark.get(topic, {})
    waiting = (
        evidence.kafka.timestamp(topic, partition, marks.get(partition, low))
        for partition, (low, high) in evidence.every_end.get(topic, {}).items()
        if high > marks.get(partition, low)
    )
    return min([evidence.now, *(at for at in waiting if at is not None)]) - SLACK


BY_CHANCE, OF_A_DEEP_LOOK = 1_000, 100_000
"""Offsets that are compared at most."""

_ELSEWHERE = f"""
    SELECT seq, topic, partition, kafka_offset AS low, offset_until AS high, headers
    FROM journal WHERE first AND event_type = '{ELSEWHERE_TYPE}' ORDER BY seq
"""  # noqa: S608 - a word of our own
_OWN = """
    SELECT points.topic AS topic, points.partition AS partition, at_offset
    FROM points JOIN journal
    ON journal.topic = points.topic AND journal.partition = points.partition AND kafka_offset = at_offset
    WHERE first AND offset_until IS NULL
"""
_POINTS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("at_offset", pa.int64())])


class TopicDivided(PromiseInvariant):
    name = "topic_divided"

    def check(self, evidence: Evidence) -> Finding:
        if evidence.not_divided is not None:
            return self.build_finding(evidence, not_checked=evidence.not_divided)
        return super().check(evidence)

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        [row] = evidence.rows("SELECT CAST(coalesce(sum(high - low), 0) AS bigint) AS offsets FROM divided_spans")
        return row


@dataclass
class ElsewhereIsOthers(Invariant):
    """Compares by chance up to ``compared_max`` offsets that Kafka still holds.

    Only a stream's own function can read another program's records, so those aren't compared.
    """

    compared_max: int = BY_CHANCE
    name = "elsewhere_is_others"
    sentence = "A stream passed over only records that its `where` doesn't take."

    def check(self, evidence: Evidence) -> Finding:
        spans = [span for row in evidence.rows(_ELSEWHERE) if (span := _find_held(evidence, row)) is not None]
        points = _choose_points(spans, self.compared_max, evidence.state.version)
        taken = _find_own(evidence, points)
        wheres = {point: where for point, where in points.items() if point not in taken}
        records = evidence.kafka.records_at(wheres)
        offenders = (
            {
                "problem": "the stream takes such records, but passed this one over",
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "where": str(wheres[topic, partition, offset]),
            }
            for (topic, partition, offset), record in sorted(records.items())
            if _is_taken(wheres[topic, partition, offset], topic, record)
        )
        unknown = evidence.explain_part("what was passed over earlier")
        return self.build_finding(evidence, offenders, {"compared": len(records)}, unknown)


@dataclass(frozen=True, slots=True)
class PassedOffsets:
    topic: str
    partition: int
    low: int
    high: int
    where: HeaderFilter


def _find_held(evidence: Evidence, row: dict[str, Any]) -> PassedOffsets | None:
    topic, partition = row["topic"], row["partition"]
    low, high = evidence.ends.get(topic, {}).get(partition, (0, 0))
    low, high = max(low, row["low"]), min(high, row["high"])
    return PassedOffsets(topic, partition, low, high, HeaderFilter.from_text(row["headers"])) if low < high else None


def _choose_points(spans: Sequence[PassedOffsets], count: int, seed: int) -> dict[Point, HeaderFilter]:
    ends = list(accumulate(span.high - span.low for span in spans))
    total = ends[-1] if ends else 0
    chosen = random.Random(seed).sample(range(total), min(count, total))  # noqa: S311 - chance, no secret
    points: dict[Point, HeaderFilter] = {}
    for number in sorted(chosen):
        at = bisect_right(ends, number)
        span = spans[at]
        points[span.topic, span.partition, span.high - (ends[at] - number)] = span.where
    return points


def _find_own(evidence: Evidence, points: Iterable[Point]) -> set[Point]:
    rows = [{"topic": topic, "partition": partition, "at_offset": offset} for topic, partition, offset in points]
    if not rows:
        return set()
    evidence.add_rows("points", _POINTS, rows)
    return {(row["topic"], row["partition"], row["at_offset"]) for row in evidence.rows(_OWN)}


def _is_taken(where: HeaderFilter, topic: str, record: TopicRecord) -> bool:
    """Returns whether the stream takes a record. An unreadable record of receivers' events belongs to every stream."""
    try:
        event = from_record(record.value, record.headers).event
    except Unparseable:
        return is_events(topic)
    return where.is_match(event.mode, event.tenant, event.zone, event.provider)


@dataclass(frozen=True, slots=True)
class Division:
    topic: str
    streams: Mapping[str, Sequence[str]]


_SPANS = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), *((name, pa.int64()) for name in ("low", "high"))]
)


def add_division(engine: SqlEngine, places: StreamLayout, division: Division) -> str | None:
    """Names ``divided_rows`` and ``divided_spans``; returns why there is nothing to compare, or None."""
    journals = {
        stream: [StreamLayout(places.root, places.lake, name) for name in names]
        for stream, names in division.streams.items()
    }
    readers = {
        stream: [JournalReader(str(place.journal)) for place in of_stream if has_table(str(place.journal))]
        for stream, of_stream in journals.items()
    }
    if not all(readers.values()):
        return f"{', '.join(sorted(stream for stream, of_it in readers.items() if not of_it))} hasn't begun"
    states = {stream: [reader.state() for reader in of_it] for stream, of_it in readers.items()}
    if len({_identify_history(state, division.topic) for of_it in states.values() for state in of_it}) > 1:
        return f"the streams know {division.topic} by different histories"
    views = [
        _add_rows(engine, f"divided_{number}", reader, division.topic)
        for number, reader in enumerate(reader for of_it in readers.values() for reader in of_it)
    ]
    engine.add_view("divided_rows", " UNION ALL ".join(views))
    engine.add_table(
        "divided_spans", pa.Table.from_pylist(_build_spans(states, division.topic), _SPANS).to_batches(), _SPANS
    )
    return None


def _identify_history(state: JournalState, topic: str) -> tuple[int, str]:
    history = state.history(topic)
    return history.number, history.topic_id


def _add_rows(engine: SqlEngine, name: str, reader: JournalReader, topic: str) -> str:
    engine.add_delta(f"{name}_rows", reader.path, reader.version)
    engine.add_view(name, build_journal_sql(f"{name}_rows"))
    number = reader.state().histories.get(topic, History()).number
    return f"""
        SELECT partition, kafka_offset, offset_until FROM {name}
        WHERE first AND topic = '{topic}' AND coalesce(history, {FIRST}) = {number}
              AND coalesce(event_type, '') <> '{ELSEWHERE_TYPE}'
    """  # noqa: S608 - words of our own


def _build_spans(states: Mapping[str, Sequence[JournalState]], topic: str) -> list[dict[str, object]]:
    marks = [_merge_marks([state.marks.get(topic, {}) for state in of_it]) for of_it in states.values()]
    starts = [_merge_marks([state.start.get(topic, {}) for state in of_it]) for of_it in states.values()]
    spans = []
    for partition in sorted(set.intersection(*(set(offsets) for offsets in marks))):
        low = max(start.get(partition, mark[partition]) for start, mark in zip(starts, marks, strict=True))
        high = min(mark[partition] for mark in marks)
        if low < high:
            spans.append({"topic": topic, "partition": partition, "low": low, "high": high})
    return spans


def _merge_marks(of_shards: Sequence[Mapping[int, int]]) -> dict[int, int]:
    return {partition: offset for offsets in of_shards for partition, offset in offsets.items()}
