"""A topic that several streams divide among them (`core.where`): their journals as one view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from core.event import ELSEWHERE_TYPE
from core.layout import StreamLayout
from journal.histories import FIRST, History
from journal.lake import has_table
from journal.reader import JournalReader
from journal.state import JournalState
from ledger.verify.engine import SqlEngine
from ledger.verify.views import build_journal_sql


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
