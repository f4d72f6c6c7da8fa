"""The file that keeps a stream's selections and their runs: SQLite, several processes at a time, nothing else's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY_S_MAX = 10.0
"""A freeze of a million items holds the file for about that long; whoever else writes waits."""

VERSION = 3
_HANDS = "ALTER TABLE runs ADD COLUMN hands TEXT NOT NULL DEFAULT ''"
_CHANGES = {
    1: (
        "ALTER TABLE selections ADD COLUMN lineage TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE items ADD COLUMN seen_hash TEXT NOT NULL DEFAULT ''",
        _HANDS,
    ),
    2: (_HANDS,),
}
"""By the version of a file. What was frozen before 2 has no lineage: it can be read, and no run of it is begun or goes
on."""

_SCHEMA = """
CREATE TABLE selections (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    digest TEXT NOT NULL,
    frozen_at TEXT NOT NULL,
    actor TEXT NOT NULL,
    note TEXT NOT NULL,
    filter TEXT NOT NULL,
    count INTEGER NOT NULL,
    journal_seq INTEGER NOT NULL,
    lineage TEXT NOT NULL,
    amounts TEXT NOT NULL,
    unknown_amounts INTEGER NOT NULL
);
CREATE TABLE items (
    number INTEGER NOT NULL REFERENCES selections ON DELETE CASCADE,
    place INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    line INTEGER NOT NULL,
    item_seq INTEGER NOT NULL,
    seen_seq INTEGER NOT NULL,
    seen_hash TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'unsent',
    row_seq INTEGER,
    reason TEXT,
    forecast TEXT,
    forecast_why TEXT,
    followers INTEGER,
    PRIMARY KEY (number, place)
) WITHOUT ROWID;
CREATE UNIQUE INDEX items_by_seq ON items (number, item_seq);
CREATE UNIQUE INDEX items_by_turn ON items (number, turn);
CREATE INDEX items_by_state ON items (number, state, place);
CREATE TABLE runs (
    number INTEGER PRIMARY KEY REFERENCES selections ON DELETE CASCADE,
    action TEXT NOT NULL,
    mode TEXT NOT NULL,
    per_s REAL,
    in_place INTEGER NOT NULL,
    force INTEGER NOT NULL,
    propose INTEGER NOT NULL,
    two_people INTEGER NOT NULL,
    command_items INTEGER NOT NULL,
    reason TEXT NOT NULL,
    actor TEXT NOT NULL,
    hands TEXT NOT NULL,
    started_at TEXT NOT NULL,
    state TEXT NOT NULL,
    approver TEXT,
    approval_reason TEXT,
    approved_at TEXT,
    changed_by TEXT,
    problem TEXT,
    upto INTEGER NOT NULL,
    owner TEXT,
    lease_until REAL NOT NULL DEFAULT 0,
    looked_at REAL NOT NULL DEFAULT 0,
    looked_ended INTEGER NOT NULL DEFAULT 0,
    seen_per_s REAL,
    finished_at TEXT
);
CREATE TABLE commands (
    number INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    part TEXT NOT NULL,
    chunk INTEGER NOT NULL,
    command_id TEXT NOT NULL UNIQUE,
    first_turn INTEGER NOT NULL,
    count INTEGER NOT NULL,
    at TEXT NOT NULL,
    offset INTEGER,
    decided_seq INTEGER,
    told TEXT,
    PRIMARY KEY (number, part, chunk)
) WITHOUT ROWID;
CREATE TABLE dry_runs (
    number INTEGER PRIMARY KEY REFERENCES selections ON DELETE CASCADE,
    made_at TEXT NOT NULL,
    journal_seq INTEGER NOT NULL
);
"""


class SelectionFile:
    """Connections to one file, made with its tables where it isn't there. Each use has one of its own: threads and
    processes may share the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._made = False

    @property
    def there(self) -> bool:
        return self._path.exists()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent view."""
        with self._connected() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, durable when it is over; undone by an exception."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, timeout=BUSY_S_MAX, isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA foreign_keys = ON")
            # FULL: a selection that somebody was told of is still there after a power failure.
            connection.execute("PRAGMA synchronous = FULL")
            if not self._made:
                _make(connection)
                self._made = True
            yield connection
        finally:
            connection.close()


def _make(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < VERSION:
        for statement in _CHANGES.get(version) or _SCHEMA.split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
