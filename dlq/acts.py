"""The record of what people did, and were refused: an append-only Delta table whose rows are chained.

Several processes write to it, each row by itself. A row's number is the version of an application transaction: Delta
takes each number once, so of two writers with the same head one is refused, reads the new head, and comes after it.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from core.errors import PayhookError
from core.location import Location, make_folder
from dlq.acts_chain import ACTS_SCHEMA, Act, Outcome, RecordedAct, chained, recorded
from journal.append import Appender
from journal.log import AppTransaction, CommitFailed, Overtaken, TableError, last_number
from journal.reader import dataset_of
from journal.schema import GENESIS
from journal.storage import open_storage

__all__ = ["Act", "Acts", "ActsBroken", "ActsUnwritable", "Head", "Outcome", "RecordedAct"]

APP_ID = "payhook-acts"
CONFIGURATION = {
    "delta.appendOnly": "true",
    # Rows are few and for ever; their commits say nothing that the rows don't.
    "delta.checkpointInterval": "100",
    # `number` is the first column: pages are read by it, nobody looks for texts by their range.
    "delta.dataSkippingNumIndexedCols": "1",
}
TRIES_MAX = 100
"""Other writers that may come in between; each of them has written one row then."""


class ActsUnwritable(PayhookError):
    """An act can't be put on record. Nobody signs in then, and no user is changed; an order may have been given."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"acts {path}: this can't be put on record: {problem}")


class ActsBroken(PayhookError):
    """The table's last row isn't there: somebody took it out."""

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number
        super().__init__(
            f"acts {path}: its last row, {number}, is missing or there twice. Somebody wrote to the table: keep it as "
            "it is, restore it from a backup, and find out who did. `payhook verify` says more."
        )


@dataclass(frozen=True, slots=True)
class Head:
    """The last row's number and the chain up to it; number 0: there is none."""

    number: int
    chain: str


class Acts:
    """The table at ``path``, made with its first row. Blocks; threads may share it, and processes the table."""

    def __init__(self, path: Location) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._open: tuple[Appender, Head] | None = None

    def record(self, act: Act) -> RecordedAct:
        """Appends one act; it is on disk when this returns.

        :raises ActsUnwritable: it can't be written, or nobody knows whether it was
        :raises ActsBroken: see there
        """
        act_id = uuid.uuid4().hex
        with self._lock:
            try:
                return self._append(act, act_id)
            except (TableError, DeltaError, OSError) as failed:
                self._open = None
                raise ActsUnwritable(str(self._path), str(failed)) from failed

    def read(self, limit: int, before: int | None = None) -> list[RecordedAct]:
        """At most ``limit`` acts, the newest first; of those before a number, if one is given."""
        if not DeltaTable.is_deltatable(str(self._path)):
            return []
        table = DeltaTable(str(self._path))
        end = min(_last(table) + 1, before if before is not None else _last(table) + 1)
        number = pc.field("number")
        rows = dataset_of(table).to_table(filter=(number < end) & (number >= end - limit))
        return [recorded(row) for row in rows.sort_by([("number", "descending")]).to_pylist()]

    def head(self) -> Head:
        """Where the chain stands now.

        :raises ActsBroken: see there
        """
        if not DeltaTable.is_deltatable(str(self._path)):
            return Head(0, GENESIS)
        return self._head(DeltaTable(str(self._path)))

    def stamp(self) -> int:
        """Another number after each commit: whether there is anything new costs less than what it is."""
        if not isinstance(self._path, Path):
            return last_number(open_storage(self._path)) + 1
        try:
            return (self._path / "_delta_log").stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _append(self, act: Act, act_id: str) -> RecordedAct:
        for _ in range(TRIES_MAX):
            appender, head = self._open or self._opened()
            row = chained(act, act_id, head.number + 1, head.chain)
            rows = pa.Table.from_pylist([row.as_row()], schema=ACTS_SCHEMA)
            try:
                appender.append(rows, AppTransaction(APP_ID, row.number))
            except Overtaken:
                self._open = None
                continue
            except CommitFailed:
                self._open = None
                if self._holds(row):
                    return row
                continue
            self._open = appender, Head(row.number, row.chain)
            return row
        raise ActsUnwritable(str(self._path), f"others wrote {TRIES_MAX} times before this could")

    def _opened(self) -> tuple[Appender, Head]:
        _make(self._path)
        table = DeltaTable(str(self._path))
        return Appender.open(str(self._path), version=table.version()), self._head(table)

    def _head(self, table: DeltaTable) -> Head:
        number = _last(table)
        if number == 0:
            return Head(0, GENESIS)
        rows = dataset_of(table).to_table(["chain"], filter=pc.field("number") == number)
        if rows.num_rows != 1:
            raise ActsBroken(str(self._path), number)
        return Head(number, rows["chain"][0].as_py())

    def _holds(self, row: RecordedAct) -> bool:
        dataset = dataset_of(DeltaTable(str(self._path)))
        found = dataset.to_table(["act_id"], filter=pc.field("number") == row.number)
        return row.act_id in found["act_id"].to_pylist()


def _last(table: DeltaTable) -> int:
    return table.transaction_version(APP_ID) or 0


def _make(path: Location) -> None:
    if DeltaTable.is_deltatable(str(path)):
        return
    make_folder(str(path))
    try:
        DeltaTable.create(str(path), ACTS_SCHEMA, name="acts", configuration=CONFIGURATION)
    except DeltaError:
        if not DeltaTable.is_deltatable(str(path)):
            raise
