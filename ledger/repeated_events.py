"""Events without money that a provider reported under two ids: of one type and one object, with the same content.

No fact says that they are one, and no two events of a provider are made at different moments for one change. So what
is compared is the body without the event's own id and time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from core.clock import from_rfc3339
from core.decision import WITHOUT_EFFECT
from journal.bodies import BodyStore
from journal.lake import has_table, open_table
from journal.reader import read_rows
from journal.schema import JournalRow, from_arrow

APART_MAX = timedelta(hours=1)
"""Between two reports of one event. The same content a day later is the same state, reported again."""

BODIES_PER_READ = 1_000
_ALIKE = ["provider", "event_type", "entity_key"]
_TIME_SLACK_S = 1.0


def find_repeated_events(
    journal: str, bodies: str, condition: pc.Expression | None, columns: list[str]
) -> list[tuple[JournalRow, JournalRow]]:
    """Finds pairs of rows: the first report, and one under another id. Events whose bodies aren't kept are left out.

    :param condition: which rows are looked at besides
    """
    if not (has_table(journal) and has_table(bodies)):
        return []
    moves_nothing = pc.field("first") & pc.field("fact_key").is_null() & pc.field("event_key").is_valid()
    moves_nothing &= pc.field("decision").isin(pa.array(sorted(WITHOUT_EFFECT), pa.string()))
    moves_nothing &= pc.field("body_sha256").is_valid() & pc.field("entity_key").is_valid()
    table = read_rows(open_table(journal), moves_nothing if condition is None else moves_nothing & condition, columns)
    counts = table.group_by(_ALIKE).aggregate([("seq", "count")])
    several = counts.filter(pc.greater(counts["seq_count"], 1)).select(_ALIKE)
    rows = from_arrow(table.join(several, _ALIKE, join_type="left semi").select(columns))
    rows.sort(key=lambda row: (*_build_group_key(row), row.seq))
    groups = (list(of_object) for _, of_object in groupby(rows, _build_group_key))
    return sorted(_find_pairs(groups, BodyStore(bodies)), key=lambda pair: pair[1].seq)


def _build_group_key(row: JournalRow) -> tuple[str, str, str]:
    return row.provider or "", row.event_type or "", row.entity_key or ""


def _find_pairs(groups: Iterable[list[JournalRow]], bodies: BodyStore) -> Iterator[tuple[JournalRow, JournalRow]]:
    waiting: list[list[JournalRow]] = []
    for group in groups:
        waiting.append(group)
        if sum(map(len, waiting)) >= BODIES_PER_READ:
            yield from _find_pairs_in(waiting, bodies)
            waiting = []
    yield from _find_pairs_in(waiting, bodies)


def _find_pairs_in(groups: list[list[JournalRow]], bodies: BodyStore) -> Iterator[tuple[JournalRow, JournalRow]]:
    kept = bodies.fetch({row.body_sha256 or "" for group in groups for row in group})
    for group in groups:
        firsts: dict[str, JournalRow] = {}
        for row in group:
            content = hash_content(row, kept)
            if content is None:
                continue
            first = firsts.setdefault(content, row)
            if first is not row and _measure_gap(first, row) <= APART_MAX:
                yield first, row
            else:
                firsts[content] = row


def _measure_gap(first: JournalRow, again: JournalRow) -> timedelta:
    times = [row.occurred_at or row.received_at for row in (first, again)]
    return abs(times[1] - times[0]) if times[0] and times[1] else timedelta(0)


def hash_content(row: JournalRow, kept: Mapping[str, bytes]) -> str | None:
    """Hashes a JSON body without the event's id and time; None of a body that isn't kept or isn't JSON."""
    try:
        document = orjson.loads(kept[row.body_sha256 or ""])
    except (KeyError, ValueError):
        return None
    if not isinstance(document, dict):
        return None
    event_id = _find_event_id(row.event_key or "", document)
    if event_id is None:
        return None
    content_fields = {
        name: value for name, value in document.items() if value != event_id and not _is_time(value, row.occurred_at)
    }
    return hashlib.sha256(json.dumps(content_fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _find_event_id(event_key: str, document: Mapping[str, Any]) -> str | None:
    parts = event_key.split(":")
    return next((value for value in document.values() if isinstance(value, str) and value in parts), None)


def _is_time(value: object, occurred_at: datetime | None) -> bool:
    if occurred_at is None or isinstance(value, bool):
        return False
    at_s = occurred_at.timestamp()
    if isinstance(value, (int, float)):
        return any(abs(value / scale - at_s) <= _TIME_SLACK_S for scale in (1, 1_000))
    try:
        return isinstance(value, str) and abs(from_rfc3339(value).timestamp() - at_s) <= _TIME_SLACK_S
    except ValueError:
        return False
