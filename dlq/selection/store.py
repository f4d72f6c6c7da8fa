"""Selections as they are kept: targets that never change, with a digest that shows it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from core.clock import from_rfc3339, to_rfc3339
from dlq.commands import Target
from dlq.selection.errors import SelectionBroken, SelectionsFull, SelectionUnknown
from dlq.selection.model import ItemShown, RunItemState, Selection
from dlq.settings import SelectionSettings

_SEQS = struct.Struct(">QQ")


class Digest:
    """SHA-256 over a selection's name and its targets, fed one by one in their order."""

    def __init__(self, stream: str, lineage: str, frozen_at: datetime, actor: str) -> None:
        self._hash = hashlib.sha256(f"{stream}\x1f{lineage}\x1f{to_rfc3339(frozen_at)}\x1f{actor}\x1f".encode())

    def feed(self, targets: Iterable[Target]) -> None:
        for target in targets:
            self._hash.update(_SEQS.pack(target.item_seq, target.seen_seq) + bytes.fromhex(target.seen_hash))

    def hex(self) -> str:
        return self._hash.hexdigest()


def insert(
    db: sqlite3.Connection, frozen_at: datetime, actor: str, note: str, filter_json: str, upto: int, lineage: str
) -> int:
    """The number of a new selection that has no items yet."""
    at = to_rfc3339(frozen_at)
    made = db.execute(
        "INSERT INTO selections"
        " (digest, frozen_at, actor, note, filter, count, journal_seq, lineage, amounts, unknown_amounts)"
        " VALUES ('', ?, ?, ?, ?, 0, ?, ?, '{}', 0)",
        (at, actor, note, filter_json, upto, lineage),
    )
    assert made.lastrowid is not None
    return made.lastrowid


def add(db: sqlite3.Connection, number: int, place: int, targets: Sequence[Target]) -> None:
    """Items from ``place`` on; a run takes them in this order, each by itself, unless it is told another one."""
    rows = (
        (number, at, at, at, target.item_seq, target.seen_seq, target.seen_hash)
        for at, target in enumerate(targets, place)
    )
    db.executemany(
        "INSERT INTO items (number, place, turn, line, item_seq, seen_seq, seen_hash) VALUES (?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def seal(
    db: sqlite3.Connection, number: int, digest: str, count: int, amounts: Mapping[str, int], unknown: int
) -> None:
    """Its items are complete."""
    db.execute(
        "UPDATE selections SET digest = ?, count = ?, amounts = ?, unknown_amounts = ? WHERE number = ?",
        (digest, count, json.dumps(dict(amounts), sort_keys=True), unknown, number),
    )


def read(db: sqlite3.Connection, number: int) -> Selection:
    """
    :raises SelectionUnknown: it isn't there
    """
    row = db.execute("SELECT * FROM selections WHERE number = ?", (number,)).fetchone()
    if row is None:
        raise SelectionUnknown(number)
    return _selection(row)


def newest(db: sqlite3.Connection, before: int, limit: int) -> list[Selection]:
    """Those with smaller numbers than ``before``, the newest first."""
    rows = db.execute("SELECT * FROM selections WHERE number < ? ORDER BY number DESC LIMIT ?", (before, limit))
    return [_selection(row) for row in rows]


def targets(db: sqlite3.Connection, number: int, first_place: int, count: int) -> list[Target]:
    """``count`` items at most, from ``first_place`` on."""
    rows = db.execute(
        "SELECT item_seq, seen_seq, seen_hash FROM items WHERE number = ? AND place >= ? ORDER BY place LIMIT ?",
        (number, first_place, count),
    )
    return [Target(*row) for row in rows]


def check(db: sqlite3.Connection, stream: str, selection: Selection) -> None:
    """
    :raises SelectionBroken: its targets aren't those that were frozen
    """
    digest = Digest(stream, selection.lineage, selection.frozen_at, selection.actor)
    rows = db.execute(
        "SELECT item_seq, seen_seq, seen_hash FROM items WHERE number = ? ORDER BY place", (selection.number,)
    )
    digest.feed(Target(*row) for row in rows)
    if digest.hex() != selection.digest:
        raise SelectionBroken(selection.number)


def shown(
    db: sqlite3.Connection, number: int, states: Iterable[RunItemState] | None, after_place: int, limit: int
) -> list[ItemShown]:
    """Items behind ``after_place``, in their order; of some states alone."""
    wanted = None if states is None else json.dumps([state.value for state in states])
    rows = db.execute(
        "SELECT item_seq, seen_seq, seen_hash, place, state, row_seq, reason FROM items WHERE number = ? AND place > ?"
        " AND (? IS NULL OR state IN (SELECT value FROM json_each(?))) ORDER BY place LIMIT ?",
        (number, after_place, wanted, wanted, limit),
    )
    return [
        ItemShown(row["place"], Target(*row[:3]), RunItemState(row["state"]), row["row_seq"], row["reason"])
        for row in rows
    ]


def make_room(db: sqlite3.Connection, settings: SelectionSettings, coming: int) -> list[int]:
    """Drops the oldest that nothing runs of, until another of ``coming`` items fits; says which.

    :raises SelectionsFull: every one that is kept is still under way
    """
    over = db.execute(
        "SELECT number, count FROM selections"
        " WHERE number NOT IN (SELECT number FROM runs WHERE finished_at IS NULL) ORDER BY number"
    ).fetchall()
    kept, items = db.execute("SELECT count(*), coalesce(sum(count), 0) FROM selections").fetchone()
    dropped: list[int] = []
    while kept and (kept + 1 > settings.kept_max or items + coming > settings.kept_items_max):
        if len(dropped) == len(over):
            raise SelectionsFull(kept)
        number, count = over[len(dropped)]
        db.execute("DELETE FROM selections WHERE number = ?", (number,))
        dropped.append(number)
        kept, items = kept - 1, items - count
    return dropped


def _selection(row: sqlite3.Row) -> Selection:
    told = dict(zip(row.keys(), row, strict=True))
    told["frozen_at"] = from_rfc3339(told["frozen_at"])
    told["amounts"] = json.loads(told["amounts"])
    return Selection(**told)
