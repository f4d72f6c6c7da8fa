"""What one person closed within a day without a second one: read from the rows of commands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import pyarrow.compute as pc
from deltalake import DeltaTable

from core.place import Place
from dlq.hands import same_person
from dlq.limits import Closed
from journal.dataset import dataset_of
from journal.schema import JournalRow, from_arrow

DAY = timedelta(days=1)

GivenSince: TypeAlias = Callable[[datetime], Sequence[JournalRow]]
"""The rows of commands that were decided at a moment or later."""


def closed_alone(rows: Iterable[JournalRow], actor: str) -> Closed:
    """What a person's commands closed without a second person, of the commands' rows."""
    closed = Closed()
    for row in rows:
        if row.headers is None or row.actor is None or same_person(row.actor) != same_person(actor):
            continue
        held = json.loads(row.headers).get("closed_alone")
        if held is not None:
            closed += Closed(held["items"], Counter(held["amounts_minor"]))
    return closed


def given_since(journal: Place, control_topic: str, since: datetime) -> list[JournalRow]:
    """The rows of commands that a journal decided at a moment or later; none of a journal that hasn't begun."""
    path = str(journal)
    if not DeltaTable.is_deltatable(path):
        return []
    # By the topic first: statistics pass over every file and row group that holds no command.
    wanted = (pc.field("topic") == control_topic) & pc.field("first") & (pc.field("decided_at") >= since)
    return from_arrow(dataset_of(DeltaTable(path)).to_table(filter=wanted))
