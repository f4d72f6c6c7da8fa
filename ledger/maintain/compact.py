"""Rewrites files on Spark: the same rows, or some of them, in one sorted file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from core.errors import PayhookError
from core.location import Location
from journal.rewrite import DataFile, Snapshot

ROW_GROUP_BYTES = 8 << 20
"""Readers skip row groups by their range of seq, or of hashes: one of some 20,000 rows is what a window needs."""

CHECKED = ("rows", "sum")


class RowsDiffer(PayhookError):
    """Rewritten files don't hold what the old ones held. They weren't made part of the table."""

    def __init__(self, path: Location, wanted: object, found: object) -> None:
        self.path = path
        self.wanted = wanted
        self.found = found
        super().__init__(
            f"table {path}: the rewritten rows differ from those that were read ({found} instead of {wanted}). Nothing "
            "was changed. Is a disk failing? Look at the table with `payhook verify` before anything else."
        )


@dataclass(frozen=True, slots=True)
class Rewritten:
    """``files`` are staged; none where no row was kept."""

    files: list[Path]
    rows: int


def rewrite(
    session: SparkSession,
    before: Snapshot,
    old: Sequence[DataFile],
    sorted_by: Sequence[str],
    staging: Path,
    keep: Callable[[DataFrame], DataFrame] | None = None,
) -> Rewritten:
    """One file in ``staging`` with the rows of ``old``, or with those that ``keep`` leaves.

    What was written is read again: the number of rows and a checksum over all columns are those of what was read.

    :raises RowsDiffer: see there
    """
    staged = staging / "rows"
    shutil.rmtree(staged, ignore_errors=True)
    wanted = Observation()
    rows = read(session, before, old) if keep is None else keep(read(session, before, old))
    sorted_rows = rows.observe(wanted, *_checked(rows)).coalesce(1).sortWithinPartitions(*sorted_by)
    writer = sorted_rows.write.option("compression", "zstd").option("parquet.block.size", ROW_GROUP_BYTES)
    writer.parquet(str(staged))
    found = sorted(staged.glob("part-*.parquet"))
    held = session.read.schema(rows.schema).parquet(*map(str, found)) if found else rows.limit(0)
    _compare(before.path, wanted.get, held, None if keep is not None else sum(one.rows for one in old))
    count = int(wanted.get["rows"])
    return Rewritten(found if count else [], count)


def read(session: SparkSession, before: Snapshot, files: Sequence[DataFile]) -> DataFrame:
    """The rows of some of a table's files; a column that a file of older code lacks reads as NULL."""
    schema = StructType.fromJson(json.loads(before.schema_json))
    reader = session.read.schema(schema).option("recursiveFileLookup", "true")
    return reader.parquet(*(str(before.path / one.name) for one in files))


def _checked(rows: DataFrame) -> tuple[Column, Column]:
    a_row = fn.xxhash64(*rows.columns).cast("decimal(20,0)")
    return fn.count(fn.lit(1)).alias("rows"), fn.sum(a_row).alias("sum")


def _compare(path: Location, wanted: dict[str, object], held: DataFrame, rows: int | None) -> None:
    found = held.agg(*_checked(held)).collect()[0].asDict()
    if any(found[name] != wanted[name] for name in CHECKED):
        raise RowsDiffer(path, wanted, found)
    if rows is not None and found["rows"] != rows:
        raise RowsDiffer(path, f"{rows} rows by the log", found)
