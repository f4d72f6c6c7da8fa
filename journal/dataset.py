"""A table's rows for Arrow to read: on a local disk without a line of Python between Arrow and the files."""

from __future__ import annotations

from deltalake import DeltaTable
from deltalake.table import FilePruningPredicateType
from pyarrow.fs import FileSystem, SubTreeFileSystem

from core.arrow import datasets as ds
from core.location import is_url


def dataset_of(table: DeltaTable, file_pruning_predicate: FilePruningPredicateType | None = None) -> ds.Dataset:
    """The rows of a table at the version it is open at; of the files only that the predicate doesn't rule out.

    delta-rs's own dataset opens files through Python. Arrow's threads read ahead, and go on while a process ends:
    one that then enters the interpreter brings the process down by a signal, whatever it had come to.
    An object store has no other way in; there delta-rs's is kept.
    """
    return table.to_pyarrow_dataset(filesystem=_disk_of(table.table_uri), file_pruning_predicate=file_pruning_predicate)


def _disk_of(table_uri: str) -> FileSystem | None:
    if is_url(table_uri):
        return None
    disk, folder = FileSystem.from_uri(table_uri)
    return SubTreeFileSystem(folder, disk)
