"""Invariants of streams that take a part of their topic (`core.where`): nobody's events, and others' events."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa

from core.errors import Unparseable
from core.event import ELSEWHERE_TYPE, from_record
from core.routing import is_events
from core.where import HeaderFilter
from journal.kafka_log import Point
from journal.schema import TopicRecord
from ledger.verify.evidence import Evidence
from ledger.verify.report import Finding, Invariant, PromiseInvariant

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
