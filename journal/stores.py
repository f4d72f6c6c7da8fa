"""The storage of a place: by its name, a disk's or an object store's."""

from __future__ import annotations

from pathlib import Path

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from core.location import Location, is_url
from journal.disk import DiskStorage
from journal.objects import ObjectStorage
from journal.storage import Storage


def open_storage(place: Location | str) -> Storage:
    """The files of the table at a place."""
    text = str(place)
    return ObjectStorage(text) if is_url(text) else DiskStorage(Path(text))


def file_system(place: Location | str) -> FileSystem:
    """The same files for Arrow, which reads parts of them."""
    text = str(place)
    if is_url(text):
        return PyFileSystem(DeltaStorageHandler(text))
    return SubTreeFileSystem(text, LocalFileSystem())
