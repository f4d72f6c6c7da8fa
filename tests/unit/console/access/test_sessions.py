"""A session lasts across a restart and no longer than it may; the file doesn't hold what would let anybody in."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from console.access.sessions import SESSIONS_MAX, Sessions
from core.clock import ManualClock

IDLE, WHOLE = timedelta(minutes=30), timedelta(hours=12)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 31, 12, tzinfo=UTC))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "console" / "sessions.sqlite"


@pytest.fixture
def sessions(file: Path, clock: ManualClock) -> Sessions:
    return Sessions(file, clock, IDLE, WHOLE)


def test_a_session_outlives_the_listener(sessions: Sessions, file: Path, clock: ManualClock) -> None:
    secret = sessions.begin("ada", "stamp")
    sessions.close()
    found = Sessions(file, clock, IDLE, WHOLE).find(secret)
    assert found is not None
    assert (found.name, found.stamp, found.began_at) == ("ada", "stamp", clock.now())


def test_the_file_is_its_owners_alone_and_does_not_hold_the_id(sessions: Sessions, file: Path) -> None:
    secret = sessions.begin("ada", "stamp")
    sessions.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret.encode() not in b"".join(path.read_bytes() for path in file.parent.iterdir())


def test_ids_are_long_and_random(sessions: Sessions) -> None:
    secrets = {sessions.begin(f"user-{number}", "stamp") for number in range(50)}
    assert len(secrets) == 50
    assert min(map(len, secrets)) == 43


def test_it_ends_when_it_is_not_used(sessions: Sessions, clock: ManualClock) -> None:
    secret = sessions.begin("ada", "stamp")
    for _ in range(5):
        clock.advance(IDLE.total_seconds() - 1)
        assert sessions.find(secret) is not None
    clock.advance(IDLE.total_seconds() + 1)
    assert sessions.find(secret) is None
    assert sessions.find(secret) is None


def test_it_ends_however_much_it_is_used(sessions: Sessions, clock: ManualClock) -> None:
    secret = sessions.begin("ada", "stamp")
    lasted = 0
    while sessions.find(secret) is not None:
        clock.advance(600)
        lasted += 600
    assert lasted == WHOLE.total_seconds() + 600


def test_it_ends_by_signing_out(sessions: Sessions) -> None:
    secret, other = sessions.begin("ada", "stamp"), sessions.begin("ada", "stamp")
    sessions.end(secret)
    assert sessions.find(secret) is None
    assert sessions.find(other) is not None


@pytest.mark.parametrize("secret", ["", "x", "x" * 10_000, "\ud800", "' OR 1=1 --"])
def test_what_is_no_id_finds_nothing(sessions: Sessions, secret: str) -> None:
    sessions.begin("ada", "stamp")
    assert sessions.find(secret) is None
    sessions.end(secret)


def test_a_user_has_a_bounded_number_and_keeps_those_that_are_used(sessions: Sessions, clock: ManualClock) -> None:
    used = sessions.begin("ada", "stamp")
    others = [sessions.begin("bob", "stamp")]
    rest = []
    for _ in range(SESSIONS_MAX + 3):
        clock.advance(61)
        assert sessions.find(used) is not None
        assert sessions.find(others[0]) is not None
        rest.append(sessions.begin("ada", "stamp"))
    assert sum(sessions.find(one) is not None for one in [used, *rest]) == SESSIONS_MAX
    assert sessions.find(used) is not None
    assert sessions.find(others[0]) is not None


def test_ended_ones_leave_the_file(sessions: Sessions, clock: ManualClock) -> None:
    for number in range(5):
        sessions.begin(f"user-{number}", "stamp")
    clock.advance(IDLE.total_seconds() + 1)
    sessions.begin("ada", "stamp")
    assert sessions._db.execute("SELECT count(*) FROM sessions").fetchone() == (1,)


def test_threads_may_share_them(sessions: Sessions) -> None:
    secrets: list[str] = []

    def begins() -> None:
        mine = [sessions.begin(threading.current_thread().name, "stamp") for _ in range(10)]
        assert all(sessions.find(one) is not None for one in mine)
        secrets.extend(mine)

    threads = [threading.Thread(target=begins) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(secrets) == 80


@pytest.mark.parametrize("broken", ["no database", "another table"])
def test_a_file_that_is_none_is_made_anew_and_keeps_nobody_out(
    file: Path, clock: ManualClock, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    file.parent.mkdir()
    if broken == "no database":
        file.write_bytes(b"x" * 5_000)
    else:
        with contextlib.closing(sqlite3.connect(file)) as db:
            db.execute("CREATE TABLE sessions (id TEXT)")
    sessions = Sessions(file, clock, IDLE, WHOLE)
    assert sessions.find(sessions.begin("ada", "stamp")) is not None
    assert "everybody has to sign in again" in caplog.text


def test_a_disk_that_is_full_ends_no_session_that_is_used(sessions: Sessions, clock: ManualClock) -> None:
    secret = sessions.begin("ada", "stamp")
    sessions._db.execute("PRAGMA query_only = ON")
    clock.advance(IDLE.total_seconds() - 1)
    assert sessions.find(secret) is not None
