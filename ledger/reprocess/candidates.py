"""Which events are ignored: their last decision says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from core.decision import OPEN_DECISIONS, Decision
from core.location import Location
from core.routing import WHOLE, Shard
from journal.schema import JournalRow, from_arrow
from ledger.queries.lake import Lake, decided, one_of, text

ROWS_AT_ONCE = 2_000
"""About 4 MB of rows, and as much of bodies."""

OWN_PROVIDER = "payhook"
"""Commands are ignored too, where they were refused."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which ignored events; what isn't said may be anything. ``since`` and ``until``: when they were ignored."""

    provider: str | None = None
    event_types: tuple[str, ...] = ()
    event_keys: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """``count`` events, and the seqs of the rows that ignored them, lowest first."""

    lake: Lake
    seqs: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.seqs)

    def rows(self) -> Iterator[list[JournalRow]]:
        """Whole rows in seq order, some at a time."""
        for at in range(0, len(self.seqs), ROWS_AT_ONCE):
            found = self.lake.ask(f"SELECT * FROM journal WHERE {one_of('seq', self.seqs[at : at + ROWS_AT_ONCE])}")
            yield sorted(from_arrow(found), key=lambda row: row.seq)


def ignored(journal: Location, wanted: Wanted, shard: Shard = WHOLE) -> Ignored:
    """The ignored events of a shard, in its journal.

    :raises LedgerUnreadable: the journal is damaged
    """
    lake = Lake(journal=str(journal))
    if "journal" not in lake:
        return Ignored(lake, ())
    whose = "" if shard == WHOLE else ', one.entity_key, one."partition"'
    # What was taken up again has later rows; whether one of them ignores it once more, that row itself tells.
    found = lake.ask(
        f"""
        SELECT one.seq{whose} FROM (
            SELECT seq, item_seq, entity_key, "partition" FROM journal WHERE {" AND ".join(_conditions(wanted))}
        ) AS one
        WHERE NOT EXISTS (
            SELECT 1 FROM (SELECT seq, item_seq FROM journal WHERE NOT first) AS later
            WHERE later.item_seq = one.item_seq AND later.seq > one.seq)
        ORDER BY one.seq
        """
    )
    if shard != WHOLE:
        found = found.filter(pa.array([_is_of(shard, one) for one in found.to_pylist()], pa.bool_()))
    return Ignored(lake, tuple(found["seq"].to_pylist()))


def _is_of(shard: Shard, one: Mapping[str, Any]) -> bool:
    """As `journal.shards.decides`."""
    entity_key = one["entity_key"]
    return shard.reads(one["partition"]) if entity_key is None else shard.decides(entity_key)


def what_else(journal: Location, event_keys: Sequence[str]) -> dict[str, str]:
    """Of event keys that aren't among the ignored ones: what they are."""
    lake = Lake(journal=str(journal))
    rows = (
        from_arrow(lake.ask(f"SELECT * FROM journal WHERE {one_of('event_key', event_keys)}"))
        if "journal" in lake
        else []
    )
    return {key: _reported([row for row in rows if row.event_key == key]) for key in event_keys}


def _conditions(wanted: Wanted) -> Iterator[str]:
    yield f"decision = {text(Decision.IGNORED.value)}"
    yield f"event_key IS NOT NULL AND provider <> {text(OWN_PROVIDER)}"
    if wanted.provider is not None:
        yield f"provider = {text(wanted.provider)}"
    if wanted.event_types:
        yield one_of("event_type", wanted.event_types)
    if wanted.event_keys:
        yield one_of("event_key", wanted.event_keys)
    yield from decided(wanted.since, wanted.until)


def _reported(rows: Sequence[JournalRow]) -> str:
    """Of the rows of one event key: copies that came later say nothing of it."""
    held = [row for row in rows if row.decision is not Decision.DUPLICATE]
    if not held:
        return "unknown here; what isn't decided yet isn't in the journal"
    last = max(held, key=lambda row: row.seq)
    whom = f" by {last.handler_version}" if last.handler_version else ""
    if last.decision in OPEN_DECISIONS:
        return f"open: row {last.seq} is {last.decision.value}; see what comes of it first"
    if last.decision is Decision.IGNORED:
        return f"ignored in row {last.seq}{whom}, and the other options leave it out"
    before = any(row.decision is Decision.IGNORED and row.item_seq == last.item_seq for row in held)
    again = ", after it had been ignored: it was reprocessed before, and that has no second effect" if before else ""
    return f"{last.decision.value} in row {last.seq}{whom}{again}"
