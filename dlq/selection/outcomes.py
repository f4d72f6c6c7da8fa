"""What became of each item of a run, derived from the journal's rows since it began."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from core.clock import to_rfc3339
from core.decision import Decision
from core.location import Location
from dlq.done_alone import given_since
from dlq.orders import command_entity
from dlq.selection import runs, store
from dlq.selection.errors import restored_since
from dlq.selection.file import SelectionFile
from dlq.selection.model import ENDED, STATE_OF, UNFINISHED, RunItemState
from journal.reader import JournalReader, dataset_of, lineage_of
from journal.schema import JournalRow

COLUMNS = ("item_seq", "first", "topic", "offset", "decision", "cause_seq", "reason", "entity_key")
ACCEPTING = frozenset({Decision.REPLAYED, Decision.PURGED, Decision.RESOLVED})
REASON_CHARS_MAX = 500
LOOKED_UP_MAX = 5_000
"""Refused items of one look whose last rows are read; it is a command's worth."""

_TOLD = re.compile(r"item (\d+) ")
_BEFORE = ("refused: ", "; ")
"""What a sentence may begin behind; within one, others may be named."""
_MORE = re.compile(r"; and \d+ more$")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One row of an item. ``ours``: a command of this run caused it."""

    state: RunItemState
    row_seq: int
    reason: str | None
    item_seq: int
    ours: bool


class Outcomes:
    """Follows one stream's journal on behalf of its runs. The journal alone decides what is written down here."""

    def __init__(self, file: SelectionFile, journal: Location, control_topic: str) -> None:
        self._file = file
        self._journal = str(journal)
        self._place = journal
        self._control_topic = control_topic

    def last_seq(self) -> int:
        """Of the journal as it is now; 0 where nobody has begun one."""
        return JournalReader(self._journal).last_seq if DeltaTable.is_deltatable(self._journal) else 0

    def lineage(self) -> str:
        """The journal's as it is now; empty where none was begun."""
        return lineage_of(self._journal)

    def given_since(self, since: datetime) -> list[JournalRow]:
        """The rows of commands that were decided since then."""
        return given_since(self._place, self._control_topic, since)

    def follow(self, number: int, now: datetime) -> None:
        """Brings a run up to the journal's end. Whatever part of it is seen, at a commit's end or within one, each row
        counts once. A run of before a restore is ended: its rows are gone, or others by now."""
        if not DeltaTable.is_deltatable(self._journal):
            return
        reader = JournalReader(self._journal)
        with self._file.reading() as db:
            upto, selection = _upto(db, number) or 0, store.read(db, number)
        if (why := restored_since(selection, reader.state().lineage)) is not None:
            with self._file.writing() as db:
                runs.give_up(db, number, why, now)
            return
        for table in reader.tables_after(upto, COLUMNS):
            rows = _of_interest(table, self._control_topic)
            with self._file.writing() as db:
                if _upto(db, number) != upto:
                    return  # Another process followed meanwhile.
                self._take(db, number, rows)
                upto = table["seq"][-1].as_py()
                db.execute("UPDATE runs SET upto = ? WHERE number = ?", (upto, number))
        with self._file.writing() as db:
            if _upto(db, number) == upto:
                self._refuse_the_others(db, number)
                _finish(db, number, now)
                runs.look(db, number, _ended(db, number), now.timestamp())

    def _take(self, db: sqlite3.Connection, number: int, rows: Sequence[Row]) -> None:
        commands = [row for row in rows if row["topic"] == self._control_topic and row["first"]]
        if commands:
            _decide(db, number, commands)
        mine = {seq for (seq,) in db.execute("SELECT decided_seq FROM commands WHERE number = ?", (number,))}
        _change(db, number, (_change_of(row, mine) for row in rows if not row["first"]))

    def _refuse_the_others(self, db: sqlite3.Connection, number: int) -> None:
        """A command's rows are one commit: what it hasn't accepted by now it refused."""
        decided = db.execute(
            "SELECT item_seq, seen_seq, decided_seq, told FROM items JOIN commands"
            " ON items.number = commands.number AND turn >= first_turn AND turn < first_turn + commands.count"
            " WHERE items.number = ? AND state = 'sent' AND part = 'act' AND decided_seq IS NOT NULL",
            (number,),
        ).fetchall()
        if not decided:
            return
        last = self._last_rows([row["item_seq"] for row in decided][:LOOKED_UP_MAX])
        db.executemany(
            "UPDATE items SET state = 'refused', row_seq = ?, reason = ? WHERE number = ? AND item_seq = ?",
            [
                (row["decided_seq"], _why(row, last.get(row["item_seq"]))[:REASON_CHARS_MAX], number, row["item_seq"])
                for row in decided
            ],
        )

    def _last_rows(self, item_seqs: Sequence[int]) -> dict[int, tuple[int, str]]:
        """Seq and decision of the last row of each."""
        wanted = pc.field("item_seq").isin(pa.array(item_seqs, pa.int64())) & (pc.field("seq") >= min(item_seqs))
        dataset = dataset_of(DeltaTable(self._journal))
        found = dataset.to_table(columns=["item_seq", "seq", "decision"], filter=wanted).sort_by("seq")
        return {row["item_seq"]: (row["seq"], row["decision"]) for row in found.to_pylist()}


def _upto(db: sqlite3.Connection, number: int) -> int | None:
    row = db.execute("SELECT upto FROM runs WHERE number = ?", (number,)).fetchone()
    return None if row is None else int(row[0])


def _of_interest(table: pa.Table, control_topic: str) -> list[Row]:
    """Commands, and rows after an item's first: of live traffic that goes well neither."""
    wanted = pc.or_(pc.invert(table["first"]), pc.equal(table["topic"], control_topic))
    rows: list[Row] = table.filter(wanted).to_pylist()
    return rows


def _decide(db: sqlite3.Connection, number: int, rows: Sequence[Row]) -> None:
    """The first row of a command counts. What the processor couldn't read has no name: it is known by its offset."""
    offsets = dict(db.execute("SELECT offset, command_id FROM commands WHERE number = ?", (number,)).fetchall())
    names = {command_entity(chunk.command_id): chunk.command_id for chunk in runs.undecided(db, number)}
    for row in rows:
        entity = row["entity_key"]
        named = names.get(entity) if entity is not None else offsets.get(row["offset"])
        if named is not None and row["decision"] != Decision.DUPLICATE:
            db.execute(
                "UPDATE commands SET decided_seq = ?, told = ? WHERE command_id = ? AND decided_seq IS NULL",
                (row["seq"], row["reason"], named),
            )


def _change_of(row: Row, mine: set[int]) -> Change | None:
    decision = Decision(row["decision"])
    state = STATE_OF.get(decision)
    if state is None:
        return None
    ours = row["cause_seq"] in mine and decision in ACCEPTING
    reason = None if row["reason"] is None else row["reason"][:REASON_CHARS_MAX]
    return Change(state, row["seq"], reason, row["item_seq"], ours)


def _change(db: sqlite3.Connection, number: int, changes: Iterable[Change | None]) -> None:
    """An item begins by a command of this run, and moves on until it ends; what comes after that is another story."""
    db.executemany(
        "UPDATE items SET state = ?, row_seq = ?, reason = ? WHERE number = ? AND item_seq = ?"
        " AND (state IN ('replayed', 'retry', 'parked') OR (? AND state IN ('sent', 'unsent')))",
        (
            (
                one.state.value,
                one.row_seq,
                (one.reason or "")[:REASON_CHARS_MAX] or None,
                number,
                one.item_seq,
                one.ours,
            )
            for one in changes
            if one is not None
        ),
    )


def _why(item: sqlite3.Row, last: tuple[int, str] | None) -> str:
    told = _told(item["told"] or "").get(item["item_seq"])
    if told is not None:
        return told
    if last is not None and last[0] != item["seen_seq"]:
        return f"it has moved on since row {item['seen_seq']} to row {last[0]} ({last[1]}); select it anew"
    return f"the command's row {item['decided_seq']} says: {item['told']}"


def _told(text: str) -> dict[int, str]:
    """What a command's row says of single items."""
    return dict(_each_told(text))


def _each_told(text: str) -> Iterator[tuple[int, str]]:
    text = _MORE.sub("", text)
    begins = [found for found in _TOLD.finditer(text) if not (head := text[: found.start()]) or head.endswith(_BEFORE)]
    ends = [*(found.start() - 2 for found in begins[1:]), len(text)][: len(begins)]
    for found, end in zip(begins, ends, strict=True):
        yield int(found.group(1)), text[found.start() : end]


def _ended(db: sqlite3.Connection, number: int) -> int:
    counts = runs.counts(db, number)
    return sum(counts.get(state, 0) for state in ENDED)


def _finish(db: sqlite3.Connection, number: int, now: datetime) -> None:
    """Once nothing more comes of any of its items."""
    run = runs.find(db, number)
    if run is None or run.state in UNFINISHED or run.finished_at is not None:
        return
    on_their_way = db.execute(
        "SELECT 1 FROM items WHERE number = ? AND state IN ('sent', 'replayed', 'retry', 'parked') LIMIT 1", (number,)
    ).fetchone()
    if on_their_way is None:
        db.execute("UPDATE runs SET finished_at = ? WHERE number = ?", (to_rfc3339(now), number))
