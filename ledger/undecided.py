"""Events that a provider was answered 2xx for and that the journal doesn't know: what the collected receipts tell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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


def undecided(
    receipts: Location, journals: Sequence[Location], since: datetime, waiting: Collection[str]
) -> list[Answered]:
    """Receipts since a moment without a row in any shard's journal, by time. ``waiting``: keys that Kafka still holds.

    Only receipts that were collected: a lower bound.

    :raises JournalBroken: a file can't be read
    """
    if not has_table(str(receipts)):
        return []
    taken = (pc.field("status") >= 200) & (pc.field("status") < 300) & pc.field("event_key").is_valid()
    try:
        columns = ["event_key", "provider", "at", "content_sha256"]
        rows = dataset_of(open_table(str(receipts))).to_table(columns, filter=taken & (pc.field("at") >= since))
        keys = pa.array(rows["event_key"].unique(), pa.string())
        of_them = pc.field("event_key").isin(keys)
        settled = set(waiting)
        for journal in journals:
            known = dataset_of(open_table(str(journal))).to_table(["event_key"], filter=of_them)["event_key"]
            settled.update(known.to_pylist())
    except (OSError, DeltaError, pa.ArrowException) as unreadable:
        raise JournalBroken(", ".join(map(str, journals)), f"it can't be read: {unreadable}") from unreadable
    found: dict[str, Answered] = {}
    for one in rows.sort_by("at").to_pylist():
        if one["event_key"] not in settled:
            found.setdefault(one["event_key"], Answered(**one))
    return list(found.values())
