"""Small files into large ones: which are rewritten together, and how Spark rewrites them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from core.errors import PayhookError
from core.location import Location
from journal.rewrite import DataFile, Snapshot

FILES_MAX = 5_000
"""Of one rewrite. Its commit names each, and the table's writer reads that commit before its own next one: 1 MB, about
10 ms."""

PASSES_MAX = 4
"""What came of 5,000 files may be small itself, and is put together in the next pass."""

MS_A_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """How large a file is made: one half as large, in rows or bytes, is left as it is.

    Fewer small files than ``files_min`` cost readers less than a rewrite, unless they make a large one.
    """

    rows_max: int = 500_000
    bytes_max: int = 128 << 20
    files_min: int = 50

    def is_small(self, file: DataFile) -> bool:
        return file.rows * 2 < self.rows_max and file.size * 2 < self.bytes_max


def plan_groups(files: Iterable[DataFile], limits: CompactionLimits, *, by_day: bool = False) -> list[list[DataFile]]:
    """Groups small files that follow one another, by their range where they have one, else by age.

    No other file's range lies between two of a group, so that files stay in the order in which readers read.

    :param by_day: a group's files are all of one day (UTC), so that they can be deleted together later
    """
    groups = [_FileGroup(limits, by_day)]
    for file in sorted(files, key=lambda file: (file.first or 0, file.modified_ms, file.name)):
        if not limits.is_small(file):
            groups.append(_FileGroup(limits, by_day))
        elif not groups[-1].add_if_fits(file):
            groups.append(_FileGroup(limits, by_day))
            groups[-1].add_if_fits(file)
    return [group.files for group in groups if group.is_worth_it]


class _FileGroup:
    def __init__(self, limits: CompactionLimits, by_day: bool) -> None:
        self.files: list[DataFile] = []
        self._limits = limits
        self._by_day = by_day
        self._rows = self._bytes = 0
        self._is_full = False

    @property
    def is_worth_it(self) -> bool:
        return len(self.files) >= (2 if self._is_full else self._limits.files_min)

    def add_if_fits(self, file: DataFile) -> bool:
        rows, size = self._rows + file.rows, self._bytes + file.size
        if self.files and not self._has_room_for(file, rows, size):
            return False
        self.files.append(file)
        self._rows, self._bytes = rows, size
        return True

    def _has_room_for(self, file: DataFile, rows: int, size: int) -> bool:
        if self._by_day and file.modified_ms // MS_A_DAY != self.files[-1].modified_ms // MS_A_DAY:
            return False
        self._is_full = len(self.files) == FILES_MAX or rows > self._limits.rows_max or size > self._limits.bytes_max
        return not self._is_full


CONF = {
    # What delta-rs and this code write; Spark's own default is an older kind.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Thousands of files are named one by one: to ask for each here takes microseconds, a task each would take seconds.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    # Most files hold fewer rows: buffers for 4,096 in each of 45 columns, file after file, cost a fifth more.
    "spark.sql.parquet.columnarReaderBatchSize": "256",
}


class LazySparkSession:
    def __init__(self, open_session: Callable[[], SparkSession]) -> None:
        self._open = open_session
        self._session: SparkSession | None = None

    def get_session(self) -> SparkSession:
        if self._session is None:
            self._session = self._open()
            for name, value in CONF.items():
                self._session.conf.set(name, value)
        return self._session

    def __enter__(self) -> LazySparkSession:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None


ROW_GROUP_BYTES = 8 << 20
"""Readers skip row groups by their range of seq, or of hashes: one of some 20,000 rows is what a window needs."""

CHECKED = ("rows", "sum")


class RowsDiffer(PayhookError):
    """Raised when rewritten files don't hold what the old ones held. They don't become part of the table."""

    def __init__(self, path: Location, wanted: object, found: object) -> None:
        self.path = path
        self.wanted = wanted
        self.found = found
        super().__init__(
            f"table {path}: the rewritten rows differ from those that were read ({found} instead of {wanted}). Nothing "
            "was changed. Is a disk failing? Look at the table with `payhook verify` before anything else."
        )


@dataclass(frozen=True, slots=True)
class RewriteResult:
    files: list[Path]
    rows: int


def rewrite_files(
    session: SparkSession,
    before: Snapshot,
    old: Sequence[DataFile],
    sorted_by: Sequence[str],
    staging: Path,
    keep: Callable[[DataFrame], DataFrame] | None = None,
) -> RewriteResult:
    """Writes one file into ``staging`` with the rows of ``old``, or with those that ``keep`` leaves.

    It reads the written rows again and compares their number and a checksum over all columns.

    :raises RowsDiffer: they aren't the rows that were read
    """
    staged = staging / "rows"
    shutil.rmtree(staged, ignore_errors=True)
    observed = Observation()
    rows = read_files(session, before, old) if keep is None else keep(read_files(session, before, old))
    sorted_rows = rows.observe(observed, *_build_checksums(rows)).coalesce(1).sortWithinPartitions(*sorted_by)
    writer = sorted_rows.write.option("compression", "zstd").option("parquet.block.size", ROW_GROUP_BYTES)
    writer.parquet(str(staged))
    written = sorted(staged.glob("part-*.parquet"))
    written_rows = session.read.schema(rows.schema).parquet(*map(str, written)) if written else rows.limit(0)
    _compare_rows(before.path, observed.get, written_rows, None if keep is not None else sum(file.rows for file in old))
    count = int(observed.get["rows"])
    return RewriteResult(written if count else [], count)


def read_files(session: SparkSession, before: Snapshot, files: Sequence[DataFile]) -> DataFrame:
    schema = StructType.fromJson(json.loads(before.schema_json))
    reader = session.read.schema(schema).option("recursiveFileLookup", "true")
    return reader.parquet(*(str(before.path / file.name) for file in files))


def _build_checksums(rows: DataFrame) -> tuple[Column, Column]:
    a_row = fn.xxhash64(*rows.columns).cast("decimal(20,0)")
    return fn.count(fn.lit(1)).alias("rows"), fn.sum(a_row).alias("sum")


def _compare_rows(path: Location, expected: dict[str, object], written_rows: DataFrame, rows: int | None) -> None:
    sums = written_rows.agg(*_build_checksums(written_rows)).collect()[0].asDict()
    if any(sums[name] != expected[name] for name in CHECKED):
        raise RowsDiffer(path, expected, sums)
    if rows is not None and sums["rows"] != rows:
        raise RowsDiffer(path, f"{rows} rows by the log", sums)
