"""The invariant between Kafka's records and the rows that were decided from them."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from core.clock import from_rfc3339
from core.routing import is_sparse, source_of
from journal.histories import FIRST
from journal.kafka_log import Point
from journal.schema import TIMESTAMP, JournalRow, TopicRecord, same_record
from ledger.verify.evidence import Evidence, OffsetSpan
from ledger.verify.report import Finding, Invariant

BY_CHANCE = 1_000
"""Offsets that are compared besides the ends: a log of which one in a hundred records differs is found out all but
once in 20,000 times."""

_COLUMNS = (
    "seq, item_seq, first, journal.topic AS topic, journal.partition AS partition, kafka_offset, decision, decided_at, "
    "journal.event_key AS event_key, body_sha256, original_sha256, journal.received_at AS received_at"
)
_POINTS = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("at_offset", pa.int64()), ("history", pa.int32())]
)
_PARTS = pa.schema(
    [("topic", pa.string()), ("history", pa.int32()), ("from_offset", pa.int64()), ("to_offset", pa.int64())]
)

_OTHER_ROWS = f"""
    WITH theirs AS (
        SELECT parts.topic AS topic, source_rows.seq AS at_offset, source_rows.decided_at AS decided_at
        FROM source_rows JOIN parts ON source_rows.seq >= from_offset AND source_rows.seq < to_offset
        WHERE source_rows.books AND NOT (source_rows.first AND source_rows.decision = 'reversed')),
    passed AS (SELECT topic, kafka_offset, offset_until FROM journal WHERE offset_until IS NOT NULL),
    wanted AS (
        SELECT theirs.* FROM theirs ANTI JOIN passed
        ON passed.topic = theirs.topic AND at_offset >= kafka_offset AND at_offset < offset_until),
    decided AS (
        SELECT parts.topic AS topic, kafka_offset AS at_offset, seq AS row_seq, received_at
        FROM journal JOIN parts
        ON journal.topic = parts.topic AND coalesce(journal.history, {FIRST}) = parts.history
           AND kafka_offset >= from_offset AND kafka_offset < to_offset
        WHERE first AND offset_until IS NULL)
    SELECT CASE WHEN row_seq IS NULL THEN 'a row of the source was passed over'
                WHEN decided_at IS NULL THEN 'the source has no such row'
                ELSE 'the source has another row than was decided' END AS problem,
           coalesce(wanted.topic, decided.topic) AS topic,
           coalesce(wanted.at_offset, decided.at_offset) AS offset, row_seq AS row
    FROM wanted FULL OUTER JOIN decided ON decided.topic = wanted.topic AND decided.at_offset = wanted.at_offset
    WHERE row_seq IS NULL OR decided_at IS NULL OR received_at <> decided_at
"""  # noqa: S608 - a number


@dataclass(frozen=True, slots=True)
class HeldOffsets:
    """Offsets of one partition that Kafka holds and that one history decided: from ``low`` to before ``high``."""

    topic: str
    history: int
    partition: int
    low: int
    high: int


@dataclass
class RecordsAreThoseDecided(Invariant):
    """Compares records with the rows decided from them: at partitions' ends, at borders between histories, and by
    chance.

    With ``every`` it compares all. The seed is the journal's version, so a second verification compares the same
    records. What is read of another stream's journal is compared whole.
    """

    every: bool = False
    name = "records_are_those_decided"
    sentence = "The records that Kafka still holds at decided offsets are those that the journal decided."

    def check(self, evidence: Evidence) -> Finding:
        every = list(_find_held_offsets(evidence))
        stretches = [stretch for stretch in every if not is_sparse(stretch.topic)]
        held = sum(stretch.high - stretch.low for stretch in stretches)
        decided = sum(
            span.until - span.start
            for span in evidence.spans()
            if not is_sparse(span.topic) and evidence.is_mine(span.topic, span.partition)
        )
        figures: dict[str, Any] = {"held": held, "no_longer_held": decided - held}
        offenders = [*_find_other_topics(evidence), *_find_other_rows(evidence, every)]
        if self.every:
            offenders += _search_all(evidence, stretches)
            figures["compared"] = held
        else:
            rows = _read_rows(evidence, _choose_points(stretches, evidence.state.version))
            offenders += islice(_find_differing(evidence, rows), evidence.sample_max)
            figures |= {"compared": len(rows), "seed": evidence.state.version}
        unknown = evidence.explain_part("records of earlier rows")
        return self.build_finding(evidence, offenders, figures, unknown)


def _find_held_offsets(evidence: Evidence) -> Iterator[HeldOffsets]:
    """Finds the offsets that are still held, by the newest history that begins at or before them.

    Each history begins where Kafka's records part from those that were decided. Only the shard that reads a partition
    knows its histories.
    """
    spans: dict[tuple[str, int], list[OffsetSpan]] = {}
    for span in evidence.spans():
        spans.setdefault((span.topic, span.partition), []).append(span)
    for (topic, partition), lives in spans.items():
        low, high = evidence.ends.get(topic, {}).get(partition, (0, 0))
        for span in sorted(lives, key=lambda span: span.history, reverse=True):
            first, until = max(low, span.start), min(high, span.until)
            if first < until:
                yield HeldOffsets(topic, span.history, partition, first, until)
            high = min(high, span.start)


def _find_other_topics(evidence: Evidence) -> Iterator[dict[str, Any]]:
    known = {
        topic: topic_id
        for topic in {span.topic for span in evidence.spans()}
        if not is_sparse(topic) and (topic_id := evidence.state.history(topic).topic_id)
    }
    topic_ids = evidence.kafka.topic_ids(sorted(known))
    for topic, topic_id in sorted(known.items()):
        if topic_ids.get(topic) != topic_id:
            problem = "the topic isn't the one that was read: see payhook recover"
            yield {"problem": problem, "topic": topic, "read": topic_id, "there": topic_ids.get(topic)}


def _find_other_rows(evidence: Evidence, stretches: Sequence[HeldOffsets]) -> Iterator[dict[str, Any]]:
    for source, view in evidence.sources.items():
        parts = [
            {"topic": stretch.topic, "history": stretch.history, "from_offset": stretch.low, "to_offset": stretch.high}
            for stretch in stretches
            if _is_of(source, stretch)
        ]
        if parts:
            evidence.add_rows("parts", _PARTS, parts)
            evidence.engine.add_view("source_rows", f"SELECT * FROM {view}")  # noqa: S608 - a name of our own
            yield from evidence.ask_sample(_OTHER_ROWS)


def _is_of(source: str, stretch: HeldOffsets) -> bool:
    return is_sparse(stretch.topic) and source_of(stretch.topic) == source


def _choose_points(stretches: Sequence[HeldOffsets], seed: int) -> dict[Point, int]:
    points = {
        (stretch.topic, stretch.partition, offset): stretch.history
        for stretch in stretches
        for offset in (stretch.low, stretch.high - 1)
    }
    held = sum(stretch.high - stretch.low for stretch in stretches)
    numbers = sorted(random.Random(seed).sample(range(held), min(BY_CHANCE, held)))  # noqa: S311 - chance, no secret
    before = 0
    at = 0
    for stretch in stretches:
        after = before + stretch.high - stretch.low
        while at < len(numbers) and numbers[at] < after:
            points[stretch.topic, stretch.partition, stretch.low + numbers[at] - before] = stretch.history
            at += 1
        before = after
    return points


def _read_rows(evidence: Evidence, points: Mapping[Point, int]) -> list[JournalRow]:
    if not points:
        return []
    evidence.add_rows(
        "points",
        _POINTS,
        [
            {"topic": topic, "partition": partition, "at_offset": offset, "history": history}
            for (topic, partition, offset), history in sorted(points.items())
        ],
    )
    rows = evidence.rows(
        f"""
        SELECT {_COLUMNS}
        FROM journal JOIN points
        ON journal.topic = points.topic AND journal.partition = points.partition
           AND journal.kafka_offset = points.at_offset AND coalesce(journal.history, {FIRST}) = points.history
        WHERE first AND offset_until IS NULL
        """  # noqa: S608 - names and a number
    )
    return _drop_repeated_offsets(_build_journal_rows(rows))


def _build_journal_rows(rows: Sequence[dict[str, Any]]) -> list[JournalRow]:
    return [
        JournalRow(**{"offset" if name == "kafka_offset" else name: value for name, value in row.items()})
        for row in rows
    ]


def _drop_repeated_offsets(rows: Sequence[JournalRow]) -> list[JournalRow]:
    by_offset: dict[Point, JournalRow] = {}
    for row in sorted(rows, key=lambda row: row.seq):
        by_offset.setdefault((row.topic, row.partition, row.offset), row)
    return list(by_offset.values())


def _find_differing(evidence: Evidence, rows: Sequence[JournalRow]) -> Iterator[dict[str, Any]]:
    records = evidence.kafka.records_at([(row.topic, row.partition, row.offset) for row in rows])
    for row in rows:
        record = records.get((row.topic, row.partition, row.offset))
        if record is None and _was_removed(evidence, row):
            continue
        if record is None or not same_record(row, record):
            what = "no record" if record is None else "another record than the row decided"
            where = {"topic": row.topic, "partition": row.partition, "offset": row.offset, "row": row.seq}
            yield {"problem": f"Kafka holds {what} at this offset; see payhook recover", **where}


def _was_removed(evidence: Evidence, row: JournalRow) -> bool:
    """Returns whether its time was over meanwhile: Kafka removes the oldest records at any moment."""
    low, _ = evidence.kafka.find_ends([row.topic]).get(row.topic, {}).get(row.partition, (0, 0))
    return row.offset < low


_RECORDS = pa.schema(
    [
        ("partition", pa.int32()),
        ("at_offset", pa.int64()),
        ("value_sha256", pa.string()),
        ("said_key", pa.string()),
        ("said_received", pa.bool_()),
        ("said_received_at", TIMESTAMP),
    ]
)
RECORDS_PER_BATCH = 10_000


def _search_all(evidence: Evidence, stretches: Sequence[HeldOffsets]) -> list[dict[str, Any]]:
    doubtful: list[JournalRow] = []
    for topic in sorted({stretch.topic for stretch in stretches}):
        evidence.engine.add_table("held_records", _read_records(evidence, topic), _RECORDS)
        in_stretches = " OR ".join(
            f"(coalesce(history, {FIRST}) = {stretch.history} AND journal.partition = {stretch.partition} "
            f"AND kafka_offset >= {stretch.low} AND kafka_offset < {stretch.high})"
            for stretch in stretches
            if stretch.topic == topic
        )
        differing = evidence.engine.ask(
            f"""
            SELECT {_COLUMNS}
            FROM journal LEFT JOIN held_records
            ON held_records.partition = journal.partition AND at_offset = kafka_offset
            WHERE first AND offset_until IS NULL AND journal.topic = '{topic}' AND ({in_stretches})
                  AND (at_offset IS NULL OR value_sha256 <> coalesce(body_sha256, original_sha256)
                       OR said_key <> journal.event_key
                       OR (said_received AND NOT coalesce(said_received_at = journal.received_at,
                                                          journal.received_at IS NULL)))
            """,  # noqa: S608 - words of our own making
            BY_CHANCE,
        )
        doubtful += _drop_repeated_offsets(_build_journal_rows(differing))
    return list(islice(_find_differing(evidence, doubtful), evidence.sample_max))


def _read_records(evidence: Evidence, topic: str) -> Iterator[pa.RecordBatch]:
    rows = (_parse_record(partition, record) for partition, record in evidence.kafka.records(topic))
    while batch := list(islice(rows, RECORDS_PER_BATCH)):
        yield pa.RecordBatch.from_pylist(batch, _RECORDS)


def _parse_record(partition: int, record: TopicRecord) -> dict[str, Any]:
    texts = {name: raw.decode("utf-8", "replace") for name, raw in record.headers if raw is not None}
    received_at = None
    with contextlib.suppress(KeyError, ValueError):
        received_at = from_rfc3339(texts["received_at"])
    return {
        "partition": partition,
        "at_offset": record.offset,
        "value_sha256": hashlib.sha256(record.value or b"").hexdigest(),
        "said_key": texts.get("event_key"),
        "said_received": "received_at" in texts,
        "said_received_at": received_at,
    }
