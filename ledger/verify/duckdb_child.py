"""DuckDB in a process of its own: it may be killed, and its memory is given back when it ends."""

from __future__ import annotations

import hashlib
import os
import resource
import sys
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from duckdb.func import PythonUDFType

from core.location import is_url
from ledger.verify.engine import read_prelude

TOLD_EVERY_S = 1.0
ROWS_PER_BATCH = 10_000

SMALL_BYTES = 256 << 10
"""Each of some 50 questions takes 0.2 ms to open a file. To copy a row takes 0.01 ms, and so many bytes are 1,000 rows
at most."""

ROWS_PER_GROUP = 20_000
"""A copied file has so many rows a group: one thread reads a group."""


SHA256_HEX_CHARS = 64


class Database:
    def __init__(self, folder: Path, memory: str, threads: int) -> None:
        self._folder = folder
        self.connection = duckdb.connect(
            config={
                "memory_limit": memory,
                "threads": threads,
                "temp_directory": str(folder),
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
        self.connection.execute("SET TimeZone = 'UTC'")
        # The files of one version never change; each question would read all their footers.
        self.connection.execute("SET parquet_metadata_cache = true")
        self.connection.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
        for statement in read_prelude("duckdb"):
            self.connection.execute(statement)
        self.connection.create_function("crc32_of", _crc32_of, ["VARCHAR"], "BIGINT", type=PythonUDFType.ARROW)
        self.connection.create_function("sha256_of", _sha256_of, ["VARCHAR"], "VARCHAR", type=PythonUDFType.ARROW)
        self._datasets: dict[str, Any] = {}

    def add_delta(self, name: str, path: str, version: int, types: Mapping[str, str], files: Sequence[str]) -> None:
        """Reads files on a disk by DuckDB itself, in half the time of Arrow's reader; opens small ones once.

        Where one can't be read, each question about the table fails.

        :param types: Delta's type of each column
        """
        missing, rows, present = "NULL", "range(0)", []
        try:
            if files:
                rows = f"{name}_files"
                self._add_files(rows, path, version, files)
                present = [row[0] for row in self.connection.execute(f"DESCRIBE {rows}").fetchall()]
        except (duckdb.Error, OSError) as failed:
            # As each column too: what is known to be NULL would be left out before the error is met.
            missing = "error('{}')".format(str(failed).replace("'", "''"))
            rows = f"range(1) WHERE CAST({missing} AS boolean)"
        columns = [
            f'"{column}"' if column in present else f'CAST({missing} AS {_TYPES[kind]}) AS "{column}"'
            for column, kind in types.items()
        ]
        if "offset" in types:
            offset = '"offset"' if "offset" in present else f"CAST({missing} AS bigint)"
            columns.append(f"{offset} AS kafka_offset")
        self.add_view(name, f"SELECT {', '.join(columns)} FROM {rows}")  # noqa: S608

    def _add_files(self, name: str, path: str, version: int, files: Sequence[str]) -> None:
        if not is_url(path):
            self.add_view(name, _select_rows(self._merge_small_files(name, files)))
            return
        self._datasets[name] = _open_dataset(path, version)
        self.connection.register(name, self._datasets[name])

    def _merge_small_files(self, name: str, files: Sequence[str]) -> list[str]:
        small = {file for file in files if Path(file).stat().st_size < SMALL_BYTES}
        if len(small) < 2:
            return list(files)
        merged = str(self._folder / f"{name}.parquet")
        self.connection.execute(f"COPY ({_select_rows(sorted(small))}) TO '{merged}' (ROW_GROUP_SIZE {ROWS_PER_GROUP})")
        return [*(file for file in files if file not in small), merged]

    def add_file(self, name: str, path: str) -> None:
        self.add_view(name, f"SELECT * FROM read_parquet('{path}')")  # noqa: S608

    def add_view(self, name: str, sql: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {sql}")

    def add_result(self, name: str, sql: str) -> None:
        """Keeps the result, on disk where memory is short. Rows stay in the order of the query."""
        self.connection.execute(f"DROP TABLE IF EXISTS {name}")
        self.connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")

    def write(self, path: str, sql: str) -> None:
        reader = self.connection.sql(sql).to_arrow_reader(ROWS_PER_BATCH)
        with pq.ParquetWriter(path, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)

    def ask(self, sql: str, rows_max: int | None) -> pa.Table:
        reader = self.connection.sql(sql).to_arrow_reader(ROWS_PER_BATCH)
        batches: list[pa.RecordBatch] = []
        left = sys.maxsize if rows_max is None else rows_max
        for batch in reader:
            batches.append(batch.slice(0, left))
            left -= len(batches[-1])
            if left <= 0:
                break
        return pa.Table.from_batches(batches, reader.schema)


_TYPES = {
    "string": "VARCHAR",
    "long": "BIGINT",
    "integer": "INTEGER",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ",
    "binary": "BLOB",
}


def _open_dataset(path: str, version: int) -> Any:
    # They take as long to load as all else.
    from journal.lake import open_table
    from journal.reader import dataset_of

    return dataset_of(open_table(path, version))


def _select_rows(files: Sequence[str]) -> str:
    names = ", ".join("'{}'".format(file.replace("'", "''")) for file in files)
    return f"SELECT * FROM read_parquet([{names}], union_by_name = true, hive_partitioning = false)"  # noqa: S608


def _crc32_of(texts: pa.ChunkedArray) -> pa.Array:
    values = texts.to_pylist()
    return pa.array([None if text is None else zlib.crc32(text.encode()) for text in values], pa.int64())


def _sha256_of(texts: pa.ChunkedArray) -> pa.Array:
    """Hashes texts, none of them NULL, by OpenSSL: it takes a third of DuckDB's ``sha256`` for long ones.

    They are hashed where they lie. An object of Python's for each takes a fifth as long again.
    """
    values = pa.concat_arrays(texts.cast(pa.binary()).chunks)
    _, starts, data = values.buffers()
    ends = memoryview(starts).cast("i")[values.offset : values.offset + len(values) + 1].tolist()
    content = memoryview(data)
    digests = b"".join([hashlib.sha256(content[start:end]).digest() for start, end in pairwise(ends)])
    places = pa.array(range(0, SHA256_HEX_CHARS * len(ends), SHA256_HEX_CHARS), pa.int32()).buffers()[1]
    return pa.StringArray.from_buffers(len(values), places, pa.py_buffer(digests.hex().encode()))


class Reporter:
    """Tells the parent how far a question is, and ends this process once the parent is gone."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._connection = connection
        self._database = database
        self._lock = threading.Lock()
        self._parent = os.getppid()
        threading.Thread(target=self._report_progress, daemon=True).start()

    def send(self, kind: str, what: Any) -> None:
        with self._lock:
            self._connection.send((kind, what))

    def _report_progress(self) -> None:
        while True:
            time.sleep(TOLD_EVERY_S)
            if os.getppid() != self._parent:
                os._exit(1)
            used = resource.getrusage(resource.RUSAGE_SELF)
            self.send("progress", (self._database.connection.query_progress(), used.ru_utime + used.ru_stime))


def serve(number: int, folder: str, memory: str, threads: int) -> None:
    """Answers on the connection with this file number until the other side closes it."""
    connection = Connection(number)
    database = Database(Path(folder), memory, threads)
    reporter = Reporter(connection, database)
    while True:
        try:
            method, arguments = connection.recv()
        except (EOFError, ConnectionResetError):
            # Reset where the last report wasn't read. Not by the interpreter's own end: DuckDB's binding would tell of
            # each object that is left.
            os._exit(0)
        try:
            reporter.send("answer", getattr(database, method)(*arguments))
        except Exception as failed:
            reporter.send("failed", f"{type(failed).__name__}: {failed}")


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
