"""Where Spark's files lie before they are part of a table."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from core.location import Location

MAINTAIN, REBUILD = "_maintain", "_rebuild"
"""In a table's folder, one for each kind of work; a name with this beginning is no part of a table."""


@contextlib.contextmanager
def staging(table: Location, name: str) -> Iterator[Path]:
    """A folder of this machine for a table's files before they are part of it; gone afterwards, with what is in it.

    For a table on a disk it is in the table's own folder, so that a rename takes a file out of it. What a run that was
    killed left there is removed first.
    """
    if not isinstance(table, Path):
        with tempfile.TemporaryDirectory(prefix=f"payhook{name}-") as folder:
            yield Path(folder)
        return
    clear(table, name)
    try:
        (table / name).mkdir()
        yield table / name
    finally:
        clear(table, name)


def clear(table: Location, name: str) -> None:
    """Removes what a run that was killed left in a table's folder."""
    if isinstance(table, Path):
        shutil.rmtree(table / name, ignore_errors=True)
