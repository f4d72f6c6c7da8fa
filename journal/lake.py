"""Opens and makes Delta tables by delta-rs.

Arrow isn't loaded here: the process that makes a checkpoint opens tables and reads no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from core.errors import PayhookError
from core.location import is_url, make_folder
from core.store import options_of
from journal.errors import problem_of

if TYPE_CHECKING:
    import pyarrow as pa


class TableUnreadable(PayhookError, DeltaError):
    """No table can be read there: its log or a file is missing or damaged, or its store doesn't answer.

    It is also a delta-rs error, for callers that expect one.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"the table {path} can't be read: {problem}")


class TableOutdated(PayhookError, DeltaError):
    def __init__(self, path: str, lacks: str) -> None:
        self.path = path
        self.lacks = lacks
        super().__init__(
            f"the table {path} lacks {lacks}, so code from before release 0.1.0 made it. No release reads it, and "
            f"nothing was changed: move its data folder away and begin with an empty one"
        )


STORE_OPTIONS = {"max_retries": "3", "retry_timeout": "15s"}
"""delta-rs itself tries ten times within three minutes. A stream that can't reach its store says so at once, pauses,
and tries again by itself; a person who waits for an answer would rather have it."""


def make_storage_options(path: str) -> dict[str, str] | None:
    return {**STORE_OPTIONS, **options_of(path)} if is_url(path) else None


def create_table(path: str, schema: pa.Schema, name: str, configuration: Mapping[str, str]) -> DeltaTable:
    """Makes a table where none is.

    :raises DeltaError, OSError: another process made one first, or it can't be made
    """
    make_folder(path)
    return DeltaTable.create(
        path, schema, mode="error", name=name, configuration=configuration, storage_options=make_storage_options(path)
    )


def ensure_table(path: str, schema: pa.Schema, name: str, configuration: Mapping[str, str]) -> None:
    """Makes a table unless one is there, or another process makes it at this moment.

    :raises TableOutdated: the one there lacks columns
    :raises DeltaError, OSError: it can't be made
    """
    try:
        if not has_table(path):
            create_table(path, schema, name, configuration)
            return
    except DeltaError:
        if not has_table(path):
            raise
    if missing := missing_columns(open_table(path), schema):
        raise TableOutdated(path, f"the columns {', '.join(missing)}")


def missing_columns(table: DeltaTable, schema: pa.Schema) -> list[str]:
    known = {field.name for field in table.schema().fields}
    return [name for name in schema.names if name not in known]


def open_table(path: str, version: int | None = None) -> DeltaTable:
    """Opens a table at ``version``, or at the latest.

    :raises TableUnreadable, OSError: none can be read there
    """
    try:
        return DeltaTable(path, version=version, storage_options=make_storage_options(path))
    except DeltaError as unreadable:
        raise TableUnreadable(path, problem_of(unreadable)) from unreadable


def has_table(path: str) -> bool:
    """
    :raises OSError: the place can't be reached
    """
    return DeltaTable.is_deltatable(path, make_storage_options(path))
