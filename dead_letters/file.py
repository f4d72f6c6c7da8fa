"""The index's SQLite file: its tables, and how it is opened. It is derived: what can't be read is made again.

Each use opens a connection of its own, so threads and processes share the file alone, and one that was deleted or
replaced is noticed by the next use.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from core.errors import PayhookError
from dead_letters.item import COLUMNS, ItemEntry

log = logging.getLogger(__name__)

LAYOUT = 6
"""The version of the tables and of what is written to them, fingerprints too: a file of an older one is made again."""

BUSY_S = 30.0
CACHE_KIB = 65_536
PAGE_BYTES = 16_384
"""Statistics read long stretches of an index: larger pages are fewer reads."""

_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})

CUBE_COLUMNS = (
    *("state", "died", "kind", "error_class", "provider", "event_type", "fingerprint", "mark"),
    *("since_hour", "closed_hour"),
)
"""The columns by which items are counted. Empty text and 0 stand for nothing: a NULL is never equal to another."""

_TEXT = frozenset(name for name, kind in ItemEntry.__annotations__.items() if kind.startswith("str"))
_ITEMS = ", ".join(
    f"{name} {'INTEGER PRIMARY KEY' if name == 'item_seq' else 'TEXT' if name in _TEXT else 'INTEGER'}"
    for name in COLUMNS
)
_SMALL = "kind, error_class, provider, event_type, fingerprint, mark, seen_seq, seen_hash, amount_minor, currency"
TABLES = (
    "CREATE TABLE mark (one INTEGER PRIMARY KEY CHECK (one = 1), table_id TEXT, seq INTEGER, row_hash TEXT,"
    " lineage TEXT, shard TEXT NOT NULL)",
    f"CREATE TABLE items ({_ITEMS})",
    # The columns after the order let filters pass over an item without reading it whole.
    f"CREATE INDEX items_by_age ON items (state, since_at, item_seq, {_SMALL})",
    "CREATE INDEX items_by_cause ON items (state, fingerprint, since_at, item_seq)",
    "CREATE INDEX items_by_entity ON items (entity_key, item_seq)",
    "CREATE INDEX items_by_amount ON items (state, amount_minor, item_seq) WHERE amount_minor IS NOT NULL",
    "CREATE INDEX items_closed ON items (closed_at) WHERE closed_at IS NOT NULL",
    "CREATE INDEX items_unpriced ON items (item_seq) WHERE priced = 0 AND first_dead_at IS NOT NULL",
    "CREATE TABLE causes (fingerprint TEXT PRIMARY KEY, error_class TEXT, error_code TEXT, shape TEXT, place TEXT)"
    " WITHOUT ROWID",
    f"CREATE TABLE cube ({', '.join(f'{name} NOT NULL' for name in CUBE_COLUMNS)}, n INTEGER NOT NULL,"
    f" PRIMARY KEY ({', '.join(CUBE_COLUMNS)})) WITHOUT ROWID",
)


class DeadLetterIndexUnreadable(PayhookError):
    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"the list of dead items {path}: {problem}")


class IndexFile:
    """The file with the tables. ``folder`` holds nothing else, and may be deleted at any time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / "index.sqlite3"

    @contextlib.contextmanager
    def begin_read(self) -> Iterator[sqlite3.Connection]:
        """Opens a reading transaction: what others write meanwhile isn't seen.

        :raises DeadLetterIndexUnreadable: it can't be read
        """
        with self._open_connection() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.rollback()

    @contextlib.contextmanager
    def begin_write(self) -> Iterator[sqlite3.Connection]:
        """Opens a writing transaction; others wait.

        :raises DeadLetterIndexUnreadable: it can't be written
        """
        with self._open_connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def remove(self) -> None:
        with self._lock_folder():
            for suffix in ("", "-wal", "-shm", "-journal"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _open_connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._connect_checked()
            try:
                yield connection
            finally:
                connection.close()
        except sqlite3.DatabaseError as failed:
            if is_damage(failed):
                log.warning("%s is damaged (%s): it is rebuilt from the journal", self.path, failed)
                self.remove()
                raise DeadLetterIndexDamaged(str(self.path), str(failed)) from failed
            raise DeadLetterIndexUnreadable(
                str(self.path), f"{failed}; see that its disk isn't full and try again"
            ) from failed

    def _connect_checked(self) -> sqlite3.Connection:
        if not self.path.exists():
            self._make()
        connection = _open_database(self.path)
        try:
            self._check_layout(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_layout(self, connection: sqlite3.Connection) -> None:
        version = _layout_of(connection)
        if version > LAYOUT:
            problem = f"newer code wrote it (layout {version}, this code knows {LAYOUT}); delete it, or use that code"
            raise DeadLetterIndexUnreadable(str(self.path), problem)
        if version < LAYOUT:
            connection.execute("BEGIN IMMEDIATE")
            if _layout_of(connection) < LAYOUT:
                recreate_tables(connection)
            connection.commit()

    def _make(self) -> None:
        """Makes a file without tables. The remains of a deleted one would be taken for its own."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock_folder():
            if not self.path.exists():
                for suffix in ("-wal", "-shm", "-journal"):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
                connection = _open_database(self.path)
                connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.close()

    @contextlib.contextmanager
    def _lock_folder(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield


class DeadLetterIndexDamaged(DeadLetterIndexUnreadable):
    """The file was damaged. It is gone: the next use makes a new one."""


def select_entries(
    connection: sqlite3.Connection, rest: str = "", values: Sequence[object] = ()
) -> Iterator[ItemEntry]:
    return (ItemEntry(*row) for row in connection.execute(f"SELECT {', '.join(COLUMNS)} FROM items {rest}", values))


def recreate_tables(connection: sqlite3.Connection) -> None:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    for (name,) in tables.fetchall():
        connection.execute(f'DROP TABLE "{name}"')
    for statement in TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {LAYOUT}")


def _layout_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_damage(failed: sqlite3.DatabaseError) -> bool:
    code = getattr(failed, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _CORRUPT


def _open_database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return connection
