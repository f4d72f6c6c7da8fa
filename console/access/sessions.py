"""Keeps who is signed in: random ids, as hashes in a SQLite file that outlives the listener."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import sqlite3
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from console.access.users import secret_sha256
from core.clock import Clock, from_micros, to_micros

log = logging.getLogger(__name__)

ID_BYTES = 32
SESSIONS_MAX = 20
"""The most sessions of one user; the one that was used least recently ends for another."""

TOUCH_AFTER = timedelta(seconds=60)
"""A session's last use is written no more often than this: not at every picture of a page."""

BUSY_S = 5.0

_SIGN_INS = """
CREATE TABLE IF NOT EXISTS sign_ins (name TEXT PRIMARY KEY, at_us INTEGER NOT NULL) WITHOUT ROWID
"""
_TABLE = """
CREATE TABLE IF NOT EXISTS sessions (
    id_sha256 TEXT PRIMARY KEY,
    name TEXT NOT NULL, stamp TEXT NOT NULL, began_us INTEGER NOT NULL, used_us INTEGER NOT NULL
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class UserSession:
    name: str
    stamp: str
    began_at: datetime


class Sessions:
    """The file at ``path``, made when it isn't there. ``idle`` and ``whole`` are how long a session lasts: unused,
    and however much it is used. Blocks; threads may share it.
    """

    def __init__(self, path: Path, clock: Clock, idle: timedelta, whole: timedelta) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._clock = clock
        self._idle = idle
        self._whole = whole
        self._lock = threading.Lock()
        try:
            self._db = _open(path)
        except sqlite3.DatabaseError as broken:
            log.warning("%s can't be read (%s) and is created again: everybody has to sign in again", path, broken)
            for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
                path.with_name(name).unlink(missing_ok=True)
            self._db = _open(path)

    def begin(self, name: str, stamp: str) -> str:
        """Begins a session, and returns its id: what the cookie holds, and nothing here does."""
        secret, now = secrets.token_urlsafe(ID_BYTES), to_micros(self._clock.now())
        with self._lock:
            self._forget_ended()
            self._db.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", (secret_sha256(secret), name, stamp, now, now)
            )
            newest = "SELECT id_sha256 FROM sessions WHERE name = ? ORDER BY used_us DESC, began_us DESC LIMIT ?"
            self._db.execute(
                f"DELETE FROM sessions WHERE name = ? AND id_sha256 NOT IN ({newest})",  # noqa: S608 - text of our own
                (name, name, SESSIONS_MAX),
            )
            self._db.execute("INSERT OR REPLACE INTO sign_ins VALUES (?, ?)", (name, now))
        return secret

    def last_sign_ins(self) -> dict[str, datetime]:
        with self._lock:
            return {name: from_micros(at_us) for name, at_us in self._db.execute("SELECT name, at_us FROM sign_ins")}

    def find(self, secret: str) -> UserSession | None:
        """Finds the session of an id, and notes that it was used; None: there is none, or it is over."""
        now = self._clock.now()
        with self._lock:
            row = self._db.execute(
                "SELECT name, stamp, began_us, used_us FROM sessions WHERE id_sha256 = ?", (secret_sha256(secret),)
            ).fetchone()
            if row is None:
                return None
            name, stamp, began_at, used_at = row[0], row[1], from_micros(row[2]), from_micros(row[3])
            if now - used_at > self._idle or now - began_at > self._whole:
                self._end(secret)
                return None
            if now - used_at > TOUCH_AFTER:
                # A full disk ends sessions early; signing in still works, to make room.
                with contextlib.suppress(sqlite3.OperationalError):
                    self._db.execute(
                        "UPDATE sessions SET used_us = ? WHERE id_sha256 = ?", (to_micros(now), secret_sha256(secret))
                    )
        return UserSession(name, stamp, began_at)

    def end(self, secret: str) -> None:
        with self._lock:
            self._end(secret)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _end(self, secret: str) -> None:
        self._db.execute("DELETE FROM sessions WHERE id_sha256 = ?", (secret_sha256(secret),))

    def _forget_ended(self) -> None:
        now = self._clock.now()
        self._db.execute(
            "DELETE FROM sessions WHERE used_us < ? OR began_us < ?",
            (to_micros(now - self._idle), to_micros(now - self._whole)),
        )


def _open(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    db = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(_TABLE)
        db.execute(_SIGN_INS)
        db.execute("SELECT id_sha256, name, stamp, began_us, used_us FROM sessions LIMIT 1").fetchone()
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db
