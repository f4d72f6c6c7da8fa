"""Takes files off the disk that no version of a table names, and those that were replaced long enough ago."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from core.clock import from_micros
from ledger.maintain.session import Session

BEHIND_MAX = timedelta(days=7)
"""For a reading stream that is further behind no file is kept: it may never come back, and then begins by seq."""

MARGIN = timedelta(hours=1)
"""Between a row's decision and its file there are seconds; clocks may differ."""


@dataclass(frozen=True, slots=True)
class Files:
    """A number of files, and their bytes."""

    count: int = 0
    bytes: int = 0

    def __sub__(self, other: Files) -> Files:
        return Files(self.count - other.count, self.bytes - other.bytes)


def keep_since(now: datetime, retention: timedelta, behind: datetime | None) -> datetime:
    """What was replaced after that stays: for readers that began before, and for streams that are ``behind``."""
    since = now - retention
    if behind is not None:
        since = min(since, max(behind, now - BEHIND_MAX) - MARGIN)
    return since


def unused(path: Path, since: datetime | None = None) -> Files:
    """Files in a table's folder that its latest version doesn't name; only those written before ``since``."""
    names = set(DeltaTable(str(path)).get_add_actions()["path"].to_pylist())
    sizes = [size for name, size, at in _on_disk(path) if name not in names and (since is None or at < since)]
    return Files(len(sizes), sum(sizes))


def vacuum(session: Session, path: Path, now: datetime, since: datetime) -> Files:
    """What was taken off the disk: files that no version names and that were written before ``since``, and files that
    were replaced before it.
    """
    before = unused(path)
    if not unused(path, since).count:
        return Files()
    hours = math.ceil((now - since) / timedelta(hours=1))
    _vacuum(session.get(), path, hours)
    return before - unused(path)


def _vacuum(session: SparkSession, path: Path, hours: int) -> None:
    session.sql(f"VACUUM delta.`{path}` RETAIN {hours} HOURS").collect()


def _on_disk(path: Path) -> Iterator[tuple[str, int, datetime]]:
    """Name, size and age of a table's data files."""
    with os.scandir(path) as found:
        for one in found:
            if one.name.endswith(".parquet") and not one.name.startswith(("_", ".")):
                told = one.stat()
                yield one.name, told.st_size, from_micros(told.st_mtime_ns // 1_000)
