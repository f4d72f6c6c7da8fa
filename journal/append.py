"""Appends to a Delta table at a price that doesn't grow with the table.

delta-rs keeps every file of a table in memory and goes through all of them at each commit: 13 ms with 200 files, 98
with 1,200, on a table that gets three commits a second (docs/decisions/0001). An append needs none of them. It is one
Parquet file and one entry of the log (`journal.log`). Everything else about the tables (making them, reading,
checkpoints, compaction) is left to delta-rs and Spark.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema

from core.clock import to_rfc3339
from journal.checkpoints import Checkpoints
from journal.lake import open_table
from journal.log import (
    COMPRESSION,
    Action,
    AppTransaction,
    OutcomeUnknown,
    TableError,
    TableLog,
    entry_of,
    make_add_action,
    make_txn_action,
    new_file_name,
    now_ms,
    since_boot_s,
)
from journal.storage import open_storage

WRITER_VERSION_MAX = 3
WRITER_FEATURES = frozenset(
    {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "deletionVectors", "v2Checkpoint"}
)
"""Features of Delta's protocol that ask nothing of an append, or are done here."""

CONSTRAINT = "delta.constraints."
INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
INDEXED_COLUMNS_DEFAULT = 32

Check = Callable[[pa.Table], Any]
"""A CHECK constraint: true for each row that satisfies it (an Arrow array of booleans)."""


class TableUnfit(TableError):
    remedy = ". Nothing was written; undo that change, or take code that knows it."


class RowsRefused(TableError):
    pass


@dataclass(frozen=True, slots=True)
class Demands:
    types: Mapping[str, Any]
    never_null: tuple[str, ...]
    constraints: frozenset[str]
    indexed: tuple[str, ...]


def demands_of(path: str, table: DeltaTable) -> Demands:
    """
    :raises TableUnfit: the table has a feature that isn't handled here
    """
    protocol, metadata = table.protocol(), table.metadata()
    features = set(protocol.writer_features or ())
    version = protocol.min_writer_version
    if (features - WRITER_FEATURES) or (version > WRITER_VERSION_MAX and not features):
        problem = f"it asks of its writers {sorted(features - WRITER_FEATURES) or f'protocol version {version}'}"
        raise TableUnfit(path, problem)
    fields = table.schema().fields
    special = sorted(column.name for column in fields if any(key.startswith("delta.") for key in column.metadata))
    if special or metadata.partition_columns:
        raise TableUnfit(path, f"it is partitioned, or its columns {special} aren't plain ones")
    configuration = metadata.configuration
    return Demands(
        {column.name: column.type for column in fields},
        tuple(column.name for column in fields if not column.nullable),
        frozenset(name.removeprefix(CONSTRAINT) for name in configuration if name.startswith(CONSTRAINT)),
        tuple(column.name for column in fields[: int(configuration.get(INDEXED_COLUMNS) or INDEXED_COLUMNS_DEFAULT)]),
    )


@dataclass(slots=True)
class Appender:
    """Appends to a Delta table as its one writer.

    Its log isn't refreshed: the next `append` looks at each entry that was committed after its version. It steps over
    an entry only if that leaves the table and the application id alone (maintenance). Not thread-safe.
    """

    path: str
    log: TableLog
    checks: Mapping[str, Check]
    demands: Demands
    checkpoints: Checkpoints
    _fits: pa.Schema | None = field(init=False, default=None)

    @classmethod
    def open(
        cls,
        path: str,
        *,
        version: int | None = None,
        checks: Mapping[str, Check] | None = None,
        elapsed_s: Callable[[], float] = since_boot_s,
    ) -> Appender:
        """Opens the table at ``version``, or at the latest. ``checks`` are the constraints that it may have, by name.

        :raises TableUnfit: the table has a feature that isn't handled here
        :raises DeltaError, OSError: no table can be read there
        """
        table = open_table(path, version)
        demands, known = demands_of(path, table), dict(checks or {})
        if unknown := sorted(demands.constraints - known.keys()):
            raise TableUnfit(path, f"it has the constraints {unknown}, which this code can't check")
        log = TableLog(path, open_storage(path), table.version(), elapsed_s)
        return cls(path, log, known, demands, Checkpoints(path, log.version))

    @property
    def version(self) -> int:
        return self.log.version

    def append(
        self,
        rows: pa.Table | None,
        transaction: AppTransaction | None = None,
        about: Mapping[str, str] | None = None,
    ) -> int:
        """Commits rows, or none; returns the version. Columns that the rows lack read as NULL.

        :param about: what the commit says of itself, beside Delta's own fields
        :raises RowsRefused: rows break what the table demands; nothing was written
        :raises Overtaken: a later commit has the same application id, or changed the table
        :raises NotCommitted, OutcomeUnknown: as the classes say
        :raises OSError: it can't be written; the entry itself may have been
        """
        began_s = self.log.elapsed_s()
        if rows is None or rows.num_rows == 0:
            return self._commit([], began_s, transaction, about)
        self._check(rows)
        name, data = new_file_name(), _write_parquet(rows)
        self.log.storage.put_file(name, data)
        added = make_add_action(name, data.size, compute_statistics(rows, self.demands.indexed), now_ms())
        try:
            return self._commit([added], began_s, transaction, about)
        except OutcomeUnknown:
            # The entry may count, and its file may have been removed before it was put.
            with contextlib.suppress(FileExistsError):
                self.log.storage.put_file(name, data)
            raise

    def append_files(self, staged: Sequence[Path]) -> int:
        """Commits files of rows that Spark wrote: there may be more in them than fits into memory.

        They are files of this machine, and are gone afterwards.

        :raises RowsRefused: their columns are others, a NULL is where none may be, or the table has constraints, which
            aren't looked at here
        :raises Overtaken, NotCommitted, OutcomeUnknown, OSError: as `append`
        """
        stats = [self._check_file(file) for file in staged]
        began_s = self.log.elapsed_s()
        adds = [
            make_add_action(new_file_name(), file.stat().st_size, its_stats, now_ms())
            for file, its_stats in zip(staged, stats, strict=True)
        ]
        self.log.adopt_files(staged, [action["add"]["path"] for action in adds])
        return self._commit(adds, began_s, None, None)

    def _commit(
        self,
        adds: list[Action],
        began_s: float,
        transaction: AppTransaction | None,
        about: Mapping[str, str] | None,
    ) -> int:
        actions = [*([] if transaction is None else [make_txn_action(transaction)]), *adds]
        entry = entry_of("WRITE", {"mode": "Append"}, about or {}, actions, now_ms(), blind_append=True)
        app_id = None if transaction is None else transaction.app_id

        def conflict(action: Action) -> str | None:
            same = app_id is not None and action.get("txn", {}).get("appId") == app_id
            return f"is a concurrent transaction of {app_id}" if same else None

        number = self.log.commit(lambda: entry, conflict, [action["add"]["path"] for action in adds], began_s)
        self.checkpoints.on_commit(number)
        return number

    def _check_file(self, staged: Path) -> dict[str, Any]:
        if self.demands.constraints:
            raise RowsRefused(self.path, f"it has constraints, by which no row of {staged.name} was looked at")
        self._check_types(pq.read_schema(staged))
        stats = compute_file_statistics(staged, self.demands.indexed)
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
        if unknown := [name for name in schema.names if name not in types]:
            raise RowsRefused(self.path, f"it has no columns {unknown}")
        given = Schema.from_arrow(schema).fields
        if other := [f"{column.name} ({column.type})" for column in given if column.type != types[column.name]]:
            raise RowsRefused(self.path, f"its columns have other types than {', '.join(other)}")


ROWS_PER_GROUP = 20_000
"""About as many as maintenance leaves in a row group: readers skip those out of their range of seq, and share the rest
among processors."""


def _write_parquet(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression=COMPRESSION, store_schema=False, row_group_size=ROWS_PER_GROUP)
    return sink.getvalue()


TEXT_CHARS = 64
"""A longer text that ends a range is cut to so many."""

SURROGATES = range(0xD800, 0xE000)

RANGED = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_timestamp)
_WITHIN_A_MILLISECOND = timedelta(microseconds=999)
_LAST_MILLISECOND = datetime.max.replace(tzinfo=UTC) - _WITHIN_A_MILLISECOND


def compute_statistics(rows: pa.Table, indexed: Sequence[str]) -> dict[str, Any]:
    """Computes the statistics by which readers skip files: the range of each column, and how many of its values are
    NULL.

    Every column that can have a range must be named: deltalake 1.6.6 takes an omitted one for one without values, and
    skips the file.
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in indexed:
        column = rows[name] if name in rows.column_names else None
        if column is None or column.null_count == len(column):
            nulls[name] = rows.num_rows
        elif (ends := _find_range(column)) is not None:
            nulls[name] = column.null_count
            least[name], greatest[name] = ends
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def compute_file_statistics(file: Path, indexed: Sequence[str]) -> dict[str, Any]:
    with pq.ParquetFile(file) as parquet:
        ranged = [name for name in indexed if _has_range(parquet.schema_arrow, name)]
        groups = [
            compute_statistics(parquet.read_row_group(number, columns=ranged), tuple(ranged))
            for number in range(parquet.num_row_groups)
        ]
        rows = parquet.metadata.num_rows
    least, greatest, nulls = ([group[name] for group in groups] for name in ("minValues", "maxValues", "nullCount"))
    return {
        "numRecords": rows,
        "minValues": {name: min(ends) for name in ranged if (ends := _pick_values(least, name))},
        "maxValues": {name: max(ends) for name in ranged if (ends := _pick_values(greatest, name))},
        "nullCount": {name: sum(_pick_values(nulls, name)) for name in ranged},
    }


def _pick_values(groups: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [group[name] for group in groups if name in group]


def _has_range(schema: pa.Schema, name: str) -> bool:
    at = schema.get_field_index(name)
    return at >= 0 and any(is_one(schema.field(at).type) for is_one in RANGED)


def _find_range(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    kind = column.type
    if not any(is_one(kind) for is_one in RANGED):
        return None
    ends = pc.min_max(column).as_py()
    least, greatest = ends["min"], ends["max"]
    if pa.types.is_timestamp(kind):
        return _round_to_milliseconds(least, up=False), _round_to_milliseconds(greatest, up=True)
    if pa.types.is_string(kind):
        return least[:TEXT_CHARS], _at_least(greatest)
    return least, greatest


def _at_least(text: str) -> str:
    if len(text) <= TEXT_CHARS:
        return text
    beginning = text[:TEXT_CHARS].rstrip(chr(sys.maxunicode))
    if not beginning:
        return text
    following = ord(beginning[-1]) + 1
    return beginning[:-1] + chr(following if following != SURROGATES.start else SURROGATES.stop)


def _round_to_milliseconds(at: datetime, *, up: bool) -> str:
    """Rounds to the log's milliseconds: the least down, the greatest up.

    The last millisecond of the year 9999 isn't rounded up: readers take each millisecond for its whole length.
    """
    if up:
        at = min(at, _LAST_MILLISECOND) + _WITHIN_A_MILLISECOND
    return to_rfc3339(at)[: -len("000Z")] + "Z"
