"""Finds what a subscriber wasn't sent: events of the stream's journal that are ignored, though it wants them as it is
now."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from core.decision import Decision
from core.event import REVERSED_TYPE
from core.location import Location
from core.routing import JOURNAL_TOPIC
from journal.lake import has_table, open_table
from journal.reader import read_rows
from notify.subscribers import Subscriber

_COLUMNS = ["item_seq", "event_type", "tenant"]


def missed_items(journal: Location, subscriber: Subscriber, since: datetime) -> list[int]:
    """Finds items that were ignored for a subscriber since then, in order: while it was disabled, off or wanted less.

    What became of one later the journal's own check says, when it is sent (`operations.selection.selections`). Of a
    reversal it isn't known here what it takes back: the handler decides.
    """
    if not has_table(str(journal)):
        return []
    topic = pc.field("topic")
    wanted = (
        (pc.field("decision") == Decision.IGNORED.value)
        & (pc.field("decided_at") >= pa.scalar(since, pa.timestamp("us", "UTC")))
        & pc.starts_with(topic, JOURNAL_TOPIC)
        & pc.ends_with(topic, f"/{subscriber.name}")
    )
    rows = read_rows(open_table(str(journal)), wanted, _COLUMNS).sort_by("item_seq").to_pylist()
    wants = {REVERSED_TYPE: True}
    for event_type in {row["event_type"] for row in rows} - wants.keys():
        wants[event_type] = subscriber.wants_type(event_type)
    return list(
        dict.fromkeys(row["item_seq"] for row in rows if wants[row["event_type"]] and subscriber.may_see(row["tenant"]))
    )
