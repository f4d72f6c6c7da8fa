"""Rows of a Delta table that somebody changed in its files, while its log stays as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Rows = list[dict[str, Any]]


def rewrite(table: Path, change: Callable[[Rows], object]) -> None:
    """Changes the rows of a table's newest data file in place, and the size that the log says of it."""
    file = max(table.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    before = pq.read_table(file)
    rows = before.to_pylist()
    change(rows)
    file.unlink()
    pq.write_table(pa.Table.from_pylist(rows, before.schema), file)
    for entry in (table / "_delta_log").glob("*.json"):
        _say_size(entry, file)


def _say_size(entry: Path, file: Path) -> None:
    lines = [json.loads(line) for line in entry.read_text("utf-8").splitlines()]
    for line in lines:
        if line.get("add", {}).get("path") == file.name:
            line["add"]["size"] = file.stat().st_size
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    if text != entry.read_text("utf-8"):
        entry.write_text(text, "utf-8")
