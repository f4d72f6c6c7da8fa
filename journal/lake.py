"""Delta tables as delta-rs opens, makes and reads them.

Arrow is loaded where rows are read: the process that makes a checkpoint opens tables and reads none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from core.place import is_url, make_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake.table import FilePruningPredicateType

    from core.arrow import datasets as ds

STORE_OPTIONS = {"max_retries": "3", "retry_timeout": "15s"}
"""delta-rs itself tries ten times within three minutes. A stream that can't reach its store says so at once, pauses,
and tries again by itself; a person who waits for an answer would rather have it."""


def options(path: str) -> dict[str, str] | None:
    """How delta-rs asks the store of a table; the store's address and keys are the process's own variables."""
    return STORE_OPTIONS if is_url(path) else None


def create_table(path: str, schema: pa.Schema, name: str, configuration: Mapping[str, str]) -> DeltaTable:
    """Makes a table where none is.

    :raises DeltaError, OSError: another process made one first, or it can't be made
    """
    make_folder(path)
    return DeltaTable.create(
        path, schema, mode="error", name=name, configuration=configuration, storage_options=options(path)
    )


def ensure_table(path: str, schema: pa.Schema, name: str, configuration: Mapping[str, str]) -> None:
    """Makes a table unless one is there, or another process makes it at this moment.

    :raises DeltaError, OSError: it can't be made
    """
    if has_table(path):
        return
    try:
        create_table(path, schema, name, configuration)
    except DeltaError:
        if not has_table(path):
            raise


def open_table(path: str, version: int | None = None) -> DeltaTable:
    """A table at ``version``, or at the latest.

    :raises DeltaError, OSError: none can be read there
    """
    return DeltaTable(path, version=version, storage_options=options(path))


def has_table(path: str) -> bool:
    """Whether a table is there.

    :raises OSError: the place can't be reached
    """
    return DeltaTable.is_deltatable(path, options(path))


def dataset_of(table: DeltaTable, file_pruning_predicate: FilePruningPredicateType | None = None) -> ds.Dataset:
    """The rows of a table at the version it is open at; of the files only that the predicate doesn't rule out.

    delta-rs's own dataset opens files through Python. Arrow's threads read ahead, and go on while a process ends:
    one that then enters the interpreter brings the process down by a signal, whatever it had come to.
    An object store has no other way in; there delta-rs's is kept.
    """
    from pyarrow.fs import FileSystem, SubTreeFileSystem

    import core.arrow  # noqa: F401 - loads Arrow's datasets without pandas, before delta-rs loads them

    disk = None
    if not is_url(table.table_uri):
        root, folder = FileSystem.from_uri(table.table_uri)
        disk = SubTreeFileSystem(folder, root)
    return table.to_pyarrow_dataset(filesystem=disk, file_pruning_predicate=file_pruning_predicate)
