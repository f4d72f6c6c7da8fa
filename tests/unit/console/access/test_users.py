"""The file of users: nobody else reads it, nothing tears it, and each change is witnessed first."""

from __future__ import annotations

import json
import multiprocessing
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from console.access import accounts, passwords
from console.access.roles import Role
from console.access.users import TOKENS_MAX, Account, Token, Users, UsersUnreadable, UserUnfit, secret_sha256
from core.clock import to_rfc3339
from tests.unit.console.listening import AT

PASSWORD = "correct horse battery"
ADMIN = frozenset({Role.ADMIN})


class Record:
    """What would be put on record; refuses where the test says so."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, str | None, str | None]] = []
        self.full = False

    def __call__(self, name: str, before: str | None, after: str | None) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.reported.append((name, before, after))


@pytest.fixture
def record() -> Record:
    return Record()


@pytest.fixture
def users(tmp_path: Path, record: Record) -> Users:
    made = Users(tmp_path / "console" / "users.json")
    accounts.add_user(made, "ada", ADMIN, PASSWORD, record)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "console" / "users.json"


def test_a_password_costs_what_rfc_9106_recommends(real_hasher: PasswordHasher) -> None:
    assert real_hasher.hash("x").startswith("$argon2id$v=19$m=65536,t=3,p=4$")


def test_the_file_is_its_owners_alone_and_holds_no_secret(users: Users, file: Path, record: Record) -> None:
    token = accounts.make_token(users, "ada", "ci", AT, record)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    text = file.read_text() + json.dumps(record.reported)
    assert PASSWORD not in text and token not in text
    assert json.loads(file.read_text())["users"]["ada"]["password"].startswith("$argon2id$v=19$")


def test_a_change_is_reported_with_before_and_after_and_without_hashes(users: Users, record: Record) -> None:
    accounts.set_roles(users, "ada", frozenset({Role.VIEWER, Role.FINANCE}), record)
    accounts.make_token(users, "ada", "ci", AT, record)
    accounts.remove_user(users, "ada", record)
    roles = ['{"roles": ["admin"], "tokens": []}', '{"roles": ["finance", "viewer"], "tokens": []}']
    tokens = '{"roles": ["finance", "viewer"], "tokens": ["ci until 2026-05-01"]}'
    assert record.reported == [
        ("ada", None, roles[0]),
        ("ada", roles[0], roles[1]),
        ("ada", roles[1], tokens),
        ("ada", tokens, None),
    ]


def test_what_cannot_be_put_on_record_is_not_done(users: Users, file: Path, record: Record) -> None:
    before = file.read_bytes()
    record.full = True
    with pytest.raises(OSError, match="No space left"):
        accounts.set_roles(users, "ada", frozenset(), record)
    assert file.read_bytes() == before
    assert users.read_accounts()["ada"].roles == ADMIN


def test_another_process_change_is_seen_at_once(users: Users, file: Path, record: Record) -> None:
    assert users.read_accounts()["ada"].roles == ADMIN
    accounts.set_roles(Users(file), "ada", frozenset({Role.VIEWER}), record)
    assert users.read_accounts()["ada"].roles == {Role.VIEWER}


def adds(file: Path, number: int) -> None:
    account = Account(f"user-{number}", ADMIN, "$argon2id$", f"stamp-{number}")
    Users(file).change(lambda known: known.__setitem__(account.name, account), lambda *_: None)


def test_processes_that_change_it_at_once_lose_nothing(users: Users, file: Path) -> None:
    spawn = multiprocessing.get_context("fork")
    processes = [spawn.Process(target=adds, args=(file, number)) for number in range(12)]
    for one in processes:
        one.start()
    for one in processes:
        one.join()
    assert set(users.read_accounts()) == {"ada", *(f"user-{number}" for number in range(12))}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "JSONDecodeError"),
        ("{", "JSONDecodeError"),
        ("[]", "TypeError"),
        ("{}", "KeyError"),
        ('{"users": {"ada": {}}}', "KeyError"),
        ('{"users": {"ada": {"roles": ["root"], "password": "", "stamp": "", "tokens": {}}}}', "'root' is not a valid"),
        ('{"users": {"../ada": {"roles": [], "password": "", "stamp": "", "tokens": {}}}}', "can't be a name"),
        ('{"users": {"ada": {"roles": [], "password": "", "stamp": "", "tokens": [1]}}}', "AttributeError"),
    ],
)
def test_a_file_that_cannot_be_read_lets_nobody_in_and_says_what_to_do(
    users: Users, file: Path, record: Record, text: str, problem: str
) -> None:
    file.write_text(text)
    for attempt in (users.read_accounts, lambda: accounts.set_roles(users, "ada", ADMIN, record)):
        with pytest.raises((UsersUnreadable, UserUnfit), match=problem):
            attempt()
    assert file.read_text() == text


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602])
def test_a_file_that_others_can_read_or_write_is_not_trusted(users: Users, file: Path, mode: int) -> None:
    assert users.read_accounts()
    file.chmod(mode)
    with pytest.raises(UsersUnreadable, match=f"chmod 600 {file}"):
        users.read_accounts()


@pytest.mark.parametrize("name", ["", "Ada", "a b", "../ada", "-ada", "a" * 65, "ada\n", "<b>", "ädа"])
def test_names_that_are_none_are_refused(users: Users, record: Record, name: str) -> None:
    with pytest.raises(UserUnfit, match="can't be a name"):
        accounts.add_user(users, name, ADMIN, PASSWORD, record)


@pytest.mark.parametrize(("password", "problem"), [("short", "12 are the least"), ("x" * 1_025, "longer than 1024")])
def test_passwords_that_are_none_are_refused(users: Users, record: Record, password: str, problem: str) -> None:
    with pytest.raises(passwords.PasswordUnfit, match=problem):
        accounts.add_user(users, "bob", ADMIN, password, record)
    assert "bob" not in users.read_accounts()


def test_whoever_is_there_is_not_added_again_and_whoever_is_not_cannot_be_changed(users: Users, record: Record) -> None:
    with pytest.raises(UserUnfit, match="there is a user 'ada' already"):
        accounts.add_user(users, "ada", ADMIN, PASSWORD, record)
    for attempt in (
        lambda: accounts.set_roles(users, "bob", ADMIN, record),
        lambda: accounts.set_password(users, "bob", PASSWORD, record),
        lambda: accounts.remove_user(users, "bob", record),
        lambda: accounts.make_token(users, "bob", "ci", AT, record),
        lambda: accounts.revoke_token(users, "bob", "ci", record),
    ):
        with pytest.raises(accounts.UserUnknown, match="there is no user 'bob'"):
            attempt()


def test_a_token_is_found_by_its_hash_until_it_is_revoked(users: Users, record: Record) -> None:
    first, second = (accounts.make_token(users, "ada", name, AT, record) for name in ("ci", "laptop"))
    assert first != second and first.startswith("payhook_")
    found = users.by_token(secret_sha256(first))
    assert found is not None and found[0].name == "ada"
    accounts.revoke_token(users, "ada", "ci", record)
    assert users.by_token(secret_sha256(first)) is None
    assert users.by_token(secret_sha256(second)) is not None
    accounts.remove_user(users, "ada", record)
    assert users.by_token(secret_sha256(second)) is None


def test_a_users_tokens_have_names_of_their_own_and_are_not_endless(users: Users, record: Record) -> None:
    accounts.make_token(users, "ada", "ci", AT, record)
    with pytest.raises(UserUnfit, match="a token 'ci' already"):
        accounts.make_token(users, "ada", "ci", AT, record)
    with pytest.raises(UserUnfit, match="has no token 'other'"):
        accounts.revoke_token(users, "ada", "other", record)

    def fill(known: dict[str, Account]) -> None:
        at, later = to_rfc3339(AT), to_rfc3339(AT + timedelta(days=1))
        tokens = tuple(Token(f"t{number}", str(number), at, later) for number in range(TOKENS_MAX))
        known["ada"] = Account("ada", ADMIN, known["ada"].password, "stamp", tokens)

    users.change(fill, lambda *_: None)
    with pytest.raises(UserUnfit, match="which is the most"):
        accounts.make_token(users, "ada", "more", AT, record)


def test_a_password_is_matched_and_nothing_else_is(users: Users) -> None:
    known = users.read_accounts()["ada"].password
    assert passwords.is_password_of(PASSWORD, known)
    for wrong in ("", PASSWORD + " ", PASSWORD.upper(), known, "x" * 2_000, "\ud800"):
        assert not passwords.is_password_of(wrong, known)
    assert not passwords.is_password_of(PASSWORD, None)
    assert not passwords.is_password_of(PASSWORD, "not a hash")
