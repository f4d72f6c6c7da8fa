"""RocksDB in a folder that one living process owns: taken over, made again, or read beside its owner."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    ColumnFamily,
    Options,
    Rdict,
    WriteBatch,
)

from journal.errors import IndexBroken, IndexHeld

log = logging.getLogger(__name__)

BLOCK_CACHE_BYTES = 128 << 20
BLOOM_BITS_PER_KEY = 10
FILTER_BLOCK_BYTES = 16 << 10
WRITE_BUFFER_BYTES = 32 << 20
WAL_BYTES_MAX = 2 * WRITE_BUFFER_BYTES
"""Little is kept apart: left alone, it would keep the log of everything that was written since."""

OPEN_FILES_MAX = 256
FAMILY = "default"
"""RocksDB's family of all keys but those of `APART`."""

APART = "apart"
"""A family of keys that no copy has; it may be lost."""

CURRENT = "CURRENT"
"""The file by which RocksDB knows that a store is there; it names the manifest, which names the files with keys."""

_HOLDING = ("block-cache-usage", "size-all-mem-tables")
_OWNER, _BROKEN = "OWNER", "BROKEN"
_LOST = ("Corruption", "No such file")
_STORAGE = re.compile(
    r"No space left|File too large|Read-only file system|quota exceeded|Permission denied|Too many open files"
)
"""Problems that say nothing against the store itself: it must not be thrown away for them."""


class RocksDbStore:
    """Byte keys in order, written in atomic batches.

    The owner holds a lock on a file in the folder for as long as it lives, paused or not. The folder may be renamed
    under it. A read that finds damage marks the folder, so that the next owner makes it again. It is marked too while
    it is being filled.
    """

    def __init__(self, folder: Path, db: Rdict, owner: int | None) -> None:
        self.folder = folder
        self._owner = owner
        self._with_keys: list[str] = []
        self._use_database(db)

    def _use_database(self, db: Rdict) -> None:
        self._db = db
        self._apart = db.get_column_family(APART)
        self.apart: ColumnFamily = db.get_column_family_handle(APART)

    @classmethod
    def take_over(cls, root: Path, epoch: int) -> RocksDbStore:
        """Owns ``root/epoch-<epoch>``: the newest folder that no living process owns, renamed, or an empty one.

        :raises IndexHeld: a living process owns a folder of this very epoch
        """
        root.mkdir(parents=True, exist_ok=True)
        mine = root / f"epoch-{epoch:08}"
        newest, *others = _lock_ownerless(root) or [_begin_folder(root)]
        for folder, descriptor in others:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)
        folder, owner = newest
        try:
            if folder != mine:
                _rename_folder(folder, mine)
            return cls(mine, _open_or_begin(mine), owner)
        except BaseException:
            os.close(owner)
            raise

    @classmethod
    def read_only(cls, root: Path) -> RocksDbStore:
        """Opens the newest folder as it is now, beside its owner.

        :raises ValueError: there is none
        """
        newest = max(root.glob("epoch-*"))
        # All files are opened at once: the owner may drop them at any time.
        return cls(newest, _open_database(newest, -1, AccessType.read_only(False)), None)

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._db.get(key)
        except Exception as failed:
            raise self._make_broken_error(failed) from failed
        return value

    def get_apart(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._apart.get(key)
        except Exception as failed:
            raise self._make_broken_error(failed) from failed
        return value

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        try:
            values: list[bytes | None] = self._db.get(keys)  # type: ignore[arg-type, assignment]
        except Exception as failed:
            raise self._make_broken_error(failed) from failed
        return values

    def write(self, batch: WriteBatch) -> None:
        try:
            self._db.write(batch)
        except Exception as failed:
            raise self._make_broken_error(failed) from failed

    def read_keys(self, prefix: bytes, since: bytes = b"") -> Iterator[bytes]:
        """Yields the keys that begin with ``prefix``, in order; ``since``: those alone whose rest isn't before it."""
        try:
            cursor = self._db.iter()
            cursor.seek(prefix + since)
            while cursor.valid():
                key = cursor.key()
                if not key.startswith(prefix):
                    return
                yield key
                cursor.next()
            cursor.status()
        except Exception as failed:
            raise self._make_broken_error(failed) from failed

    def read_items(self, prefix: bytes, at_once: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        try:
            # No pair outlives its turn: the collector would look through millions of them again and again.
            pairs: Iterator[bytes] = chain.from_iterable(self._db.items(from_key=prefix))  # type: ignore[arg-type]
            while some := list(islice(pairs, 2 * at_once)):
                keys, values = some[::2], some[1::2]
                if not keys[-1].startswith(prefix):
                    last = bisect_left(keys, True, key=lambda key: not key.startswith(prefix))
                    yield keys[:last], values[:last]
                    return
                yield keys, values
        except Exception as failed:
            raise self._make_broken_error(failed) from failed

    def memory_bytes(self) -> int:
        return sum(self._db.property_int_value(f"rocksdb.{name}") or 0 for name in _HOLDING)

    def begin_again(
        self, fill: Callable[[Path], None] = lambda _folder: None, complete: Callable[[], None] = lambda: None
    ) -> None:
        """Forgets everything, and begins with the copy that ``fill`` puts into the folder and what ``complete`` writes:
        with both, or it is empty.

        :raises IndexBroken: the copy can't be opened, or what was written can't be flushed
        """
        self._close()
        try:
            (self.folder / _BROKEN).touch()
            _wipe_folder(self.folder)
            fill(self.folder)
            self._use_database(_open_database(self.folder))
            complete()
            self._flush()  # on the disk before the mark goes: the machine may fail too
            (self.folder / _BROKEN).unlink()
        except Exception:
            with suppress(Exception):  # it wasn't opened, or its last flush fails: it goes all the same
                self._close()
            self._use_database(_begin_empty(self.folder))
            raise

    def copy(self, folder: Path) -> RocksDbStore:
        """Copies the store as of now without what is kept apart, to a folder that isn't there yet; its files are links.

        The folder must be no other's. `files` of the copy, once closed, are what a store can begin with.
        """
        try:
            Checkpoint(self._db).create_checkpoint(str(folder))
            copied = RocksDbStore(folder, _open_database(folder, compacts=False), None)
            copied._forget_apart()
        except Exception as failed:
            # Whatever it is, it says nothing against the store itself.
            raise IndexBroken(str(folder), str(failed)) from failed
        return copied

    def files(self) -> list[Path]:
        manifest = (self.folder / CURRENT).read_text("utf-8").strip()
        return [self.folder / name for name in (*self._with_keys, manifest, CURRENT, "rocksdict-config.json")]

    def _forget_apart(self) -> None:
        del self._apart, self.apart
        self._db.drop_column_family(APART)
        self._with_keys = sorted(str(file["name"]).lstrip("/") for file in self._db.live_files())

    def close(self) -> None:
        """Ends the ownership; what was written stays, flushed or not: the store's own log has it."""
        try:
            self._close()
        except Exception:
            log.warning("the index in %s was closed without its last flush", self.folder, exc_info=True)
        del self._db
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None

    def _close(self) -> None:
        # Each holds the database open.
        self.__dict__.pop("_apart", None)
        self.__dict__.pop("apart", None)
        self._db.close()

    def _flush(self) -> None:
        try:
            self._db.flush_wal()
        except Exception as failed:
            raise self._make_broken_error(failed) from failed

    def _make_broken_error(self, failed: Exception) -> IndexBroken:
        if self._owner is not None and any(sign in str(failed) for sign in _LOST):
            (self.folder / _BROKEN).touch()
        return IndexBroken(str(self.folder), str(failed))


def is_held(root: Path) -> bool:
    folders = list(root.glob("epoch-*"))
    free = _lock_ownerless(root)
    for _, descriptor in free:
        os.close(descriptor)
    return len(free) < len(folders)


def _lock_ownerless(root: Path) -> list[tuple[Path, int]]:
    locked = ((folder, _lock_folder(folder)) for folder in sorted(root.glob("epoch-*"), reverse=True))
    return [(folder, descriptor) for folder, descriptor in locked if descriptor is not None]


def _begin_folder(root: Path) -> tuple[Path, int]:
    folder = root / f"new-{uuid.uuid4().hex}"
    folder.mkdir()
    descriptor = _lock_folder(folder)
    assert descriptor is not None
    return folder, descriptor


def _lock_folder(folder: Path) -> int | None:
    """Locks the folder's owner file; None when a living process holds it or took the folder away meanwhile."""
    path = folder / _OWNER
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _rename_folder(folder: Path, mine: Path) -> None:
    try:
        folder.rename(mine)
    except OSError as taken:
        raise IndexHeld(str(mine)) from taken


def _open_or_begin(folder: Path) -> Rdict:
    if not (folder / _BROKEN).exists():
        try:
            return _open_database(folder)
        except IndexBroken as failed:
            if _STORAGE.search(failed.problem):
                raise
            log.exception("the index in %s can't be opened: it is made again", folder)
    return _begin_empty(folder)


def _begin_empty(folder: Path) -> Rdict:
    _wipe_folder(folder)
    begun = _open_database(folder)
    (folder / _BROKEN).unlink(missing_ok=True)
    return begun


def _wipe_folder(folder: Path) -> None:
    """Deletes everything but the owner's locked file and the mark of an unfinished fill, so that a crash leaves the
    mark.
    """
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in (_OWNER, _BROKEN):
            path.unlink()


def _open_database(
    folder: Path, open_files_max: int = OPEN_FILES_MAX, access: AccessType | None = None, *, compacts: bool = True
) -> Rdict:
    """Opens the store. Options are given for the column family too: an existing store's family would have RocksDB's
    own, with a cache of 8 MiB and no filters.

    :raises IndexBroken: it can't be opened
    """
    options = _make_options(open_files_max)
    options.set_disable_auto_compactions(not compacts)
    try:
        return Rdict(str(folder), options, {FAMILY: options, APART: options}, access or AccessType.read_write())
    except Exception as failed:  # RocksDB's errors have no class of their own
        raise IndexBroken(str(folder), str(failed)) from failed


def _make_options(open_files_max: int) -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(Cache(BLOCK_CACHE_BYTES))
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, False)
    table.set_cache_index_and_filter_blocks(True)
    # A whole file's filter, 3 MB, is more than a shard of the cache takes: it would be read again for every key.
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_metadata_block_size(FILTER_BLOCK_BYTES)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_total_wal_size(WAL_BYTES_MAX)
    options.set_max_open_files(open_files_max)
    options.set_keep_log_file_num(2)
    return options
