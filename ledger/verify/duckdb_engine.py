"""DuckDB as the engine of a verification on one machine: a child process that is watched."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from core.errors import PayhookError
from core.location import Location
from journal.lake import open_table
from ledger.verify.engine import Read

FOLDER = "verify-"
"""Begins the name of a run's folder for what doesn't fit into memory, in the data folder; its process id follows."""

STILL_S_MAX = 120.0
"""A question that neither gets on nor uses a processor for so long has stopped for good (duckdb#24961)."""

MOVED_CPU_S = 0.05
"""Less than this between two reports is what a process uses that waits."""

END_S_MAX = 5.0
POLL_S = 1.0
ROWS_PER_BATCH = 2_000
"""Of bodies, which are large."""


class EngineFailed(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"DuckDB failed: {' '.join(problem.split())}")


class EngineStoodStill(EngineFailed):
    """Raised when a question got no further. DuckDB was killed; the next question starts another one."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it stood still for {seconds:.0f} s and was killed; run payhook verify again")


class DuckDb:
    """Implements `SqlEngine` by a child process, which is started again after it has died, with all named tables."""

    joined = "string_agg(row_hash, '' ORDER BY seq)"
    portion_rows = 100_000
    """Their postings are some 80 MB: of more of them most are no longer in a processor's cache when the other side
    comes, and the memory of a verification (``ledger.verify.memory``) doesn't hold many more."""

    def __init__(self, folder: Path, memory: str, still_s_max: float = STILL_S_MAX) -> None:
        """
        :param folder: of this run alone, for what doesn't fit into memory
        :param memory: how much DuckDB may take, as ``1g``
        """
        self._folder = folder
        self._memory = memory if memory[-1:].lower() == "b" else f"{memory}b"
        self._still_s_max = still_s_max
        self._made: dict[str, tuple[str, tuple[Any, ...]]] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._files = 0
        self.progress: Callable[[float], None] = lambda percent: None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._child is not None:
            try:
                self._child.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._connection = self._child = None

    def add_delta(self, name: str, location: Location | str, version: int) -> None:
        table = open_table(str(location), version)
        types = {field.name: str(field.type.type) for field in table.schema().fields}
        self._call_and_record(name, "add_delta", name, str(location), version, types, table.file_uris())

    def add_table(self, name: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        path = self._new_file()
        # Keys, most of them: a dictionary of them takes as long as all else.
        with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
            for batch in batches:
                writer.write_batch(batch)
        self._call_and_record(name, "add_file", name, path)

    def add_view(self, name: str, sql: str) -> None:
        self._call_and_record(name, "add_view", name, sql)

    def add_result(self, name: str, sql: str) -> None:
        self._call_and_record(name, "add_result", name, sql)

    def add_read(self, name: str, sql: str, read: Read, columns: str) -> None:
        source = self._new_file()
        self._call_child("write", source, sql)
        with pq.ParquetFile(source) as rows:
            facts = pa.Table.from_batches(list(read(rows.iter_batches(ROWS_PER_BATCH))), parse_schema(columns))
        Path(source).unlink()
        self.add_table(name, facts.to_batches(), facts.schema)

    def ask(self, sql: str, rows_max: int | None = None) -> list[dict[str, Any]]:
        table: pa.Table = self._call_child("ask", sql, rows_max)
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def _new_file(self) -> str:
        self._files += 1
        return str(self._folder / f"{self._files}.parquet")

    def _call_and_record(self, name: str, method: str, *arguments: Any) -> Any:
        answer = self._call_child(method, *arguments)
        self._made.pop(name, None)
        self._made[name] = (method, arguments)
        return answer

    def _call_child(self, method: str, *arguments: Any) -> Any:
        if self._child is None:
            self._start_child()
            for method_made, of_it in list(self._made.values()):
                self._send_call(method_made, of_it)
        return self._send_call(method, arguments)

    def _start_child(self) -> None:
        parent_end, child_end = Pipe()
        command = [sys.executable, "-m", "ledger.verify.duckdb_child", str(child_end.fileno()), str(self._folder)]
        threads = str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        path = os.pathsep.join(
            [*(folder for folder in sys.path if folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        self._child = subprocess.Popen(
            [*command, self._memory, threads], pass_fds=[child_end.fileno()], env={**os.environ, "PYTHONPATH": path}
        )
        child_end.close()
        self._connection = parent_end

    def _send_call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        assert self._connection is not None
        moved_at, before, used_before_s = time.monotonic(), -1.0, 0.0
        try:
            self._connection.send((method, arguments))
            while True:
                if self._connection.poll(POLL_S):
                    kind, what = self._connection.recv()
                    if kind == "answer":
                        return what
                    if kind == "failed":
                        raise EngineFailed(what)
                    percent, used_s = what
                    self.progress(percent)
                    if percent != before or used_s > used_before_s + MOVED_CPU_S:
                        moved_at, before, used_before_s = time.monotonic(), percent, used_s
                if time.monotonic() - moved_at > self._still_s_max:
                    raise EngineStoodStill(self._kill_child(moved_at))
        except (EOFError, OSError) as ended:
            self._kill_child(moved_at)
            raise EngineFailed(
                f"its process ended while it was asked ({type(ended).__name__}); is memory short?"
            ) from ended

    def _kill_child(self, since: float) -> float:
        if self._child is not None:
            self._child.kill()
        self.close()
        return time.monotonic() - since


def parse_schema(columns: str) -> pa.Schema:
    types = {"bigint": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}
    return pa.schema([(name, types[kind]) for name, kind in (column.split() for column in columns.split(", "))])


@contextlib.contextmanager
def duckdb_engine(data_dir: Path, memory: str) -> Iterator[DuckDb]:
    """Opens an engine with a folder of its own in the data folder, which only its owner may read."""
    for folder_left in data_dir.glob(f"{FOLDER}*"):
        process = folder_left.name.removeprefix(FOLDER).partition("-")[0]
        if process.isdigit() and not psutil.pid_exists(int(process)):
            shutil.rmtree(folder_left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{FOLDER}{os.getpid()}-", dir=data_dir) as folder:
        engine = DuckDb(Path(folder), memory)
        try:
            yield engine
        finally:
            engine.close()
