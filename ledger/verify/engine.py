"""The engine of the promises' SQL: DuckDB in a child process, or Spark where the ledger's master is a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from core.location import Location

HERE = Path(__file__).parent
Read = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class SqlEngine(Protocol):
    """Tables and views by name, and answers to SQL that both engines understand.

    A column ``offset`` is called ``kafka_offset``: one engine takes ``"offset"`` for a text, the other needs the
    quotes.
    """

    joined: str
    """The text of all row hashes, one after the other by seq, as an aggregate."""

    portion_rows: int
    """How many of the journal's rows it groups at once, with all that they have."""

    def add_delta(self, name: str, location: Location | str, version: int) -> Collection[str]:
        """Names a Delta table at one version; returns its columns."""

    def add_table(self, name: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None: ...

    def add_view(self, name: str, sql: str) -> None: ...

    def add_result(self, name: str, sql: str) -> None:
        """Names a query's result; the query runs once."""

    def add_read(self, name: str, sql: str, read: Read, columns: str) -> None:
        """Names what Python code makes of a query's rows.

        :param columns: the new ones, as Spark writes them: ``seq bigint, problem string``
        """

    def ask(self, sql: str, rows_max: int | None = None) -> list[dict[str, Any]]: ...


def read_prelude(engine: str) -> list[str]:
    text = (HERE / "preludes" / f"{engine}.sql").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return [statement for statement in "\n".join(lines).split(";") if statement.strip()]
