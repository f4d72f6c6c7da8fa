"""`payhook users` and `payhook dlq audit`: what they print, and that each change is on record."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.acting import this_account
from cli.main import main
from console.access import accounts, passwords
from console.access.roles import Role
from console.access.users import Users, secret_sha256
from core.layout import Layout
from stack.endpoints import Endpoints

PASSWORD = "correct horse battery"


@pytest.fixture
def users(tmp_path: Path) -> Users:
    return Users(Layout(tmp_path / "data").users)


def payhook(*words: str, stdin: str | None = None, columns: int = 250) -> Result:
    return CliRunner().invoke(main, words, input=stdin, env={"COLUMNS": str(columns)})


def add(name: str = "ada", *roles: str, password: str = PASSWORD) -> Result:
    given = [word for role in roles or ("admin",) for word in ("--role", role)]
    return payhook("users", "add", name, *given, "--password-stdin", stdin=f"{password}\n")


def audit() -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(payhook("dlq", "audit", "--json").stdout)
    return found


def test_a_user_is_added_with_a_password_from_standard_input(users: Users) -> None:
    answer = add("ada", "replayer", "finance")
    assert (answer.exit_code, answer.stdout) == (0, "ada may sign in now\n")
    account = users.read_accounts()["ada"]
    assert account.roles == {Role.REPLAYER, Role.FINANCE}
    assert passwords.is_password_of(PASSWORD, account.password)


def test_the_password_is_asked_for_twice_and_not_shown(users: Users) -> None:
    answer = payhook("users", "add", "ada", "--role", "admin", stdin=f"{PASSWORD}\n{PASSWORD}\n")
    assert answer.exit_code == 0
    assert PASSWORD not in answer.output
    assert passwords.is_password_of(PASSWORD, users.read_accounts()["ada"].password)
    differs = payhook("users", "add", "bob", "--role", "admin", stdin=f"{PASSWORD}\nanother one\n")
    assert differs.exit_code == 1
    assert set(users.read_accounts()) == {"ada"}


def test_a_change_is_on_record_with_who_what_before_and_after() -> None:
    add()
    payhook("users", "roles", "ada", "--role", "viewer")
    newest, first = audit()
    assert (newest["actor"], newest["channel"], newest["action"], newest["what"]) == (
        this_account(),
        "cli",
        "user_roles",
        "ada",
    )
    assert (newest["outcome"], newest["before"], newest["after"]) == (
        "done",
        '{"roles": ["admin"], "tokens": []}',
        '{"roles": ["viewer"], "tokens": []}',
    )
    assert first["action"] == "user_add"
    assert first["before"] is None


@pytest.mark.parametrize(
    ("words", "action", "problem"),
    [
        (("roles", "bob", "--role", "viewer"), "user_roles", "there is no user 'bob'"),
        (("remove", "bob"), "user_remove", "there is no user 'bob'"),
        (("token", "bob"), "token_make", "there is no user 'bob'"),
        (("revoke", "ada"), "token_revoke", "ada has no token 'token'"),
        (("token", "ada", "--name", "A B"), "token_make", "can't be a name"),
    ],
)
def test_what_is_refused_is_reported_and_on_record(words: tuple[str, ...], action: str, problem: str) -> None:
    add()
    answer = payhook("users", *words)
    assert answer.exit_code == 1
    assert problem in answer.stderr
    newest = audit()[0]
    assert (newest["action"], newest["outcome"]) == (action, "refused")
    assert problem in newest["reason"]


def test_a_short_password_is_refused(users: Users) -> None:
    answer = add(password="short")
    assert (answer.exit_code, "12 are the least" in answer.stderr) == (1, True)
    assert users.read_accounts() == {}


def test_the_password_of_somebody_who_is_not_there_is_not_asked_for() -> None:
    answer = payhook("users", "password", "bob")
    assert (answer.exit_code, "Password" in answer.output) == (1, False)


def test_a_password_is_changed(users: Users) -> None:
    add()
    before = users.read_accounts()["ada"]
    assert payhook("users", "password", "ada", "--password-stdin", stdin="another horse battery\n").exit_code == 0
    after = users.read_accounts()["ada"]
    assert passwords.is_password_of("another horse battery", after.password)
    assert after.stamp != before.stamp


def test_a_token_is_shown_once_and_revoked(users: Users) -> None:
    add()
    answer = payhook("users", "token", "ada", "--name", "ci")
    secret = answer.stdout.strip()
    assert users.by_token(secret_sha256(secret)) is not None
    listed = payhook("users", "list")
    assert "ci" in listed.stdout and secret not in listed.stdout
    reported = json.loads(payhook("users", "list", "--json").stdout)
    assert [(one["name"], one["roles"], [token["name"] for token in one["tokens"]]) for one in reported] == [
        ("ada", ["admin"], ["ci"])
    ]
    assert payhook("users", "revoke", "ada", "--name", "ci").exit_code == 0
    assert users.by_token(secret_sha256(secret)) is None
    assert secret not in json.dumps(audit())


def test_roles_are_all_taken_away_only_when_that_is_said(users: Users) -> None:
    add()
    assert payhook("users", "roles", "ada").exit_code == 2
    assert payhook("users", "roles", "ada", "--none").exit_code == 0
    assert users.read_accounts()["ada"].roles == frozenset()


def test_without_users_and_acts_it_says_so() -> None:
    assert "payhook users add NAME --role admin" in payhook("users", "list").stdout
    assert payhook("dlq", "audit").stdout == "no entries\n"
    assert audit() == []


def test_the_record_is_shown_newest_first_and_in_pages() -> None:
    add()
    for role in ("viewer", "finance", "replayer"):
        payhook("users", "roles", "ada", "--role", role)
    table = payhook("dlq", "audit", "--limit", "2", columns=80).stdout
    assert this_account() in table and "user_roles" in table and "user_add" not in table
    assert max(map(len, table.splitlines())) <= 80
    assert "after:" in table
    numbers = [row["number"] for row in json.loads(payhook("dlq", "audit", "--json", "--before", "3").stdout)]
    assert numbers == [2, 1]


def test_a_stack_without_users_says_how_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "http://127.0.0.1:1"
    endpoints = Endpoints(address, address, "127.0.0.1:1", "redis://127.0.0.1:1", "journal", {})
    monkeypatch.setattr("stack.up.go_up", lambda *_: endpoints)
    monkeypatch.setattr("stack.watching.await_streams", lambda _: {})
    assert "payhook users add NAME --role admin" in payhook("up", "--detach").stderr
    add()
    assert "payhook users add" not in payhook("up", "--detach").stderr


def test_a_list_says_when_each_token_ends_in_80_columns(users: Users) -> None:
    add("ada", "replayer", "finance")
    now = datetime.now(UTC)
    for label, days_ago in (("ci", 0), ("old", 200)):
        accounts.make_token(users, "ada", label, now - timedelta(days=days_ago), lambda *_: None, days=30)
    lines = payhook("users", "list", columns=80).stdout.splitlines()
    ends, ended = (f"{now + timedelta(days=days):%Y-%m-%d}" for days in (30, -170))
    assert any(f"ci (ends {ends})" in line for line in lines) and any(f"old (ended {ended})" in line for line in lines)
    assert max(map(len, lines)) <= 80
