"""Gathers what a dry run rests on: the board for what is open, the journal for what was applied, the bodies."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from core.decision import Decision
from core.location import Location
from dlq.commands import Target
from dlq.index.file import IndexFile
from dlq.index.follow import read_entries
from dlq.index.item import OPEN_STATES, Entry
from dlq.selection.known import Known, Standing, holders, wants_holder
from journal.bodies import BodyStore
from journal.index import KnownEvent
from journal.index_changes import EMPTY_SHA256
from journal.reader import dataset_of, lineage_of
from journal.schema import from_arrow

HOLDER_COLUMNS = [
    *("seq", "item_seq", "first", "topic", "partition", "offset", "event_key", "decision", "decided_at"),
    *("error_class", "handler_version", "content_sha256", "content_version"),
]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of some items. ``entries``: as the board has them, by number; what it doesn't hold is left out.

    ``bodies``: hashes of the bodies that are kept.
    """

    entries: Mapping[int, Entry]
    known: Known
    bodies: Collection[str]

    def has_body(self, entry: Entry) -> bool:
        return entry.body_sha256 is None or entry.body_sha256 in self.bodies


class FactFinder:
    """Reads one stream's board, journal and bodies.

    :param board: the folder of its board
    """

    def __init__(self, board: Path, journal: Location, bodies: Location) -> None:
        self._board = IndexFile(board)
        self._journal = str(journal)
        self._bodies = str(bodies)

    def lineage(self) -> str:
        """The journal's as it is now; empty where none was begun."""
        return lineage_of(self._journal)

    def facts(self, targets: Sequence[Target]) -> Facts:
        """Of these items, and of what is open of their entities."""
        with self._board.reading() as connection:
            entries = {entry.item_seq: entry for entry in read_entries(connection, [t.item_seq for t in targets])}
            keys = sorted({entry.entity_key for entry in entries.values() if entry.entity_key is not None})
            standing = sorted([*_standing(connection, keys), *_alone(entries.values())])
        applied = self._applied(keys, min(target.item_seq for target in targets))
        known = Known(standing, applied, self._holders(one for one in standing if one.item_seq in entries))
        return Facts(entries, known, self._held(entries.values()))

    def _applied(self, keys: Sequence[str], after: int) -> Mapping[str, int]:
        """By entity: its latest applied event behind ``after``."""
        if not keys or not DeltaTable.is_deltatable(self._journal):
            return {}
        wanted = (
            (pc.field("item_seq") > after)
            & (pc.field("decision") == Decision.APPLIED.value)
            & pc.field("entity_key").isin(pa.array(keys, pa.string()))
        )
        dataset = dataset_of(DeltaTable(self._journal))
        found = dataset.to_table(columns=["entity_key", "item_seq"], filter=wanted)
        latest = found.group_by("entity_key").aggregate([("item_seq", "max")])
        return dict(zip(latest["entity_key"].to_pylist(), latest["item_seq_max"].to_pylist(), strict=True))

    def _holders(self, standing: Iterable[Standing]) -> Mapping[str, KnownEvent]:
        """Who holds the keys of other content: that may be long closed, so the journal is asked."""
        keys = sorted({one.event_key for one in standing if one.event_key is not None and wants_holder(one)})
        if not keys or not DeltaTable.is_deltatable(self._journal):
            return {}
        dataset = dataset_of(DeltaTable(self._journal))
        wanted = pc.field("event_key").isin(pa.array(keys, pa.string()))
        return holders(from_arrow(dataset.to_table(columns=HOLDER_COLUMNS, filter=wanted).sort_by("seq")))

    def _held(self, entries: Iterable[Entry]) -> set[str]:
        hashes = {entry.body_sha256 for entry in entries if entry.body_sha256 is not None}
        held = {EMPTY_SHA256}
        if hashes and DeltaTable.is_deltatable(self._bodies):
            held |= BodyStore(self._bodies, may_create=False).held(hashes)
        return held


def _standing(connection: sqlite3.Connection, keys: Sequence[str]) -> Iterator[Standing]:
    """Every open item of the entities."""
    rows = connection.execute(
        f"SELECT {', '.join(Standing._fields)}"  # noqa: S608 - names of our own
        " FROM items WHERE state IN ('open', 'waiting') AND entity_key IN (SELECT value FROM json_each(?))",
        (json.dumps(keys),),
    )
    return map(Standing._make, rows)


def _alone(entries: Iterable[Entry]) -> Iterator[Standing]:
    """Those that nobody can be waiting behind: they have no entity."""
    for entry in entries:
        if entry.entity_key is None and entry.state in OPEN_STATES:
            yield Standing(*(getattr(entry, name) for name in Standing._fields))
