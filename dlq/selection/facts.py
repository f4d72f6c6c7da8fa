"""Gathers what a dry run rests on: the board for what is open, the journal for what was applied, the bodies."""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from core.decision import Decision
from dlq.board.file import BoardFile
from dlq.board.follow import read_entries
from dlq.board.item import Entry
from dlq.commands import Target
from dlq.selection.forecast import Facts
from journal.bodies import BodyStore
from journal.dataset import dataset_of
from journal.index_changes import EMPTY_SHA256
from journal.place import Place


@dataclass(slots=True)
class _Entity:
    """Open items of one entity that keep their place in its order, by number."""

    dead: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)


class FactFinder:
    """Reads one stream's board, journal and bodies.

    :param board: the folder of its board
    """

    def __init__(self, board: Path, journal: Place, bodies: Place) -> None:
        self._board = BoardFile(board)
        self._journal = str(journal)
        self._bodies = str(bodies)

    def facts(self, targets: Sequence[Target], selected: Collection[int]) -> list[Facts]:
        """Of each, in their order. ``selected``: every item of the selection."""
        with self._board.reading() as connection:
            entries = {entry.item_seq: entry for entry in read_entries(connection, [t.item_seq for t in targets])}
            keys = sorted({entry.entity_key for entry in entries.values() if entry.entity_key is not None})
            entities = _entities(connection, keys)
        applied = self._applied(keys, min(target.item_seq for target in targets))
        held = self._held(entries.values())
        return [_facts(target, entries.get(target.item_seq), entities, applied, held, selected) for target in targets]

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

    def _held(self, entries: Iterable[Entry]) -> set[str]:
        hashes = {entry.body_sha256 for entry in entries if entry.body_sha256 is not None}
        held = {EMPTY_SHA256}
        if hashes and DeltaTable.is_deltatable(self._bodies):
            held |= BodyStore(self._bodies, may_create=False).held(hashes)
        return held


def _facts(
    target: Target,
    entry: Entry | None,
    entities: Mapping[str, _Entity],
    applied: Mapping[str, int],
    held: Collection[str],
    selected: Collection[int],
) -> Facts:
    if entry is None:
        return Facts(target, None, None, None, 0, has_body=False)
    key, number = entry.entity_key or "", entry.item_seq
    entity = entities.get(key, _Entity())
    before = entity.dead[: bisect_left(entity.dead, number)]
    latest = applied.get(key, 0)
    return Facts(
        target=target,
        entry=entry,
        applied_after=latest if latest > number else None,
        dead_before=next((seq for seq in before if seq not in selected), None),
        followers=len(entity.waiting) - bisect_right(entity.waiting, number) if entry.blocking else 0,
        has_body=entry.body_sha256 is None or entry.body_sha256 in held,
    )


def _entities(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, _Entity]:
    entities: dict[str, _Entity] = {}
    for key, number, state in _open(connection, keys):
        entity = entities.setdefault(key, _Entity())
        (entity.dead if state == "open" else entity.waiting).append(number)
    return entities


def _open(connection: sqlite3.Connection, keys: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    yield from connection.execute(
        "SELECT entity_key, item_seq, state FROM items WHERE blocking = 1 AND state IN ('open', 'waiting')"
        " AND entity_key IN (SELECT value FROM json_each(?)) ORDER BY entity_key, item_seq",
        (json.dumps(keys),),
    )
