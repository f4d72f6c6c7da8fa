"""Looks up in the key index everything that it must hold by the journal: on the executors, beside its writer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from journal.entity_queue import open_beside_its_writer
from journal.index import Index
from journal.index_layout import content8

HERE_ROWS_MAX = 50_000
"""5 MB of keys: fewer than this aren't worth the start of Python workers."""

_RESULT = "kind string, looked_up bigint, problem string, key string"
_RESULT_SCHEMA = pa.schema(
    [("kind", pa.string()), ("looked_up", pa.int64()), ("problem", pa.string()), ("key", pa.string())]
)


@dataclass(frozen=True, slots=True)
class LookedUp:
    """``counts`` of what the journal holds, by kind (event, fact, open, dead), and a sample of what the index lacks.

    ``open_elsewhere``, ``dead_elsewhere``: items that another shard goes on with.
    """

    counts: dict[str, int]
    offenders: list[dict[str, Any]]


def look_up(session: SparkSession, root: Path, sample_max: int, rows: int) -> LookedUp:
    """Every event key, fact and open item of the view ``indexed``, looked up in the index: one job.

    ``rows`` of the journal are looked at; a few are looked up here, many on the executors.
    """
    wanted = session.sql(
        """
        SELECT 'event' AS kind, event_key AS key, content_sha256 AS value, CAST(content_version AS bigint) AS number
        FROM indexed WHERE event_key IS NOT NULL AND holds
        UNION ALL
        SELECT 'fact', fact_key, fact_sha256, NULL
        FROM indexed WHERE fact_key IS NOT NULL AND decision = 'applied'
        UNION ALL
        SELECT IF(decision = 'dead', 'dead', 'open'), CAST(item_seq AS string), decision, last_seq FROM (
            SELECT item_seq, max(seq) AS last_seq, max_by(decision, seq) AS decision, max_by(waits, seq) AS waits
            FROM indexed WHERE mine AND (NOT first OR waits) AND decision <> 'reversed'
            GROUP BY item_seq)
        WHERE waits
        UNION ALL
        SELECT 'reversed', CAST(item_seq AS string), NULL, NULL FROM indexed WHERE decision = 'reversed' AND NOT first
        UNION ALL
        SELECT 'reopened', CAST(one.item_seq AS string), NULL, max(one.seq)
        FROM indexed AS one JOIN indexed AS command ON command.seq = one.cause_seq
        WHERE one.decision = 'replayed' AND NOT one.first AND command.event_type = 'reprocess' AND command.first
        GROUP BY one.item_seq
        """
    )
    look_up_part = partial(_look_up, str(root), sample_max)
    if rows <= HERE_ROWS_MAX:
        answers = [answer for part in look_up_part(iter(wanted.toArrow().to_batches())) for answer in part.to_pylist()]
    else:
        answers = wanted.mapInArrow(look_up_part, _RESULT).toArrow().to_pylist()
    counts = {"event": 0, "fact": 0, "open": 0, "dead": 0, "reversed": 0, "reopened": 0}
    for answer in answers:
        counts[answer["kind"]] += answer["looked_up"]
    counts["open"] += counts["dead"]
    [facts] = session.sql(
        "SELECT count(DISTINCT fact_key) FROM indexed WHERE fact_key IS NOT NULL AND decision = 'applied'"
    ).collect()
    counts["fact"] = int(facts[0])
    [elsewhere] = session.sql(
        """
        SELECT count(*), count_if(decision = 'dead') FROM (
            SELECT max_by(decision, seq) AS decision, max_by(waits, seq) AS waits
            FROM indexed WHERE NOT mine AND (NOT first OR waits) AND decision <> 'reversed'
            GROUP BY item_seq)
        WHERE waits
        """
    ).collect()
    counts |= {"open_elsewhere": int(elsewhere[0]), "dead_elsewhere": int(elsewhere[1])}
    offenders = [
        {"problem": answer["problem"], answer["kind"]: answer["key"]} for answer in answers if answer["problem"]
    ]
    return LookedUp(counts, offenders[:sample_max])


def _look_up(root: str, sample_max: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    index = open_beside_its_writer(Path(root))
    counts: dict[str, int] = {}
    offenders: list[dict[str, Any]] = []
    try:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("kind", "key", "value", "number"))
            for kind, key, value, number in zip(*columns, strict=True):
                counts[kind] = counts.get(kind, 0) + 1
                problem = _problem(index, kind, key, value, number)
                if problem is not None and len(offenders) < sample_max:
                    offenders.append({"kind": kind, "looked_up": 0, "problem": problem, "key": key})
    finally:
        index.close()
    counted = [{"kind": kind, "looked_up": count, "problem": None, "key": None} for kind, count in counts.items()]
    yield pa.RecordBatch.from_pylist(counted + offenders, schema=_RESULT_SCHEMA)


def _problem(index: Index, kind: str, key: str, value: str | None, number: int | None) -> str | None:
    """What is wrong with the index's answer for one key; None when it is right."""
    if kind == "event":
        return event_problem(index, key, value or "", number or 0)
    if kind == "fact":
        fact = index.known_fact(key)
        if fact is None:
            return "the index doesn't know an applied fact"
        return None if fact == bytes.fromhex(value or "")[:8] else "the index holds a fact with other content"
    if kind == "reversed":
        return None if index.is_reversed(int(key)) else "the index doesn't know that a booking was reversed"
    if kind == "reopened":
        known = (index.reopened_at(int(key)) or 0) >= (number or 0)
        return None if known else "the index doesn't know that an ignored event was taken up again"
    item = index.open_item(int(key))
    if item is None:
        return "the index doesn't hold an open item"
    # The index may have moved on since its mark was read: only an older state is wrong.
    return None if item.last_seq >= (number or 0) else "the index holds an older state of an open item"


def event_problem(index: Index, key: str, content_sha256: str, version: int) -> str | None:
    """What is wrong with the index's answer for an event key."""
    event = index.known_event(key)
    if event is None:
        return "the index doesn't know an event key"
    same = event.content8 == content8(content_sha256) and event.content_version == version
    # Purged, its key may be another content's by now; the index keeps the first one's as that of a conflict.
    same = same or index.known_conflict(key, content_sha256)
    return None if same else "the index holds an event key with other content"
