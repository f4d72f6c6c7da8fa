"""Copies one Delta table at one version: its log's end and the files that it names; hashes everything on the way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from core.errors import PayhookError
from core.location import Location
from journal.lake import open_table
from journal.log import LOG, entry_name
from journal.state import commit_info
from journal.storage import Storage, open_storage
from stack.backup.manifest import BackupImpossible
from stack.backup.trees import CopiedFile, FileTree, Readable, at_once, tree_at

PIN_TRIES = 3
"""The log's old entries are removed beside us; each try takes milliseconds."""

UNREADABLE = (PayhookError, DeltaError, OSError, pa.ArrowException, ValueError, KeyError)
"""What a damaged table raises."""

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\.\d{10}\.\d{10})?\.parquet")


@dataclass(slots=True)
class CopyTarget:
    """A folder ``under`` a tree that files are copied into.

    ``known``: files of an ``earlier`` backup beside it, which are shared.
    """

    tree: FileTree
    under: str = ""
    earlier: str = ""
    known: Mapping[str, CopiedFile] = field(default_factory=dict)
    files: dict[str, CopiedFile] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)

    @property
    def copied_bytes(self) -> int:
        return sum(file.size for path, file in self.files.items() if path not in self.shared)

    def copy_file(self, path: str, source: Readable) -> CopiedFile:
        """Copies an open file; it is stored for good when this returns.

        :raises OSError: it can't be read or written
        """
        self.files[path] = copied = self.tree.copy_file(self._path_in_tree(path), source)
        return copied

    def share_file(self, path: str, size: int) -> bool:
        copied = self.known.get(path)
        if (
            copied is None
            or copied.size != size
            or not self.tree.share_file(f"{self.earlier}/{path}", self._path_in_tree(path))
        ):
            return False
        self.files[path] = copied
        self.shared.add(path)
        return True

    def remove_copied(self, prefix: str) -> None:
        for path in [copied for copied in self.files if copied.startswith(prefix)]:
            del self.files[path]
            self.tree.remove(self._path_in_tree(path))

    def sync(self) -> None:
        """Waits until the names of all files outlast a loss of power."""
        self.tree.sync(self._path_in_tree(path) for path in self.files)

    def _path_in_tree(self, path: str) -> str:
        return f"{self.under}/{path}" if self.under else path


@dataclass(frozen=True, slots=True)
class PinnedTable:
    place: Location
    path: str
    version: int
    table_id: str
    data: Mapping[str, int]


def pin_table(source: Location, path: str, target: CopyTarget, *, with_state: bool) -> PinnedTable:
    """Pins a table at its newest version and copies the log that leads there; ``path`` is the table's in the backup.

    :param with_state: the copied log reaches back to the last commit that has a journal's state
    :raises BackupImpossible: the log goes while it is copied
    :raises DeltaError, OSError: the table can't be read
    """
    gone: OSError | None = None
    for _ in range(PIN_TRIES):
        table = open_table(str(source))
        try:
            tree = tree_at(source)
            for name in log_files(source, table.version(), with_state=with_state):
                with tree.open(name) as entry:
                    target.copy_file(f"{path}/{name}", entry)
        except FileNotFoundError as cleaned:
            gone = cleaned
            target.remove_copied(f"{path}/{LOG}/")
            continue
        return PinnedTable(source, path, table.version(), str(table.metadata().id), data_files(table))
    raise BackupImpossible(f"the log of {source} is cleared while it is copied ({gone}); run it again")


def copy_data(pinned: PinnedTable, target: CopyTarget) -> None:
    """Copies the files that a pinned table names. The caller holds the maintenance lock: none of them goes meanwhile.

    :raises BackupImpossible: a file isn't as long as the table says
    :raises OSError: one can't be read or written
    """
    table = tree_at(pinned.place)

    def copy(file: tuple[str, int]) -> None:
        name, size = file
        path = f"{pinned.path}/{name}"
        if target.share_file(path, size):
            return
        with table.open(name) as source:
            copied = target.copy_file(path, source)
        if copied.size != size:
            problem = f"{pinned.place}/{name} has {copied.size:,} bytes, and the table says {size:,}"
            raise BackupImpossible(f"{problem}: the lake is damaged, see `payhook verify`")

    at_once(copy, pinned.data.items())


def data_files(table: DeltaTable) -> dict[str, int]:
    adds = pa.table(table.get_add_actions())
    return dict(zip(adds["path"].to_pylist(), adds["size_bytes"].to_pylist(), strict=True))


def log_files(source: Location, version: int, *, with_state: bool) -> list[str]:
    """Names the end of a table's log that leads to a version: its newest checkpoint's files, then entries in order.

    :param with_state: it reaches back to the last commit that has a journal's state
    """
    storage = open_storage(source)
    checkpoints = [file.name for file in storage.files(LOG) if _CHECKPOINT.fullmatch(file.name)]
    usable = [name for name in checkpoints if int(name[:20]) <= version]
    newest = max((name[:20] for name in usable), default=None)
    since = 0 if newest is None else int(newest) + 1
    if with_state:
        since = min(since, _last_with_state(source, storage, version))
    wanted = [f"{LOG}/{name}" for name in usable if name[:20] == newest]
    return [*wanted, *(entry_name(number) for number in range(since, version + 1))]


def _last_with_state(source: Location, storage: Storage, version: int) -> int:
    for number in range(version, -1, -1):
        commit = commit_info(str(source), storage, number)
        if commit is None:
            break
        if "payhook.marks" in commit:
            return number
    return version + 1
