"""Takes files off the disk that no version of a table names, and those that were replaced long enough ago."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from journal.place import Place
from journal.storage import StoredFile
from journal.stores import open_storage
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


def unused(path: Place, since: datetime | None = None) -> Files:
    """Files in a table's folder that its latest version doesn't name; only those written before ``since``."""
    names = set(DeltaTable(str(path)).get_add_actions()["path"].to_pylist())
    there = (one for one in data_files(path) if one.name not in names)
    sizes = [one.size for one in there if since is None or one.at < since]
    return Files(len(sizes), sum(sizes))


def vacuum(session: Session, path: Place, now: datetime, since: datetime) -> Files:
    """What was taken off the disk: files that no version names and that were written before ``since``, and files that
    were replaced before it.
    """
    before = unused(path)
    if not unused(path, since).count:
        return Files()
    hours = math.ceil((now - since) / timedelta(hours=1))
    _vacuum(session.get(), path, hours)
    return before - unused(path)


def _vacuum(session: SparkSession, path: Place, hours: int) -> None:
    session.sql(f"VACUUM delta.`{path}` RETAIN {hours} HOURS").collect()


def data_files(path: Place) -> Iterator[StoredFile]:
    """A table's data files, whether it names them or not."""
    for one in open_storage(path).files():
        if one.name.endswith(".parquet") and not one.name.startswith(("_", ".")):
            yield one
