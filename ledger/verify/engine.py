"""The promises, an SQL text each, and the engine that asks them: DuckDB in a child process, or Spark on a cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
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

    def add_delta(self, name: str, location: Location | str, version: int) -> None: ...

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


FOLDER = HERE / "promises"
HEAD = "-- "
NOTE = "--"
"""A line of it alone ends the sentence; what follows of the head is a note for who reads the query."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise. ``sentence`` is for an accountant; ``text`` is the whole file; ``sql`` selects offenders."""

    name: str
    sentence: str
    text: str
    sql: str


def list_promise_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.sql"))


@functools.cache
def read_promise(name: str) -> Promise:
    text = (FOLDER / f"{name}.sql").read_text()
    lines = text.splitlines()
    head = next((at for at, line in enumerate(lines) if not line.startswith(NOTE)), len(lines))
    sentence = next((at for at, line in enumerate(lines) if line.rstrip() == NOTE), head)
    sentence_text = " ".join(line.removeprefix(HEAD).strip() for line in lines[: min(head, sentence)])
    return Promise(name, sentence_text, text, "\n".join(lines[head:]))
