"""What Delta's log says of a file's columns, by which readers skip it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

TEXT_CHARS = 64
"""Of a longer text that ends a range so many are told."""

SURROGATES = range(0xD800, 0xE000)
"""No characters."""

RANGED = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_timestamp)
_MILLISECOND = pa.timestamp("ms", tz="UTC")


def statistics(rows: pa.Table, indexed: Sequence[str]) -> dict[str, Any]:
    """What readers skip files by: of each column the range, and how many are NULL.

    Of every column that can have a range it must be told: deltalake 1.6.6 takes one that is left out for one that no
    value is in, and skips the file.
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in indexed:
        column = rows[name] if name in rows.column_names else None
        if column is None or column.null_count == len(column):
            nulls[name] = rows.num_rows
        elif (ends := _range(column)) is not None:
            nulls[name] = column.null_count
            least[name], greatest[name] = ends
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def file_statistics(file: Path, indexed: Sequence[str]) -> dict[str, Any]:
    """What the log says of a file (`journal.append`), a row group at a time."""
    with pq.ParquetFile(file) as parquet:
        ranged = [name for name in indexed if _has_range(parquet.schema_arrow, name)]
        told = [
            statistics(parquet.read_row_group(number, columns=ranged), tuple(ranged))
            for number in range(parquet.num_row_groups)
        ]
        rows = parquet.metadata.num_rows
    least, greatest, nulls = ([one[name] for one in told] for name in ("minValues", "maxValues", "nullCount"))
    return {
        "numRecords": rows,
        "minValues": {name: min(found) for name in ranged if (found := _of(least, name))},
        "maxValues": {name: max(found) for name in ranged if (found := _of(greatest, name))},
        "nullCount": {name: sum(_of(nulls, name)) for name in ranged},
    }


def _of(told: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [one[name] for one in told if name in one]


def _has_range(schema: pa.Schema, name: str) -> bool:
    at = schema.get_field_index(name)
    return at >= 0 and any(is_one(schema.field(at).type) for is_one in RANGED)


def _range(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    kind = column.type
    if not any(is_one(kind) for is_one in RANGED):
        return None
    ends = pc.min_max(column).as_py()
    least, greatest = ends["min"], ends["max"]
    if pa.types.is_timestamp(kind):
        return _milliseconds(least, up=False), _milliseconds(greatest, up=True)
    if pa.types.is_string(kind):
        return least[:TEXT_CHARS], _at_least(greatest)
    return least, greatest


def _at_least(text: str) -> str:
    """The text, or a short one that comes after it: its beginning, with the last character that has a next one."""
    if len(text) <= TEXT_CHARS:
        return text
    beginning = text[:TEXT_CHARS].rstrip(chr(sys.maxunicode))
    if not beginning:
        return text
    following = ord(beginning[-1]) + 1
    return beginning[:-1] + chr(following if following != SURROGATES.start else SURROGATES.stop)


def _milliseconds(at: datetime, *, up: bool) -> str:
    """The log's times have milliseconds: the least is rounded down, the greatest up."""
    micros = int(pa.scalar(at, pa.timestamp("us", tz="UTC")).value)
    millis = -(-micros // 1_000) if up else micros // 1_000
    told = pa.scalar(millis, _MILLISECOND).as_py().astimezone(UTC)
    return f"{told:%Y-%m-%dT%H:%M:%S}.{millis % 1_000:03}Z"
