"""Events that a provider was answered 2xx for and that the journal doesn't know: what the collected receipts tell."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from core.location import Location
from journal.errors import JournalBroken
from journal.lake import has_table, open_table
from journal.reader import dataset_of


@dataclass(frozen=True, slots=True)
class Answered:
    """One event's first receipt. ``at`` is UTC."""

    event_key: str
    provider: str | None
    at: datetime | None
    content_sha256: str | None


def answered_since(receipts: Location, since: datetime) -> list[Answered]:
    """The first receipt of each event that was answered 2xx since a moment, by time. Only receipts that were collected.

    :raises JournalBroken: a file can't be read
    """
    if not has_table(str(receipts)):
        return []
    taken = (pc.field("status") >= 200) & (pc.field("status") < 300) & pc.field("event_key").is_valid()
    columns = ["event_key", "provider", "at", "content_sha256"]
    with _readable(receipts):
        rows = dataset_of(open_table(str(receipts))).to_table(columns, filter=taken & (pc.field("at") >= since))
    found: dict[str, Answered] = {}
    for one in rows.sort_by("at").to_pylist():
        found.setdefault(one["event_key"], Answered(**one))
    return list(found.values())


def undecided(answered: Sequence[Answered], journals: Sequence[Location], waiting: Collection[str]) -> list[Answered]:
    """Those without a row in any shard's journal: a lower bound of what is lost. ``waiting``: keys that Kafka still
    holds.

    :raises JournalBroken: a file can't be read
    """
    keys = pa.array([one.event_key for one in answered], pa.string())
    settled = set(waiting)
    for journal in journals if answered else ():
        with _readable(journal):
            rows = dataset_of(open_table(str(journal)))
            known = rows.to_table(["event_key"], filter=pc.field("event_key").isin(keys))["event_key"]
        settled.update(known.to_pylist())
    return [one for one in answered if one.event_key not in settled]


@contextlib.contextmanager
def _readable(table: Location) -> Iterator[None]:
    try:
        yield
    except (OSError, DeltaError, pa.ArrowException) as unreadable:
        raise JournalBroken(str(table), f"it can't be read: {unreadable}") from unreadable
