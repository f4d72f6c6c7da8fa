"""Stores a table's files: on a local disk and on an object store alike."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from core.clock import from_micros
from core.errors import PayhookError
from core.location import Location, is_url, make_folder
from core.store import options_of

_NUMBERED = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a listing shows it: its name in its folder, its size in bytes, and when it was written (UTC)."""

    name: str
    size: int
    at: datetime


class StoreFailed(PayhookError, OSError):
    def __init__(self, place: str, problem: str) -> None:
        self.place = place
        self.problem = problem
        super().__init__(f"{place}: {problem}")


class Storage(Protocol):
    """The files of one table; names are relative to its folder, with ``/`` between their parts.

    Every method raises `OSError` where the place can't be reached, refuses, or doesn't answer in time.
    """

    def put_new(self, name: str, data: bytes) -> None:
        """Puts a file whole, or not at all; on return it outlasts a loss of power.

        Of any number of callers, in any number of processes, one puts it; the others get `FileExistsError`.

        :raises FileExistsError: one is there, and it isn't this one
        :raises OSError: it may have been put, or may yet be
        """

    def put_file(self, name: str, data: bytes | pa.Buffer) -> None:
        """Puts a file under a name that no other writer uses; on return it outlasts a loss of power."""

    def adopt_file(self, staged: Path, name: str) -> None:
        """Takes a file of this machine in, under a name that no other writer uses; ``staged`` is gone afterwards.

        Its age counts from then on: maintenance removes old files that no commit names.
        """

    def read(self, name: str) -> bytes:
        """
        :raises FileNotFoundError: none is there
        """

    def delete(self, names: Sequence[str]) -> None:
        """Deletes those of the files that are there; on return they stay deleted. A failure may leave some of them."""

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        """The files right in a folder whose names come after ``after``, in any order; none of a folder that isn't."""


class DiskStorage:
    """A table's folder on a disk, or on a mount that has hard links.

    A file is put where none is by a link to a whole one: it fails if the name is taken.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put_new(self, name: str, data: bytes) -> None:
        file = self._folder / name
        staged = file.with_name(f".{file.name}.{uuid.uuid4()}.tmp")
        try:
            _write_file(staged, data)
            os.link(staged, file)
            sync_to_disk(file.parent)
        finally:
            with contextlib.suppress(OSError):
                staged.unlink()

    def put_file(self, name: str, data: bytes | pa.Buffer) -> None:
        _write_file(self._folder / name, data)

    def adopt_file(self, staged: Path, name: str) -> None:
        os.utime(staged)
        sync_to_disk(staged)
        try:
            staged.rename(self._folder / name)
        except OSError as failed:
            if failed.errno != errno.EXDEV:
                raise
            self._copy(staged, name)
        sync_to_disk(self._folder)

    def _copy(self, staged: Path, name: str) -> None:
        copied = self._folder / f".{name}.{uuid.uuid4()}.tmp"
        try:
            shutil.copyfile(staged, copied)
            sync_to_disk(copied)
            copied.rename(self._folder / name)
        finally:
            copied.unlink(missing_ok=True)
        staged.unlink()

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def delete(self, names: Sequence[str]) -> None:
        files = [self._folder / name for name in names]
        for file in files:
            file.unlink(missing_ok=True)
        for folder in {file.parent for file in files}:
            sync_to_disk(folder)

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        try:
            entries = os.scandir(self._folder / folder)
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                if entry.name > after and (found_stat := _stat_file(entry)) is not None:
                    yield StoredFile(entry.name, found_stat.st_size, from_micros(found_stat.st_mtime_ns // 1_000))


def _stat_file(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat() if entry.is_file() else None
    except FileNotFoundError:
        return None


def _write_file(file: Path, data: bytes | pa.Buffer) -> None:
    """Writes a new file, which is on disk on return.

    :raises FileExistsError: one is there
    """
    with file.open("xb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())


def sync_to_disk(place: Path) -> None:
    """Waits until a file, or what a folder holds, is on disk."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_storage(place: Location | str) -> Storage:
    text = str(place)
    if not is_url(text):
        return DiskStorage(Path(text))
    # Its library is loaded only where a table is on an object store.
    from journal.objects import ObjectStorage

    return ObjectStorage(text)


def make_numbered_name(number: int) -> str:
    return f"{number:020}.json"


def numbers_in(storage: Storage, folder: str = "", after: str = "") -> list[int]:
    """Lists the numbers of a folder's files whose names come after ``after``, in order."""
    matches = (_NUMBERED.fullmatch(file.name) for file in storage.files(folder, after))
    return sorted(int(name[1]) for name in matches if name)


def file_system(place: Location | str) -> FileSystem:
    text = str(place)
    if is_url(text):
        return PyFileSystem(DeltaStorageHandler(text, {**options_of(text)}))
    return SubTreeFileSystem(text, LocalFileSystem())


RACE_WRITERS = 4
RACE_NAMES = 50
RACE_WAIT_S_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Race:
    """The result of `run_race`: whether a place gives each name to one writer only, which every commit of the lake
    rests on.

    ``winners``: how many names each writer was given. ``twice``: names that were given to several, or that hold another
    writer's file; ``nobody``: names that all were refused. ``listed``: whether a listing that begins after a name has
    the later names and no others, by which readers find a log's end.
    """

    winners: tuple[int, ...]
    twice: int
    nobody: int
    listed: bool

    @property
    def is_exclusive(self) -> bool:
        return not self.twice and not self.nobody and self.listed


def run_race(lake: Location, names: int = RACE_NAMES) -> Race:
    """Lets writers put different files under the same names at the same moments; nothing of it stays.

    :raises OSError: the place can't be reached, or refuses
    """
    folder = lake / f"_probe-{uuid.uuid4().hex}"
    make_folder(str(folder))
    together = threading.Barrier(RACE_WRITERS)
    with ThreadPoolExecutor(RACE_WRITERS) as pool:
        won = list(pool.map(lambda writer: _put_all(folder, writer, names, together), range(RACE_WRITERS)))
    result = _race_of(folder, won, names)
    _remove_files(folder, names)
    return result


def _put_all(folder: Location, writer: int, names: int, together: threading.Barrier) -> frozenset[int]:
    storage, won = open_storage(folder), set()
    try:
        for name in range(names):
            together.wait(RACE_WAIT_S_MAX)
            with contextlib.suppress(FileExistsError):
                storage.put_new(str(name), str(writer).encode())
                won.add(name)
    except threading.BrokenBarrierError as other_failed:
        raise OSError(f"{folder}: another writer failed") from other_failed
    except OSError:
        together.abort()
        raise
    return frozenset(won)


def _race_of(folder: Location, won: Sequence[frozenset[int]], names: int) -> Race:
    storage, twice, nobody = open_storage(folder), 0, 0
    for name in range(names):
        having = [writer for writer, its in enumerate(won) if name in its]
        nobody += not having
        twice += len(having) > 1 or (len(having) == 1 and storage.read(str(name)) != str(having[0]).encode())
    names_there, middle = sorted(file.name for file in storage.files()), str(names // 2)
    later = sorted(file.name for file in storage.files(after=middle))
    listed = later == [name for name in names_there if name > middle]
    return Race(tuple(map(len, won)), twice, nobody, listed)


def _remove_files(folder: Location, names: int) -> None:
    storage = open_storage(folder)
    storage.delete([str(name) for name in range(names)])
    if isinstance(folder, Path):
        folder.rmdir()
