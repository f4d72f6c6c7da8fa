"""Copies one Delta table at one version: its log's end and the files that it names; hashes everything on the way."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa
from deltalake import DeltaTable

from core.location import Location
from journal.lake import open_table
from journal.log import LOG, entry_name
from journal.state import commit_info
from journal.storage import Storage, file_system, open_storage, sync
from stack.backup.manifest import BackupImpossible, CopiedFile

CHUNK_BYTES = 1 << 20
PIN_TRIES = 3
"""The log's old entries are removed beside us; each try takes milliseconds."""

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\.\d{10}\.\d{10})?\.parquet")


class Readable(Protocol):
    """A file that is open for reading."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(slots=True)
class Target:
    """The folder that is copied into. ``known``: files of an earlier backup, in ``earlier``, that are linked to.

    ``private``: its owner alone may read what is put there; else those whom the process's umask lets.
    """

    folder: Path
    earlier: Path | None = None
    known: Mapping[str, CopiedFile] = field(default_factory=dict)
    private: bool = True
    files: dict[str, CopiedFile] = field(default_factory=dict)
    copied_bytes: int = 0

    def take(self, path: str, source: Readable) -> CopiedFile:
        """Copies an open file; it is on disk when this returns.

        :raises OSError: it can't be read or written
        """
        target = self.folder / path
        make_folders(target.parent, self.folder, self.private)
        with new_file(target, private=self.private) as sink:
            self.files[path] = copied = copy_hashed(source, sink)
        self.copied_bytes += copied.size
        return copied

    def link(self, path: str, size: int) -> bool:
        """Takes a file from the earlier backup, if it is there with that size."""
        found = self.known.get(path)
        if self.earlier is None or found is None or found.size != size:
            return False
        make_folders((self.folder / path).parent, self.folder, self.private)
        try:
            os.link(self.earlier / path, self.folder / path)
        except OSError:
            return False
        self.files[path] = found
        return True

    def sync(self) -> None:
        """Waits until every folder's names are on disk."""
        for folder in {(self.folder / path).parent for path in self.files} | {self.folder}:
            sync(folder)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A table at one version, its log copied already; ``data``: the files that it names, with their sizes in bytes."""

    place: Location
    path: str
    version: int
    table_id: str
    data: Mapping[str, int]


def pin(source: Location, path: str, target: Target, *, with_state: bool) -> Pinned:
    """Pins a table at its newest version and copies the log that leads there; ``path`` is the table's in the backup.

    :param with_state: the copied log reaches back to the last commit that has a journal's state
    :raises BackupImpossible: the log goes while it is copied
    :raises DeltaError, OSError: the table can't be read
    """
    gone: OSError | None = None
    for _ in range(PIN_TRIES):
        table = open_table(str(source))
        try:
            _copy_log(source, path, table.version(), target, with_state=with_state)
        except FileNotFoundError as cleaned:
            gone = cleaned
            _undo(target, f"{path}/{LOG}/")
            continue
        return Pinned(source, path, table.version(), str(table.metadata().id), data_files(table))
    raise BackupImpossible(f"the log of {source} is cleared while it is copied ({gone}); run it again")


def copy_data(pinned: Pinned, target: Target) -> None:
    """Copies the files that a pinned table names. The caller holds the maintenance lock: none of them goes meanwhile.

    :raises BackupImpossible: a file isn't as long as the table says
    :raises OSError: one can't be read or written
    """
    disk = file_system(pinned.place)
    for name, size in pinned.data.items():
        path = f"{pinned.path}/{name}"
        if target.link(path, size):
            continue
        with disk.open_input_stream(name, compression=None) as source:
            copied = target.take(path, source)
        if copied.size != size:
            problem = f"{pinned.place}/{name} has {copied.size:,} bytes, and the table says {size:,}"
            raise BackupImpossible(f"{problem}: the lake is damaged, see `payhook verify`")


def data_files(table: DeltaTable) -> dict[str, int]:
    """The files that a table names at the version it is open at, with their sizes in bytes."""
    adds = pa.table(table.get_add_actions())
    return dict(zip(adds["path"].to_pylist(), adds["size_bytes"].to_pylist(), strict=True))


def copy_hashed(source: Readable, sink: BinaryIO | None = None) -> CopiedFile:
    """Reads a file to its end, into another one if there is one; what was read."""
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(CHUNK_BYTES):
        digest.update(chunk)
        size += len(chunk)
        if sink is not None:
            sink.write(chunk)
    return CopiedFile(size, digest.hexdigest())


@contextlib.contextmanager
def new_file(path: Path, *, private: bool = True) -> Iterator[BinaryIO]:
    """A new file; on disk at the end. ``private``: its owner alone may read it.

    :raises FileExistsError: one is there
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def make_folders(folder: Path, root: Path, private: bool) -> None:
    """Makes a folder, and those between it and ``root``."""
    if folder != root and not folder.is_dir():
        make_folders(folder.parent, root, private)
    folder.mkdir(mode=0o700 if private else 0o777, exist_ok=True)


def _copy_log(source: Location, path: str, version: int, target: Target, *, with_state: bool) -> None:
    storage, disk = open_storage(source), file_system(source)
    checkpoints = [one.name for one in storage.files(LOG) if _CHECKPOINT.fullmatch(one.name)]
    usable = [name for name in checkpoints if int(name[:20]) <= version]
    newest = max((name[:20] for name in usable), default=None)
    since = 0 if newest is None else int(newest) + 1
    if with_state:
        since = min(since, _last_with_state(source, storage, version))
    wanted = [f"{LOG}/{name}" for name in usable if name[:20] == newest]
    for name in [*wanted, *(entry_name(number) for number in range(since, version + 1))]:
        with disk.open_input_stream(name, compression=None) as entry:
            target.take(f"{path}/{name}", entry)


def _last_with_state(source: Location, storage: Storage, version: int) -> int:
    """The last commit that has the journal's state, if the log still has it."""
    for number in range(version, -1, -1):
        commit = commit_info(str(source), storage, number)
        if commit is None:
            break
        if "payhook.marks" in commit:
            return number
    return version + 1


def _undo(target: Target, prefix: str) -> None:
    for path in [one for one in target.files if one.startswith(prefix)]:
        target.copied_bytes -= target.files.pop(path).size
    for left in (target.folder / prefix).glob("*"):
        left.unlink()
