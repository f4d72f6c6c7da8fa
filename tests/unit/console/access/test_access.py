"""From a name and a password to a session and back to a user; each sign-in is on record."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from fastapi import FastAPI

from console.access import accounts, passwords
from console.access.roles import NotSignedIn, Role, User
from console.access.sign_in import (
    AT_ONCE,
    NOT_ALLOWED_MAX,
    USER_TRIES,
    WAITING_MAX,
    SignInBusy,
    SignInRefused,
    SignInTooSoon,
)
from core.clock import ManualClock
from journal.append import Appender
from operations.audit_log import AuditLogUnwritable
from tests.unit.console.listening import ADA, BOB, PASSWORD, Listener

HERE = "127.0.0.1"


@pytest.fixture
def listener(tmp_path: Path) -> Listener:
    clock = ManualClock(datetime(2026, 1, 31, 12, tzinfo=UTC))
    return Listener(FastAPI(openapi_url=None, docs_url=None, redoc_url=None), tmp_path, clock)


def sign_in(listener: Listener, name: str = ADA, password: str = PASSWORD) -> str:
    return asyncio.run(listener.access.sign_in(name, password, HERE))


def on_record(listener: Listener) -> list[tuple[str, str, str, str]]:
    return [(one.actor, one.action, one.outcome.value, one.what) for one in reversed(listener.audit_log.read(500))]


def test_the_right_password_is_a_session_of_its_user(listener: Listener) -> None:
    secret = sign_in(listener)
    assert listener.access.by_session(secret) == User(ADA, frozenset({Role.ADMIN}))
    assert on_record(listener) == [(ADA, "sign_in", "done", "from 127.0.0.1")]


def test_a_wrong_one_and_a_name_that_is_not_there_are_refused_alike_and_reported_apart_on_record(
    listener: Listener,
) -> None:
    for name in (ADA, "my-secret-passphrase"):
        with pytest.raises(SignInRefused, match="wrong name or password"):
            sign_in(listener, name, "wrong horse battery")
    assert on_record(listener) == [
        (ADA, "sign_in", "refused", "from 127.0.0.1"),
        ("(unknown)", "sign_in", "refused", "from 127.0.0.1"),
    ]


def test_a_name_that_is_not_there_takes_as_long_as_one_that_is(listener: Listener) -> None:
    """Compared as a ratio: the hash is most of it, and a look-up without one would be a thousandth."""

    def fastest(name: str) -> float:
        took = []
        for _ in range(3):
            began = time.perf_counter()
            assert not passwords.is_password_of("wrong horse battery", known.get(name))
            took.append(time.perf_counter() - began)
        return min(took)

    known = {name: account.password for name, account in listener.users.read_accounts().items()}
    passwords.unknown_hash()
    assert 0.02 < fastest("nobody") / fastest(ADA) < 50


def test_guessing_is_slowed_down_and_what_was_not_looked_at_is_no_act(listener: Listener) -> None:
    for _ in range(USER_TRIES):
        with pytest.raises(SignInRefused):
            sign_in(listener, password="wrong horse battery")
    for _ in range(50):
        with pytest.raises(SignInTooSoon, match="wait 1 s"):
            sign_in(listener)
    assert len(on_record(listener)) == USER_TRIES
    assert isinstance(listener.clock, ManualClock)
    listener.clock.advance(1)
    assert listener.access.by_session(sign_in(listener)) is not None


def test_more_at_once_than_can_be_looked_at_are_sent_away(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, most, under_way = threading.Event(), 0, 0
    lock = threading.Lock()

    def slow(_password: str, _known: str | None) -> bool:
        nonlocal most, under_way
        with lock:
            under_way += 1
            most = max(most, under_way)
        assert go_on.wait(30)
        with lock:
            under_way -= 1
        return False

    async def storm() -> list[BaseException | str]:
        tries = [
            asyncio.create_task(listener.access.sign_in(f"user-{number}", "x" * 20, f"10.0.0.{number}"))
            for number in range(100)
        ]
        for refused in islice(asyncio.as_completed(tries), 100 - WAITING_MAX):
            with pytest.raises(SignInBusy):
                await refused
        go_on.set()
        return await asyncio.gather(*tries, return_exceptions=True)

    monkeypatch.setattr(passwords, "is_password_of", slow)
    ended = asyncio.run(storm())
    assert sum(isinstance(one, SignInBusy) for one in ended) == 100 - WAITING_MAX
    assert sum(isinstance(one, SignInRefused) for one in ended) == WAITING_MAX
    assert most <= AT_ONCE


@pytest.mark.parametrize("change", ["password", "roles", "remove"])
def test_a_change_of_the_user_ends_their_sessions_and_nobody_elses(listener: Listener, change: str) -> None:
    mine, others = [sign_in(listener), sign_in(listener)], sign_in(listener, BOB)
    if change == "password":
        accounts.set_password(listener.users, ADA, "another horse battery", lambda *_: None)
    elif change == "roles":
        accounts.set_roles(listener.users, ADA, frozenset({Role.ADMIN, Role.FINANCE}), lambda *_: None)
    else:
        accounts.remove_user(listener.users, ADA, lambda *_: None)
    assert [listener.access.by_session(secret) for secret in mine] == [None, None]
    assert listener.access.by_session(others) is not None


def test_a_user_who_is_removed_and_added_again_does_not_get_the_old_sessions(listener: Listener) -> None:
    secret = sign_in(listener)
    accounts.remove_user(listener.users, ADA, lambda *_: None)
    accounts.add_user(listener.users, ADA, frozenset({Role.ADMIN}), PASSWORD, lambda *_: None)
    assert listener.access.by_session(secret) is None


def test_a_token_has_its_users_roles_as_they_are_now(listener: Listener) -> None:
    token = listener.tokens[BOB]
    accounts.set_roles(listener.users, BOB, frozenset({Role.VIEWER}), lambda *_: None)
    assert listener.access.by_token(token) == User(BOB, frozenset({Role.VIEWER}))
    for wrong in ("", "payhook_", token[:-1], token + "x", "\ud800"):
        assert listener.access.by_token(wrong) is None


def test_whoever_cannot_be_put_on_record_is_not_signed_in(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Appender, "append", full)
    with pytest.raises(AuditLogUnwritable, match="No space left"):
        sign_in(listener)
    assert listener.sessions._db.execute("SELECT count(*) FROM sessions").fetchone() == (0,)


def test_whoever_tries_what_they_may_not_is_on_record_and_cannot_fill_it(listener: Listener) -> None:
    user = User(BOB, frozenset({Role.REPLAYER}))
    for _ in range(NOT_ALLOWED_MAX + 20):
        listener.access.not_allowed(user, "POST /api/dlq/purge", "api")
    acts = listener.audit_log.read(NOT_ALLOWED_MAX + 50)
    assert len(acts) == NOT_ALLOWED_MAX
    assert acts[-1].reason == "has replayer"
    assert "more of bob in this hour isn't recorded" in acts[0].reason
    assert isinstance(listener.clock, ManualClock)
    listener.clock.advance(3_600)
    listener.access.not_allowed(user, "POST /api/dlq/purge", "api")
    assert len(listener.audit_log.read(NOT_ALLOWED_MAX + 50)) == NOT_ALLOWED_MAX + 1


def test_a_new_password_does_not_undo_one_that_was_set_meanwhile(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever knows bob's old password begins a change, and an administrator gives bob a new one before it ends."""
    hashed, given = passwords.hash_password, "stately yellow lantern orbit"

    def slowly_hashed(password: str, name: str) -> str:
        made = hashed(password, name)
        monkeypatch.setattr(passwords, "hash_password", hashed)
        accounts.set_password(listener.users, BOB, given, lambda *_: None)
        return made

    bob = listener.users.read_accounts()[BOB].user
    monkeypatch.setattr(passwords, "hash_password", slowly_hashed)
    with pytest.raises(NotSignedIn):
        asyncio.run(listener.access.change_password(bob, PASSWORD, "intruder keeps the keys 77", HERE))
    assert passwords.is_password_of(given, listener.users.read_accounts()[BOB].password)
    assert on_record(listener) == [(BOB, "own_password", "refused", BOB)]
