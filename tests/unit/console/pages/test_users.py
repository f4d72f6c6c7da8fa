"""The page of users: what an administrator changes there is on record, and never makes another administrator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.access import accounts, passwords
from console.access.roles import Role
from console.health import WatchedServices, create_app
from core.clock import ManualClock
from core.status_file import StreamStatuses
from journal.append import Appender
from tests.unit.console.listening import ADA, AT, BOB, EVE, IDA, PASSWORD, Browser, Listener, csrf_of
from tests.unit.console.pages.test_operators import text
from tests.unit.console.places import unused_client

NEW = "another horse battery"


class UsersPage:
    """A listener of its own, and an administrator at its page of users."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(AT)
        watched = WatchedServices("http://127.0.0.1:9/readyz", StreamStatuses({}), {}, lambda _: {})
        self.listener = Listener(create_app(watched, unused_client(), self.clock), folder, self.clock)
        self.users = self.listener.users
        self.ada = self.browser(ADA)

    def browser(self, name: str, password: str = PASSWORD) -> Browser:
        browser = Browser(self.listener)
        assert browser.sign_in(name, password).status_code == 303
        return browser

    def post(self, path: str, fields: dict[str, str], browser: Browser | None = None) -> tuple[int, str]:
        """The status, and where it leads to or what the page says."""
        browser = browser or self.ada
        answer = browser.post(path, fields, csrf_of(browser.get("/")))
        return answer.status_code, answer.headers.get("location") or text(answer.text)

    def adds(self, name: str, role: str = "replayer") -> None:
        added = self.post("/users", {"name": name, "password": NEW, "again": NEW, "role": role})
        assert added == (303, f"/users/{name}")

    def acts(self) -> list[tuple[str, str, str, str]]:
        return [(one.actor, one.action, one.what, one.outcome.value) for one in self.listener.audit_log.read(100)]


@pytest.fixture
def office(tmp_path: Path) -> UsersPage:
    return UsersPage(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> UsersPage:
    """One with a second administrator, for what is refused: it changes no user."""
    made = UsersPage(tmp_path_factory.mktemp("shared"))
    accounts.add_user(made.users, "amy", frozenset({Role.ADMIN}), PASSWORD, lambda *_: None)
    return made


def test_everybody_is_listed_with_roles_tokens_and_when_they_signed_in_last(office: UsersPage) -> None:
    office.clock.advance(600)
    office.browser(BOB)
    page = text(office.ada.get("/users").text)
    assert "5 users" in page
    assert "ada you admin 2026-01-31 12:00:00" in page
    assert "bob replayer 2026-01-31 12:10:00" in page
    assert "eve viewer not known test" in page
    assert "ida none: sees nothing not known test" in page


def test_a_user_who_is_added_signs_in_with_the_roles_they_were_given(office: UsersPage) -> None:
    office.adds("zoe", "viewer")
    zoe = office.browser("zoe", NEW)
    assert zoe.get("/dlq").status_code == 200
    assert zoe.get("/ledger").status_code == 403
    assert ("ada", "user_add", "zoe", "done") in office.acts()
    (act,) = [act for act in office.listener.audit_log.read(9) if act.action == "user_add"]
    assert (act.channel, act.before) == ("page", None)
    assert json.loads(act.after or "") == {"roles": ["viewer"], "tokens": []}


@pytest.mark.parametrize(
    ("fields", "status", "problem"),
    [
        ({"name": "", "password": NEW, "again": NEW}, 422, "Enter a name"),
        ({"name": "zoe", "password": "", "again": ""}, 422, "Enter a password of 12 characters or more"),
        ({"name": "zoe", "password": NEW, "again": NEW + " "}, 422, "Enter the same password again"),
        ({"name": "zoe", "password": "short", "again": "short"}, 409, "12 are the least"),
        ({"name": "Zoë", "password": NEW, "again": NEW}, 409, "can't be a name"),
        ({"name": "bob", "password": NEW, "again": NEW}, 409, "there is a user 'bob' already"),
        ({"name": "zoe", "password": NEW, "again": NEW, "role": "root"}, 422, "Choose from"),
        ({"name": "zoe", "password": NEW, "again": NEW, "role": "admin"}, 409, "made on the machine alone"),
    ],
)
def test_who_cannot_be_added_is_reported_why_and_nobody_sees_the_password_again(
    shared: UsersPage, fields: dict[str, str], status: int, problem: str
) -> None:
    before = shared.users.read_accounts().keys()
    answer = shared.ada.post("/users", fields, csrf_of(shared.ada.get("/")))
    assert (answer.status_code, problem in text(answer.text)) == (status, True), text(answer.text)
    assert fields["password"] == "" or fields["password"] not in answer.text
    assert shared.users.read_accounts().keys() == before
    if status == 409:
        assert shared.acts()[0] == ("ada", "user_add", fields["name"], "refused")


def test_a_change_of_roles_ends_sessions_and_without_roles_nothing_is_seen(office: UsersPage) -> None:
    bob = office.browser(BOB)
    assert office.post("/users/bob/roles", {"role": "finance"}) == (303, "/users/bob")
    assert bob.get("/dlq").status_code == 303, "the session is over"
    bob.sign_in(BOB)
    assert (bob.get("/dlq").status_code, bob.get("/ledger").status_code) == (403, 200)
    assert office.post("/users/bob/roles", {}) == (303, "/users/bob")
    assert office.users.read_accounts()[BOB].roles == frozenset()
    assert ("ada", "user_roles", "bob", "done") in office.acts()


def test_a_password_is_set_and_the_old_one_is_none_any_more(office: UsersPage) -> None:
    assert office.post("/users/eve/password", {"password": NEW, "again": NEW}) == (303, "/users/eve")
    assert passwords.is_password_of(NEW, office.users.read_accounts()[EVE].password)
    assert Browser(office.listener).sign_in(EVE).status_code == 401
    office.browser(EVE, NEW)
    assert NEW not in json.dumps([act.as_row() for act in office.listener.audit_log.read(100)], default=str)


def test_a_token_is_revoked_and_a_user_is_removed_who_is_named_again(office: UsersPage) -> None:
    assert office.listener.request("GET", "/api/dlq/items", EVE).status_code != 401
    assert office.post("/users/eve/revoke", {"token": "test"}) == (303, "/users/eve")
    assert office.listener.request("GET", "/api/dlq/items", EVE).status_code == 401
    assert "eve has no token" in office.post("/users/eve/revoke", {"token": "test"})[1]
    assert office.post("/users/eve/remove", {"sure": "bob"})[0] == 422
    assert office.post("/users/eve/remove", {"sure": "eve"}) == (303, "/users")
    assert EVE not in office.users.read_accounts()
    assert [one for one in office.acts() if one[1] == "user_remove"] == [("ada", "user_remove", "eve", "done")]
    assert office.ada.get("/users/eve").status_code == 404


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/users/amy/roles", {"role": "viewer"}),
        ("/users/amy/password", {"password": NEW, "again": NEW}),
        ("/users/amy/remove", {"sure": "amy"}),
        ("/users/ada/password", {"password": NEW, "again": NEW}),
        ("/users/bob/roles", {"role": "admin"}),
    ],
)
def test_administrators_are_made_and_changed_on_the_machine_alone(
    shared: UsersPage, path: str, fields: dict[str, str]
) -> None:
    before, acts = shared.users.read_accounts(), len(shared.acts())
    status, reported = shared.post(path, fields)
    assert (status, "on the machine alone" in reported) == (409, True)
    assert shared.users.read_accounts() == before
    assert [act[3] for act in shared.acts()[:-acts]] == ["refused"]


def test_nobody_but_administrators_changes_users(office: UsersPage) -> None:
    bob = office.browser(BOB)
    for path in ("/users", "/users/eve/roles", "/users/bob/password", "/users/eve/revoke", "/users/eve/remove"):
        status, reported = office.post(path, {"role": "finance"}, bob)
        assert (status, "bob isn't a admin" in reported or "You may not do this" in reported) == (403, True)
    assert office.acts()[0] == ("bob", "order", "POST /users/eve/remove", "refused")


def test_what_cannot_be_put_on_record_is_not_done(office: UsersPage, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    token = csrf_of(office.ada.get("/"))
    before = office.users.read_accounts()
    monkeypatch.setattr(Appender, "append", full)
    for path, fields in (
        ("/users", {"name": "zoe", "password": NEW, "again": NEW}),
        ("/users/bob/roles", {"role": "viewer"}),
        ("/users/bob/remove", {"sure": "bob"}),
        ("/password", {"current": PASSWORD, "password": NEW, "again": NEW}),
    ):
        answer = office.ada.post(path, fields, token)
        assert (answer.status_code, "This can&#39;t be recorded" in answer.text) == (503, True), path
    assert office.users.read_accounts() == before


def test_everybody_changes_their_own_password_who_knows_it(office: UsersPage) -> None:
    ida = office.browser(IDA)
    assert ida.get("/password").status_code == 200, "without any role, too"
    wrong = {"current": "not this one", "password": NEW, "again": NEW}
    status, reported = office.post("/password", wrong, ida)
    assert (status, "the current password is wrong" in reported) == (401, True)
    assert office.acts()[0] == ("ida", "own_password", "ida", "refused")
    twice = {"current": PASSWORD, "password": NEW, "again": f"{NEW} "}
    assert office.post("/password", twice, ida)[0] == 422
    assert office.post("/password", {"current": PASSWORD, "password": "short", "again": "short"}, ida)[0] == 422
    assert office.post("/password", {"current": PASSWORD, "password": NEW, "again": NEW}, ida) == (303, "/login")
    assert ida.get("/").status_code == 303, "signed out"
    assert office.acts()[0] == ("ida", "own_password", "ida", "done")
    office.browser(IDA, NEW)


def test_a_password_is_not_guessed_over_a_session_that_somebody_left_open(office: UsersPage) -> None:
    eve = office.browser(EVE)
    fields = {"current": "not this one", "password": NEW, "again": NEW}
    statuses = [office.post("/password", fields, eve)[0] for _ in range(6)]
    assert statuses == [401] * 5 + [429]
