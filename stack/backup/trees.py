"""Trees of files that backups are made in and a lake is put together in: on a disk, or on an object store."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path
from typing import Protocol, TypeVar, cast

from core.clock import from_rfc3339, to_rfc3339
from core.files import try_lock, write_whole
from core.location import LakeUrl, Location
from journal.objects import ObjectStorage
from journal.storage import sync_to_disk

T = TypeVar("T")

CHUNK_BYTES = 1 << 20
FILES_AT_ONCE = 8
"""Each has some parts of `journal.objects.PART_BYTES` in memory."""

LOCK = ".lock"
LOCK_H_MAX = 24
"""The lock of another machine that died with it is taken over after so many hours."""


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """``size`` in bytes; ``sha256`` is hexadecimal."""

    size: int
    sha256: str


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Writable(Protocol):
    def write(self, data: bytes, /) -> object: ...


class FileTree(Protocol):
    """Files under one location; a path has ``/`` between its parts. Every method raises `OSError` where it fails."""

    @property
    def place(self) -> Location: ...

    def names(self) -> list[str]: ...

    def has_file(self, path: str) -> bool: ...

    def open(self, path: str) -> AbstractContextManager[Readable]:
        """Opens a file as it is stored: not as it may still be in this machine's memory.

        :raises FileNotFoundError: none is there
        """

    def copy_file(self, path: str, source: Readable) -> CopiedFile:
        """Copies an open file under a name that isn't taken; on return it outlasts a loss of power."""

    def share_file(self, path: str, other: str) -> bool:
        """Makes a file of the tree available under another path too, without its bytes passing through here."""

    def write(self, path: str, text: str) -> None: ...

    def move_path(self, path: str, to: str) -> None: ...

    def remove(self, path: str) -> None:
        """Removes a file, or all that is under a path; ``""`` is the whole tree."""

    def sync(self, paths: Iterable[str]) -> None:
        """Waits until the names of these files outlast a loss of power."""

    def hold_lock(self, run: Path, /) -> AbstractContextManager[bool]:
        """Holds the tree's lock for the length of a ``with``; False where another process holds it.

        :param run: the run folder of this process's data folder
        """


def tree_at(place: Location, *, private: bool = True) -> FileTree:
    return StoreTree(place) if isinstance(place, LakeUrl) else DiskTree(place, private)


def at_once(work: Callable[[T], object], items: Iterable[T]) -> None:
    """Does the work of many files at the same time: each mostly waits for a disk or a store.

    :raises Exception: the first that any of them raised; work that hasn't begun by then isn't done
    """
    pool = ThreadPoolExecutor(FILES_AT_ONCE)
    try:
        for _ in pool.map(work, items):
            pass
    finally:
        pool.shutdown(cancel_futures=True)


def copy_hashed(source: Readable, sink: Writable | None = None) -> CopiedFile:
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(CHUNK_BYTES):
        digest.update(chunk)
        size += len(chunk)
        if sink is not None:
            sink.write(chunk)
    return CopiedFile(size, digest.hexdigest())


def read_all(file: Readable) -> bytes:
    return b"".join(iter(lambda: bytes(file.read(CHUNK_BYTES)), b""))


class DiskTree:
    """A folder. Files are shared by hard links."""

    def __init__(self, place: Path, private: bool) -> None:
        self.place: Path = place
        self._private = private

    def names(self) -> list[str]:
        return sorted(folder.name for folder in self.place.iterdir() if folder.is_dir())

    def has_file(self, path: str) -> bool:
        return (self.place / path).is_file()

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[Readable]:
        with (self.place / path).open("rb", buffering=0) as file:
            _drop_from_cache(file)
            yield file
            _drop_from_cache(file)

    def copy_file(self, path: str, source: Readable) -> CopiedFile:
        target = self.place / path
        self._make(target.parent)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if self._private else 0o666)
        with os.fdopen(descriptor, "wb") as sink:
            copied = copy_hashed(source, sink)
            sink.flush()
            os.fsync(sink.fileno())
        return copied

    def share_file(self, path: str, other: str) -> bool:
        self._make((self.place / other).parent)
        try:
            os.link(self.place / path, self.place / other)
        except OSError:
            return False
        return True

    def write(self, path: str, text: str) -> None:
        self._make((self.place / path).parent)
        write_whole(self.place / path, text)

    def move_path(self, path: str, to: str) -> None:
        self._make((self.place / to).parent)
        (self.place / path).rename(self.place / to)
        sync_to_disk((self.place / to).parent)

    def remove(self, path: str) -> None:
        target = self.place / path
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def sync(self, paths: Iterable[str]) -> None:
        for folder in {(self.place / path).parent for path in paths} | {self.place}:
            sync_to_disk(folder)

    @contextlib.contextmanager
    def hold_lock(self, _run: Path, /) -> Iterator[bool]:
        self.place.parent.mkdir(parents=True, exist_ok=True)
        self.place.mkdir(mode=0o700, exist_ok=True)
        with try_lock(self.place / LOCK) as is_ours:
            yield is_ours

    def _make(self, folder: Path) -> None:
        if folder != self.place and not folder.is_dir():
            self._make(folder.parent)
        folder.mkdir(mode=0o700 if self._private else 0o777, exist_ok=True)


def _drop_from_cache(file: FileIO) -> None:
    """Drops a file from the cache: what is read comes from the disk, and no other file leaves the cache for it."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class StoreTree:
    """A folder of an object store. Files are shared by copies that the store itself makes: it has no links."""

    def __init__(self, place: LakeUrl) -> None:
        self.place = place
        self._storage = ObjectStorage(str(place))

    def names(self) -> list[str]:
        return sorted(self._storage.list_folders())

    def has_file(self, path: str) -> bool:
        return self._storage.has_file(path)

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[Readable]:
        with self._storage.reader(path) as file:
            yield cast(Readable, file)

    def copy_file(self, path: str, source: Readable) -> CopiedFile:
        with self._storage.writer(path) as sink:
            return copy_hashed(source, sink)

    def share_file(self, path: str, other: str) -> bool:
        try:
            self._storage.copy(path, other)
        except FileNotFoundError:
            return False
        return True

    def write(self, path: str, text: str) -> None:
        self._storage.put_file(path, text.encode())

    def move_path(self, path: str, to: str) -> None:
        """Copies all to the new path before anything leaves the old one: interrupted, it is done again."""
        moved = self._list_under(path)
        at_once(lambda name: self._storage.copy(name, f"{to}{name.removeprefix(path)}".strip("/")), moved)
        self._storage.delete(moved)

    def remove(self, path: str) -> None:
        self._storage.delete(self._list_under(path))

    def sync(self, paths: Iterable[str]) -> None:
        """A store has kept what it has answered."""

    @contextlib.contextmanager
    def hold_lock(self, run: Path, /) -> Iterator[bool]:
        holder = f"{socket.gethostname()}:{run}"
        with try_lock(run / "backup.lock") as is_ours:
            if not is_ours or not self._take_lock(holder):
                yield False
                return
            try:
                yield True
            finally:
                self._storage.delete([LOCK])

    def _take_lock(self, holder: str) -> bool:
        now = datetime.now(UTC)
        text = json.dumps({"holder": holder, "at": to_rfc3339(now)}).encode()
        for _ in range(2):
            try:
                self._storage.put_new(LOCK, text)
            except FileExistsError:
                with contextlib.suppress(FileNotFoundError):
                    held = json.loads(self._storage.read(LOCK))
                    late = now - from_rfc3339(held["at"]) > timedelta(hours=LOCK_H_MAX)
                    if held["holder"] != holder and not late:
                        return False
                    self._storage.delete([LOCK])
            else:
                return True
        return False

    def _list_under(self, path: str) -> list[str]:
        return [path] if path and self._storage.has_file(path) else list(self._storage.tree(path))
