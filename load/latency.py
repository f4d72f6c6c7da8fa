"""How long events took from their receipt to the journal commit that decided them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from core.clock import EPOCH
from core.location import Location
from journal.log import LOG
from journal.reader import dataset_of
from journal.storage import open_storage

COLUMNS = ["batch_seq", "decision", "event_key", "entity_key", "received_at"]
TIMED_COLUMNS = ["batch_seq", "received_at"]


@dataclass(frozen=True, slots=True)
class Decided:
    """An event's first decision. Times are UTC; ``committed_at`` is when its log entry was on disk."""

    event_key: str
    entity_key: str
    decision: str
    received_at: datetime
    committed_at: datetime

    @property
    def seconds(self) -> float:
        return (self.committed_at - self.received_at).total_seconds()


def first_decisions(journal: Location, topic: str, after_seq: int = 0) -> list[Decided]:
    """First decisions of a topic's events with seq above ``after_seq``.

    The log file's time says when a commit was there, to the microsecond on a disk. An object store has seconds: there
    it is when the commit began.
    """
    rows = _first_rows(journal, topic, after_seq, COLUMNS)
    committed = _commit_times(journal)
    return [
        Decided(row["event_key"], row["entity_key"], row["decision"], row["received_at"], committed[row["batch_seq"]])
        for row in rows.to_pylist()
        if row["received_at"] is not None and row["batch_seq"] in committed
    ]


def seconds_to_decide(journal: Location, topic: str, after_seq: int = 0) -> list[float]:
    """Returns the seconds alone of the same events: quick enough to be asked for beside the load that it measures."""
    rows = _first_rows(journal, topic, after_seq, TIMED_COLUMNS).combine_chunks()
    committed = _commit_times(journal)
    at = pa.array(committed.values(), rows.schema.field("received_at").type)
    batches = pc.index_in(rows["batch_seq"], value_set=pa.array(committed, pa.int64()))
    micros = pc.microseconds_between(rows["received_at"], pc.take(at, batches))
    return [each / 1e6 for each in micros.drop_null().to_pylist()]


def _first_rows(journal: Location, topic: str, after_seq: int, columns: list[str]) -> pa.Table:
    wanted = (pc.field("seq") > after_seq) & pc.field("first") & (pc.field("topic") == topic)
    return dataset_of(DeltaTable(str(journal))).to_table(columns=columns, filter=wanted)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that ``share`` of the values don't exceed.

    :raises IndexError: of no values there is none
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def _commit_times(journal: Location) -> dict[int, datetime]:
    """Reads commit times by batch, from the log's files: deltalake's history gives commits wrong numbers where others
    are being added."""
    times: dict[int, datetime] = {}
    storage = open_storage(journal)
    for entry in sorted(storage.files(LOG), key=lambda one: one.name):
        if not entry.name.endswith(".json"):
            continue
        lines = storage.read(f"{LOG}/{entry.name}").splitlines()
        info: dict[str, Any] = next(
            (json.loads(line)["commitInfo"] for line in lines if line.startswith(b'{"commitInfo"')), {}
        )
        if (batch_seq := info.get("payhook.batch_seq")) is not None:
            times.setdefault(int(batch_seq), max(entry.at, EPOCH + timedelta(milliseconds=info["timestamp"])))
    return times
