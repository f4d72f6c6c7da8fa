"""The outcome of reading providers' own lists of events: one append-only Delta table a mode.

A row of a span says up to when a source (a provider, or one of its endpoints) was listed, and how many events that list
had. A row of an event says that it came in by its list, as no webhook had brought it. A span is ``lost`` where nothing
lists it any more. Spans of a source follow on each other: what lies before the last one's end was looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from core.location import Location
from journal.append import Appender
from journal.lake import ensure_table, has_table, open_table
from journal.reader import read_rows
from journal.schema import TIMESTAMP

TABLE = "catch-up"
LISTED, LOST, FETCHED = "listed", "lost", "fetched"
"""The outcomes: of a span the first two, of an event the last."""

CATCH_UPS_SCHEMA = pa.schema(
    [
        pa.field("at", TIMESTAMP, nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("provider", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("since", TIMESTAMP),
        pa.field("until", TIMESTAMP),
        pa.field("listed", pa.int64()),
        pa.field("known", pa.int64()),
        pa.field("passed_over", pa.int64()),
        pa.field("fetched", pa.int64()),
        pa.field("event_key", pa.string()),
        pa.field("event_type", pa.string()),
        pa.field("occurred_at", TIMESTAMP),
        pa.field("reason", pa.string()),
    ]
)
_CONFIGURATION = {"delta.appendOnly": "true", "delta.checkpointInterval": "100"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSpan:
    """A span of a source's list. ``listed`` = ``known`` + ``passed_over`` + ``fetched``; 0 where it is lost."""

    at: datetime
    source: str
    provider: str
    outcome: str
    since: datetime
    until: datetime
    listed: int = 0
    known: int = 0
    passed_over: int = 0
    fetched: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class FetchedEvent:
    event_key: str
    event_type: str
    occurred_at: datetime | None


@dataclass(frozen=True, slots=True)
class CatchUps:
    path: Location

    def append(self, span: ListedSpan, events: Sequence[FetchedEvent] = ()) -> None:
        """Adds a span and its events in one commit.

        :raises RowsRefused, CommitFailed, OSError: as `journal.append`
        """
        ensure_table(str(self.path), CATCH_UPS_SCHEMA, TABLE, _CONFIGURATION)
        about = {"at": span.at, "source": span.source, "provider": span.provider, "outcome": FETCHED}
        rows: list[dict[str, Any]] = [asdict(span), *(about | asdict(event) for event in events)]
        Appender.open(str(self.path)).append(pa.Table.from_pylist(rows, schema=CATCH_UPS_SCHEMA))

    def spans(self, since: datetime | None = None) -> list[ListedSpan]:
        """Returns the spans that were listed or lost since a moment, by the time of the listing.

        :raises TableUnreadable: the log or a file can't be read
        """
        if not has_table(str(self.path)):
            return []
        condition = pc.field("event_key").is_null()
        if since is not None:
            condition &= pc.field("at") >= since
        columns = list(ListedSpan.__dataclass_fields__)
        rows = read_rows(open_table(str(self.path)), condition, columns).sort_by("at").to_pylist()
        return [ListedSpan(**row) for row in rows]

    def listed_until(
        self, source: str, after: datetime | None = None, start: datetime | None = None
    ) -> datetime | None:
        """Returns up to when a source was listed, or given up, without a gap; None where it never was.

        :param after: earlier listings don't count
        :param start: where they begin; None: with the first one
        """
        until = start
        for span in sorted(self.spans(after), key=lambda span: (span.at, span.since)):
            if span.source == source and (until is None or span.since <= until):
                until = span.until if until is None else max(until, span.until)
        return until
