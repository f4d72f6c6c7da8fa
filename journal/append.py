"""Appends to a Delta table at a price that doesn't grow with the table.

delta-rs keeps every file of a table in memory and goes through all of them at each commit: 13 ms with 200 files, 98
with 1,200, on a table that gets three commits a second (docs/decisions/0018). An append needs none of them. It is one
Parquet file, and one entry of the log put where none is yet (`journal.storage`); all else about the tables (making
them, reading, checkpoints, compaction) is left to delta-rs and Spark.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import Schema

from journal.checkpoints import Checkpoints
from journal.demands import Demands, TableError, TableUnfit, demands_of
from journal.entries import last_checkpoint, place
from journal.files import now_ms, since_boot_s
from journal.lake import open_table
from journal.statistics import file_statistics, statistics
from journal.storage import Storage
from journal.stores import open_storage

TRIES_MAX = 100
"""Commits of others in a row that an append steps over; each try takes a millisecond."""

COMMIT_S_MAX = 600.0
"""From before a commit's files are written until its entry is put, by a clock that runs while the machine sleeps.
Maintenance removes files that no commit names after an hour (`ledger.settings`: ``retention_h``), and a log removes
entries after an hour: within this time an entry neither names a file that is gone, nor takes the place of one that was
there. The rest of the hour is for clocks that differ."""

COMPRESSION = "zstd"

Check = Callable[[pa.Table], Any]
"""A CHECK constraint: true for each row that satisfies it (an Arrow array of booleans)."""


class RowsRefused(TableError):
    """Rows break what the table demands of each; nothing was written."""


class Overtaken(TableError):
    """Somebody else's commit stands in the way of this one. Nothing was written, nor will be by this appender."""


class AppendUnknown(TableError):
    """Nobody knows whether the commit was written."""


class AppendLate(AppendUnknown):
    """The process stood still for so long that the files may be gone: nothing was committed, and they are removed."""

    def __init__(self, path: str) -> None:
        super().__init__(path, f"an append took more than {COMMIT_S_MAX:.0f} s, nothing was committed")


@dataclass(frozen=True, slots=True)
class AppTransaction:
    """What Delta's log calls ``txn``: an application's id and how far it is."""

    app_id: str
    version: int


@dataclass(slots=True)
class Appender:
    """One writer's place in a Delta table's log: ``version`` is the last commit that it knows.

    It isn't refreshed: whatever was committed after ``version`` is looked at by the next `append`, one entry after the
    other, and passed over only if it leaves rows and application ids alone (maintenance). Not thread-safe.
    """

    path: str
    storage: Storage
    version: int
    checks: Mapping[str, Check]
    elapsed_s: Callable[[], float]
    demands: Demands
    checkpoints: Checkpoints = field(init=False)
    _fits: pa.Schema | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.checkpoints = Checkpoints(self.path, self.version)

    @classmethod
    def open(
        cls,
        path: str,
        *,
        version: int | None = None,
        checks: Mapping[str, Check] | None = None,
        elapsed_s: Callable[[], float] | None = None,
    ) -> Appender:
        """At ``version`` (the latest unless told). ``checks`` are the constraints that the table may have, by name.

        :raises TableUnfit: see there
        :raises DeltaError, OSError: no table can be read there
        """
        table = open_table(path, version)
        demands, known = demands_of(path, table), dict(checks or {})
        if strangers := sorted(demands.constraints - known.keys()):
            raise TableUnfit(path, f"it has the constraints {strangers}, which this code can't check")
        return cls(path, open_storage(path), table.version(), known, elapsed_s or since_boot_s, demands)

    def append(
        self,
        rows: pa.Table | None,
        transaction: AppTransaction | None = None,
        told: Mapping[str, str] | None = None,
    ) -> int:
        """Commits rows, or none; returns the version. ``told`` is what the commit says of itself, beside Delta's own.

        Columns that the rows lack read as NULL.

        :raises RowsRefused: see there
        :raises Overtaken: a later commit has the same application id, or changed the table
        :raises AppendLate: see there
        :raises AppendUnknown: what was committed meanwhile can't be read, or too much time has passed
        :raises OSError: it can't be written; the entry itself may have been
        """
        began_s = self.elapsed_s()
        if rows is None or rows.num_rows == 0:
            return self._commit(began_s, [], transaction, told)
        self._check(rows)
        name, data = _new_name(), _parquet(rows)
        self.storage.put_file(name, data)
        add = _add(name, data.size, statistics(rows, self.demands.indexed))
        return self._commit(began_s, [add], transaction, told, data)

    def append_files(self, staged: Sequence[Path], told: Mapping[str, str] | None = None) -> int:
        """Commits files of rows that somebody else wrote (Spark): more than fit into memory may be in them.

        They are files of this machine, and are gone afterwards.

        :raises RowsRefused: their columns are others, a NULL is where none may be, or the table has constraints, which
            aren't looked at here
        :raises Overtaken, AppendLate, AppendUnknown, OSError: as `append`
        """
        told_of = [self._check_file(one) for one in staged]
        began_s = self.elapsed_s()
        return self._commit(began_s, [self._adopt(*one) for one in zip(staged, told_of, strict=True)], None, told)

    def _commit(
        self,
        began_s: float,
        adds: list[dict[str, Any]],
        transaction: AppTransaction | None,
        told: Mapping[str, str] | None,
        data: pa.Buffer | None = None,
    ) -> int:
        """
        :param began_s: when nothing of the files was written yet
        :param data: what is in the one file of ``adds``
        """
        entry = _entry(adds, transaction, told or {})
        try:
            number = self._put(entry, None if transaction is None else transaction.app_id, began_s)
        except (Overtaken, AppendLate):
            for add in adds:
                with contextlib.suppress(OSError):
                    self.storage.delete(add["path"])
            raise
        if self._is_late(began_s):
            if data is not None:
                # The entry may count, and its file may have been removed before it was put.
                with contextlib.suppress(FileExistsError):
                    self.storage.put_file(adds[0]["path"], data)
            raise AppendUnknown(self.path, f"commit {number} took too long to be sure of its place")
        self.version = number
        self.checkpoints.committed(number)
        return number

    def _is_late(self, began_s: float) -> bool:
        return self.elapsed_s() - began_s > COMMIT_S_MAX

    def _adopt(self, staged: Path, stats: Mapping[str, Any]) -> dict[str, Any]:
        name, size = _new_name(), staged.stat().st_size
        self.storage.adopt(staged, name)
        return _add(name, size, stats)

    def _check_file(self, staged: Path) -> dict[str, Any]:
        """What the log says of a file of rows that may be part of the table."""
        if self.demands.constraints:
            raise RowsRefused(self.path, f"it has constraints, by which no row of {staged.name} was looked at")
        self._check_types(pq.read_schema(staged))
        stats = file_statistics(staged, self.demands.indexed)
        if nulls := [name for name in self.demands.never_null if stats["nullCount"].get(name) != 0]:
            raise RowsRefused(self.path, f"{', '.join(nulls)} must not be NULL")
        return stats

    def _check(self, rows: pa.Table) -> None:
        if rows.schema is not self._fits:
            self._check_types(rows.schema)
            self._fits = rows.schema
        for name in self.demands.never_null:
            if name not in rows.column_names or rows[name].null_count:
                raise RowsRefused(self.path, f"{name} must not be NULL")
        for name in self.demands.constraints:
            if not pc.all(self.checks[name](rows), skip_nulls=False, min_count=0).as_py():
                raise RowsRefused(self.path, f"rows break its constraint {name}")

    def _check_types(self, schema: pa.Schema) -> None:
        types = self.demands.types
        if strangers := [name for name in schema.names if name not in types]:
            raise RowsRefused(self.path, f"it has no columns {strangers}")
        given = Schema.from_arrow(schema).fields
        if other := [f"{one.name} ({one.type})" for one in given if one.type != types[one.name]]:
            raise RowsRefused(self.path, f"its columns have other types than {', '.join(other)}")

    def _put(self, entry: bytes, app_id: str | None, began_s: float) -> int:
        number = self.version + 1
        passed = self._last_checkpoint()
        for _ in range(TRIES_MAX):
            if self._is_late(began_s):
                raise AppendLate(self.path)
            try:
                if number <= passed:
                    raise FileExistsError
                self.storage.put_new(place(number), entry)
            except FileExistsError:
                if not self._is_ours(number, entry, app_id):
                    number += 1
                    continue
            return number
        raise AppendUnknown(self.path, f"others committed {TRIES_MAX} times before this one could")

    def _is_ours(self, number: int, entry: bytes, app_id: str | None) -> bool:
        """Whether a commit that is there is this very one, whose success wasn't told; else it may be passed over.

        :raises Overtaken, AppendUnknown: it may not
        """
        try:
            found = self.storage.read(place(number))
            actions = [json.loads(line) for line in found.splitlines() if line]
        except (FileNotFoundError, ValueError) as gone:
            raise AppendUnknown(self.path, f"commit {number} of somebody else can't be read ({gone})") from gone
        if found == entry:
            return True
        for action in actions:
            if "metaData" in action or "protocol" in action:
                raise Overtaken(self.path, f"commit {number} changed the table's metadata or protocol")
            if app_id is not None and action.get("txn", {}).get("appId") == app_id:
                raise Overtaken(self.path, f"commit {number} is a concurrent transaction of {app_id}")
        return False

    def _last_checkpoint(self) -> int:
        """The version of the last checkpoint; entries before it may be gone. -1: there is none."""
        try:
            return last_checkpoint(self.storage)
        except ValueError as torn:
            raise AppendUnknown(self.path, str(torn)) from torn


def _parquet(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression=COMPRESSION, store_schema=False)
    return sink.getvalue()


def _new_name() -> str:
    return f"part-00000-{uuid.uuid4()}-c000.{COMPRESSION}.parquet"


def _add(name: str, size: int, stats: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "path": name,
        "partitionValues": {},
        "size": size,
        "modificationTime": now_ms(),
        "dataChange": True,
        "stats": json.dumps(stats, ensure_ascii=False),
    }


def _entry(adds: list[dict[str, Any]], transaction: AppTransaction | None, told: Mapping[str, str]) -> bytes:
    info = {
        "timestamp": now_ms(),
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "isBlindAppend": True,
        "engineInfo": "payhook",
        "txnId": str(uuid.uuid4()),
        **told,
    }
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    if transaction is not None:
        actions.append({"txn": {"appId": transaction.app_id, "version": transaction.version}})
    actions += [{"add": add} for add in adds]
    return "".join(f"{json.dumps(action, ensure_ascii=False)}\n" for action in actions).encode()
