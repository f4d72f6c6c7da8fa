"""Follows a stream's journal by seq: takes a window of rows in a transaction, from the index's own mark on.

Any number of processes may follow at once: a window is read without a lock, and counts only if the mark is
still where it was when reading began.

A journal that was divided holds items that another one continues: they are in that one's index alone.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, make_dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from core.clock import Clock, to_micros
from core.decision import Decision
from core.routing import WHOLE, Shard
from dead_letters.file import CUBE_COLUMNS, DeadLetterIndexDamaged, IndexFile, recreate_tables, select_entries
from dead_letters.fold import ROW_COLUMNS, IndexedRow, fold_row, is_command
from dead_letters.item import COLUMNS, ItemEntry, ItemState, values
from journal.histories import ReflectedPosition
from journal.journals import is_item_of, shard_in
from journal.lake import has_table
from journal.reader import JournalFollower, JournalReader

MARK_COLUMNS = ("seq", "first", "decision", "row_hash")
ROWS_PER_PICK = 20_000
"""About 20 MB of rows with their stacks."""

CLOSED_PER_ROUND = 10_000
HOUR_US = 3_600_000_000
TRIES_MAX = 3
_SETTLES = pa.array(
    [
        *(Decision.APPLIED, Decision.IGNORED, Decision.UNKNOWN),
        *(Decision.DUPLICATE, Decision.DUPLICATE_FACT, Decision.LOST),
    ],
    pa.string(),
)
_Record: Any = make_dataclass("_Record", ROW_COLUMNS, slots=True)


class _Mark(NamedTuple):
    table_id: str | None
    seq: int
    row_hash: str | None
    lineage: str = ""
    part: str = str(WHOLE)


@dataclass(frozen=True, slots=True)
class FollowResult:
    rows: int
    seq: int


class Follower:
    """Brings one index up to its journal's end. Threads may share it."""

    def __init__(self, file: IndexFile, journal: str, clock: Clock, closed: timedelta) -> None:
        self._file = file
        self._journal = journal
        self._clock = clock
        self._closed = closed

    def follow(self) -> FollowResult:
        """Takes in what the journal has gained; begins again where the index isn't of this journal's history.

        :raises JournalBroken: a row is missing, or a file can't be read
        :raises DeadLetterIndexUnreadable: the index's file can't be written
        :raises JournalOlder: it knows rows that this journal had and doesn't have now
        """
        for left in range(TRIES_MAX - 1, -1, -1):
            try:
                return self._follow()
            except DeadLetterIndexDamaged:
                if left == 0:
                    raise
        raise AssertionError("at least one try is made")

    def _follow(self) -> FollowResult:
        # The mark is read first: others may take the index on, and a journal that was opened before would seem to have
        # lost what they took in.
        following = FollowingIndex(self._file)
        if not has_table(self._journal):
            following.forget_all()
            return FollowResult(0, 0)
        following.follow_journal(JournalReader(self._journal))
        self._remove_closed()
        return FollowResult(following.rows, following.position.seq)

    def _remove_closed(self) -> None:
        before = to_micros(self._clock.now() - self._closed)
        with self._file.begin_read() as connection:
            due = connection.execute("SELECT 1 FROM items WHERE closed_at < ? LIMIT 1", (before,)).fetchone()
        while due is not None:
            with self._file.begin_write() as connection:
                gone = list(select_entries(connection, "WHERE closed_at < ? LIMIT ?", (before, CLOSED_PER_ROUND)))
                _replace_entries(connection, gone, [])
            due = gone or None if len(gone) == CLOSED_PER_ROUND else None


class FollowingIndex(JournalFollower):
    what = "the dead-letter index"

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        with file.begin_read() as connection:
            self._mark = _read_mark(connection)
        self.rows = 0

    @property
    def position(self) -> ReflectedPosition:
        return ReflectedPosition(self._mark.lineage, self._mark.seq, self._mark.row_hash or "")

    def is_of(self, journal: JournalReader) -> bool:
        return self._mark.table_id == journal.table_id and super().is_of(journal)

    def forget_all(self) -> None:
        if self._mark.seq:
            with self._file.begin_write() as connection:
                recreate_tables(connection)

    def begin_again(self, journal: JournalReader) -> None:
        first = _Mark(journal.table_id, 0, None, journal.lineage, str(_read_part(journal)))
        self._change_and_mark(first, recreate_tables)

    def take_windows(self, journal: JournalReader) -> Iterator[None]:
        """Takes in windows until there are no more. Where another process was quicker it continues from there."""
        part = _read_part(journal)
        if self._mark.part != str(part):
            self._change_and_mark(self._mark._replace(part=str(part)), lambda connection: _keep_part(connection, part))
        while self._mark.seq < journal.last_seq and self._mark.table_id == journal.table_id:
            yield from self._take_some(journal)

    def _take_some(self, journal: JournalReader) -> Iterator[None]:
        for table in journal.tables_after(self._mark.seq, MARK_COLUMNS):
            for picked, until in _pick_rows(table):
                rows = list(unpack_rows(journal.tables_of(picked, ROW_COLUMNS)))
                before = self._mark
                change = partial(take_in, rows=rows, part=Shard.read(before.part))
                if not self._change_and_mark(_mark_at(table, until, before), change):
                    return
                self.rows += until - before.seq
                yield

    def _change_and_mark(self, after: _Mark, change: Callable[[sqlite3.Connection], object]) -> bool:
        """Changes the index and its mark, unless another process took it on since: False, and the mark is theirs."""
        with self._file.begin_write() as connection:
            there = _read_mark(connection)
            if there != self._mark:
                self._mark = there
                return False
            change(connection)
            _set_mark(connection, after)
        self._mark = after
        return True


def _pick_rows(table: pa.Table) -> Iterator[tuple[list[int], int]]:
    """Picks the rows that leave something open or end it, some at a time; says up to which row the index goes with
    them.

    Those that settle their event at once are nothing to the index.
    """
    settled = pc.and_(table["first"], pc.is_in(table["decision"], value_set=_SETTLES))
    wanted = table["seq"].filter(pc.invert(settled)).to_pylist()
    last = table["seq"][-1].as_py()
    for begin in range(0, len(wanted), ROWS_PER_PICK):
        picked = wanted[begin : begin + ROWS_PER_PICK]
        yield picked, picked[-1]
    if not wanted or wanted[-1] < last:
        yield [], last


def take_in(connection: sqlite3.Connection, rows: Iterable[IndexedRow], part: Shard = WHOLE) -> None:
    """Folds rows into their items, within the transaction; those that only a command is about are passed over, and
    items that begin as another journal's.
    """
    wanted = [row for row in rows if not is_command(row)]
    before = {entry.item_seq: entry for entry in read_entries(connection, {r.item_seq for r in wanted if not r.first})}
    now = dict(before)
    causes = {}
    for row in wanted:
        known = now.get(row.item_seq)
        if known is None and not (_can_begin_item(row) and is_item_of(part, row)):
            continue
        folded = fold_row(known, row)
        now[row.item_seq] = folded.entry
        if folded.cause is not None:
            causes[folded.cause.fingerprint] = folded.cause
    connection.executemany(
        "INSERT OR IGNORE INTO causes VALUES (?, ?, ?, ?, ?)",
        [
            (cause.fingerprint, cause.error_class, cause.error_code, cause.shape, cause.place)
            for cause in causes.values()
        ],
    )
    _replace_entries(
        connection, list(before.values()), [entry for entry in now.values() if entry.state != ItemState.SETTLED]
    )


def _can_begin_item(row: IndexedRow) -> bool:
    return row.first or Decision(row.decision) in _OPENING


def _keep_part(connection: sqlite3.Connection, part: Shard) -> None:
    _replace_entries(connection, [entry for entry in select_entries(connection) if not is_item_of(part, entry)], [])


def read_entries(connection: sqlite3.Connection, item_seqs: Iterable[int]) -> Iterator[ItemEntry]:
    seqs = list(item_seqs)
    for begin in range(0, len(seqs), SEQS_PER_QUERY):
        some = seqs[begin : begin + SEQS_PER_QUERY]
        marks = ", ".join("?" * len(some))
        yield from select_entries(connection, f"WHERE item_seq IN ({marks})", some)


SEQS_PER_QUERY = 500
_OPENING = frozenset({Decision.DEAD, Decision.RETRY, Decision.PARKED, Decision.REPLAYED})


def cube_place(entry: ItemEntry) -> tuple[Any, ...]:
    return (
        str(entry.state),
        int(entry.first_dead_at is not None),
        entry.kind or "",
        entry.error_class or "",
        entry.provider or "",
        entry.event_type or "",
        entry.fingerprint or "",
        str(entry.mark or ""),
        entry.since_at // HOUR_US,
        (entry.closed_at or 0) // HOUR_US,
    )


def _replace_entries(connection: sqlite3.Connection, before: Sequence[ItemEntry], after: Sequence[ItemEntry]) -> None:
    kept = {entry.item_seq for entry in after}
    gone = [(entry.item_seq,) for entry in before if entry.item_seq not in kept]
    connection.executemany("DELETE FROM items WHERE item_seq = ?", gone)
    marks = ", ".join("?" * len(COLUMNS))
    connection.executemany(f"INSERT OR REPLACE INTO items VALUES ({marks})", map(values, after))
    counts: Counter[tuple[Any, ...]] = Counter(map(cube_place, after))
    counts.subtract(map(cube_place, before))
    changed = [(*place, n) for place, n in counts.items() if n]
    names = ", ".join(CUBE_COLUMNS)
    places = ", ".join("?" * (len(CUBE_COLUMNS) + 1))
    connection.executemany(
        f"INSERT INTO cube VALUES ({places}) ON CONFLICT ({names}) DO UPDATE SET n = n + excluded.n", changed
    )
    is_it = " AND ".join(f"{name} = ?" for name in CUBE_COLUMNS)
    connection.executemany(
        f"DELETE FROM cube WHERE {is_it} AND n = 0", [place[:-1] for place in changed if place[-1] < 0]
    )


def unpack_rows(table: pa.Table) -> Iterator[IndexedRow]:
    columns = [_list_values(table[name]) for name in ROW_COLUMNS]
    return (_Record(*values) for values in zip(*columns, strict=True))


def _list_values(column: pa.ChunkedArray) -> list[Any]:
    listed: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return listed


def _read_mark(connection: sqlite3.Connection) -> _Mark:
    row = connection.execute("SELECT table_id, seq, row_hash, lineage, shard FROM mark").fetchone()
    return _Mark(*row) if row is not None else _Mark(None, 0, None)


def _set_mark(connection: sqlite3.Connection, mark: _Mark) -> None:
    connection.execute("INSERT OR REPLACE INTO mark VALUES (1, ?, ?, ?, ?, ?)", mark)


def _mark_at(table: pa.Table, seq: int, before: _Mark) -> _Mark:
    place = seq - table["seq"][0].as_py()
    return before._replace(seq=seq, row_hash=table["row_hash"][place].as_py())


def _read_part(reader: JournalReader) -> Shard:
    return shard_in(reader.state().notes)
