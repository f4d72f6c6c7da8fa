"""SQL over the ledger's Delta tables, by the engine that delta-rs brings along (DataFusion).

It reads the columns and files that a question needs, on all cores, a batch after the other: a long table costs time,
not memory. Of what a query selects, only the rows that its filter leaves are decoded.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from core.clock import to_micros
from core.errors import PayhookError

_SESSION = {
    # More files at a time than there are cores: opening one is waiting, and a journal has many small ones.
    "datafusion.execution.target_partitions": str(4 * (os.cpu_count() or 1)),
    "datafusion.execution.parquet.pushdown_filters": "true",
    "datafusion.execution.parquet.reorder_filters": "true",
}
_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


class LedgerUnreadable(PayhookError):
    def __init__(self, what: str, problem: str) -> None:
        self.what = what
        self.problem = problem
        super().__init__(f"{what} can't be read: {problem}. `payhook verify` says what else is wrong")


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a stream's table that count: those after ``after``."""

    path: str
    stream: str = ""
    after: int = 0


Tables: TypeAlias = str | Sequence[TableRows]
"""A table by its path, or the tables of several journals, which together are one."""


def list_tables(tables: Tables) -> Sequence[TableRows]:
    return [TableRows(tables)] if isinstance(tables, str) else tables


class PinnedTables:
    """Some tables, each at the version that it has now: two questions see the same rows.

    ``PinnedTables(journal=path, postings=path)``; a table that isn't there yet has no name in it. A table of several
    journals has a further column ``stream``.

    :raises LedgerUnreadable: a table's log can't be read
    """

    def __init__(self, **tables: Tables) -> None:
        self._what = ", ".join(rows.path for several in tables.values() for rows in list_tables(several))
        self._tables: dict[str, DeltaTable] = {}
        self._together: dict[str, str] = {}
        try:
            for name, several in tables.items():
                self._add_table(name, list_tables(several))
        except (DeltaError, OSError) as broken:
            raise LedgerUnreadable(self._what, str(broken)) from broken

    def __contains__(self, name: str) -> bool:
        return name in self._tables or name in self._together

    def table(self, name: str) -> DeltaTable:
        return self._tables[name]

    def ask(self, sql: str) -> pa.Table:
        """Returns the whole answer; ask for little, or set a LIMIT. ``sql`` begins with SELECT.

        :raises LedgerUnreadable: a file is missing or damaged
        """
        together = ", ".join(f"{name} AS ({parts})" for name, parts in self._together.items())
        return pa.Table.from_batches(*self._read_batches(f"WITH {together} {sql}" if together else sql))

    def _add_table(self, name: str, several: Sequence[TableRows]) -> None:
        parts = []
        for number, rows in enumerate(several):
            if DeltaTable.is_deltatable(rows.path):
                alone = name if len(several) == 1 else f"{name}_{number}"
                self._tables[alone] = DeltaTable(rows.path)
                parts.append(f"SELECT *, {quote_literal(rows.stream)} AS stream FROM {alone} WHERE seq > {rows.after}")
        if len(several) > 1 and parts:
            self._together[name] = " UNION ALL ".join(parts)

    def _read_batches(self, sql: str) -> tuple[list[pa.RecordBatch], pa.Schema]:
        query = QueryBuilder(_SESSION)
        for name, table in self._tables.items():
            query.register(name, table)
        try:
            reader = pa.RecordBatchReader.from_stream(query.execute(sql))
            schema = pa.schema([field.with_type(_PLAIN.get(field.type, field.type)) for field in reader.schema])
            return [batch.cast(schema) for batch in reader], schema
        except (DeltaError, OSError, pa.ArrowException) as broken:
            raise LedgerUnreadable(self._what, str(broken)) from broken


def quote_literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def format_time(at: datetime) -> str:
    return f"arrow_cast({to_micros(at)}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def match_any(column: str, values: Collection[str] | Collection[int]) -> str:
    """Returns ``column IN (…)``; without values a condition that is never true."""
    listed = ", ".join(quote_literal(value) if isinstance(value, str) else str(value) for value in values)
    return f"{column} IN ({listed})" if listed else "false"


def match_decided_within(since: datetime | None, until: datetime | None) -> list[str]:
    return [f"decided_at {sign} {format_time(at)}" for at, sign in ((since, ">="), (until, "<")) if at is not None]


def join_conditions(conditions: Iterator[str] | Collection[str]) -> str:
    joined = " AND ".join(f"({condition})" for condition in conditions)
    return f"WHERE {joined}" if joined else ""
