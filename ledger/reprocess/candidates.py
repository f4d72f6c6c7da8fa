"""Which events are ignored: their last decision says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.decision import OPEN_DECISIONS, Decision
from core.location import Location
from journal.schema import JournalRow, from_arrow
from ledger.queries.lake import Lake, moment, one_of, text

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


def ignored(journal: Location, wanted: Wanted) -> Ignored:
    """
    :raises LedgerUnreadable: the journal is damaged
    """
    lake = Lake(journal=str(journal))
    if "journal" not in lake:
        return Ignored(lake, ())
    # What was taken up again has later rows; whether one of them ignores it once more, that row itself tells.
    found = lake.ask(
        f"""
        SELECT one.seq FROM (SELECT seq, item_seq FROM journal WHERE {" AND ".join(_conditions(wanted))}) AS one
        WHERE NOT EXISTS (
            SELECT 1 FROM (SELECT seq, item_seq FROM journal WHERE NOT first) AS later
            WHERE later.item_seq = one.item_seq AND later.seq > one.seq)
        ORDER BY one.seq
        """
    )
    return Ignored(lake, tuple(found["seq"].to_pylist()))


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
    for at, sign in ((wanted.since, ">="), (wanted.until, "<")):
        if at is not None:
            yield f"decided_at {sign} {moment(at)}"


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
