"""Takes files off the disk that no version of a table names, and those that were replaced long enough ago."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from deltalake import DeltaTable

from core.location import Location
from journal.storage import StoredFile
from journal.stores import open_storage

BEHIND_MAX = timedelta(days=7)
"""For a reading stream that is further behind no file is kept: it may never come back, and then begins by seq."""

MARGIN = timedelta(hours=1)
"""Between a row's decision and its file there are seconds; clocks may differ."""


@dataclass(frozen=True, slots=True)
class Files:
    """A number of files, and their bytes."""

    count: int = 0
    bytes: int = 0


def keep_since(now: datetime, retention: timedelta, behind: datetime | None) -> datetime:
    """What was replaced after that stays: for readers that began before, and for streams that are ``behind``."""
    since = now - retention
    if behind is not None:
        since = min(since, max(behind, now - BEHIND_MAX) - MARGIN)
    return since


def unused(path: Location) -> Files:
    """Files in a table's folder that its latest version doesn't name."""
    names = set(DeltaTable(str(path)).get_add_actions()["path"].to_pylist())
    sizes = [one.size for one in data_files(path) if one.name not in names]
    return Files(len(sizes), sum(sizes))


def expired(path: Location, now: datetime, since: datetime) -> dict[str, int]:
    """Files that were replaced before ``since``, and files that no version names and that were written before it, with
    their sizes. delta-rs tells them, by the log and by a listing; nothing is changed.
    """
    hours = math.ceil((now - since) / timedelta(hours=1))
    names = set(DeltaTable(str(path)).vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True))
    return {one.name: one.size for one in data_files(path) if one.name in names}


def vacuum(path: Location, now: datetime, since: datetime) -> Files:
    """Deletes what is `expired`; returns what that was.

    By name, and not by Delta's own VACUUM: a JVM would be started for it through each round of the day for which
    replaced files stay, and its commits belong into no log that is being written (docs/decisions/0021).
    """
    sizes = expired(path, now, since)
    if sizes:
        open_storage(path).delete_all(sorted(sizes))
    return Files(len(sizes), sum(sizes.values()))


def data_files(path: Location) -> Iterator[StoredFile]:
    """A table's data files, whether it names them or not."""
    for one in open_storage(path).files():
        if one.name.endswith(".parquet") and not one.name.startswith(("_", ".")):
            yield one
