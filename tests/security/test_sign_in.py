"""Tokens that were lost, passwords that are guessed first, and ids that hide the end of what is signed."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi import Depends, FastAPI

from console.access import accounts
from console.access.passwords import PasswordUnfit
from console.access.roles import Role
from console.access.routes import Everybody, require_role
from console.access.users import TOKEN_DAYS, UserUnfit
from core.clock import ManualClock
from load.samples import sign
from notify.facts import message_id, reversal_id
from notify.signature import signed_headers
from providers.port import Request, SignatureInvalid
from providers.settings import ProvidersSettings
from providers.standardwebhooks import StandardWebhooksAdapter
from tests.unit.console.listening import ADA, AT, BOB, Listener

DAY_S = 86_400


@pytest.fixture
def listener(tmp_path: Path) -> Listener:
    app = FastAPI(openapi_url=None)

    @app.get("/api/secret", dependencies=[Depends(require_role(Role.REPLAYER))])
    def secret() -> str:
        return "yes"

    @app.get("/healthz", dependencies=[Depends(Everybody("a probe"))])
    def healthz() -> str:
        return "ok"

    return Listener(app, tmp_path, ManualClock(AT))


def test_a_token_ends_after_its_days(listener: Listener) -> None:
    assert isinstance(listener.clock, ManualClock)
    assert listener.request("GET", "/api/secret", BOB).status_code == 200
    listener.clock.advance(TOKEN_DAYS * DAY_S - 1)
    assert listener.request("GET", "/api/secret", BOB).status_code == 200
    listener.clock.advance(1)
    refused = listener.request("GET", "/api/secret", BOB)
    assert (refused.status_code, refused.json()["type"]) == (401, "/openapi.json#token-over")
    assert "payhook users token bob" in refused.json()["detail"]


def test_a_token_lasts_as_long_as_its_maker_says(listener: Listener) -> None:
    assert isinstance(listener.clock, ManualClock)
    listener.tokens = {
        **listener.tokens,
        BOB: accounts.make_token(listener.users, BOB, "short", AT, lambda *_: None, days=1),
    }
    assert listener.request("GET", "/api/secret", BOB).status_code == 200
    listener.clock.advance(DAY_S)
    assert listener.request("GET", "/api/secret", BOB).status_code == 401


def test_the_token_that_takes_the_place_of_one_that_is_over_may_have_its_name(listener: Listener) -> None:
    """The refusal of the old one says which command makes another; that command isn't refused."""
    accounts.make_token(listener.users, BOB, "ci", AT, lambda *_: None, days=1)
    with pytest.raises(UserUnfit, match="already"):
        accounts.make_token(listener.users, BOB, "ci", AT + timedelta(hours=23), lambda *_: None)
    seen: list[str | None] = []
    later = AT + timedelta(days=1)
    accounts.make_token(listener.users, BOB, "ci", later, lambda _, before, after: seen.extend((before, after)), 9)
    assert [token.name for token in listener.users.read_accounts()[BOB].tokens] == ["test", "ci"]
    # What is on record says that it is another one, and how long it lasts.
    assert ["ci until 2026-02-01" in str(seen[0]), "ci until 2026-02-10" in str(seen[1])] == [True, True]


@pytest.mark.parametrize("ends_at", ["never", "", "2026-05-01", 5, ["2026-05-01T12:00:00Z"]])
def test_a_token_whose_end_cant_be_read_lets_nobody_in(listener: Listener, ends_at: object) -> None:
    path = listener.folder / "console" / "users.json"
    known = json.loads(path.read_text("utf-8"))
    for token in known["users"][BOB]["tokens"].values():
        token["ends_at"] = ends_at
    path.write_text(json.dumps(known), "utf-8")
    refused = listener.request("GET", "/api/secret", BOB)
    assert (refused.status_code, refused.json()["type"]) == (503, "/openapi.json#users-unreadable")


@pytest.mark.parametrize("by", [None, ADA, BOB])
def test_a_token_ends_with_the_password(listener: Listener, by: str | None) -> None:
    accounts.set_password(listener.users, BOB, "violet anchor teapot", lambda *_: None, by=by)
    assert listener.request("GET", "/api/secret", BOB).status_code == 401


@pytest.mark.parametrize(
    "password",
    [
        "password1234",
        "Password123!",
        "123456789012",
        "qwertyuiop12",
        "iloveyou1234",
        "aaaaaaaaaaaa",
        "hunter2hunter2",
        "payhookpayhook",
        "b4rth0lomew12",
        "abcdefghijkl",
    ],
)
def test_a_password_that_is_guessed_first_is_refused(listener: Listener, password: str) -> None:
    for name in ("bartholomew", "bartholomew@example.com"):
        with pytest.raises(PasswordUnfit, match="easy to guess .*; take several words"):
            accounts.add_user(listener.users, name, frozenset({Role.VIEWER}), password, lambda *_: None)
    with pytest.raises(PasswordUnfit, match="easy to guess"):
        accounts.set_password(listener.users, BOB, password, lambda *_: None)


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("bartholomew", "bartholomew-Xq7zK"),
        ("bartholomew", "violet BARTHOLOMEW anchor"),
        ("bartholomew@example.com", "violet bartholomew anchor"),
        ("bob", "violet anchor bob teapot"),
    ],
)
def test_a_password_with_the_users_name_in_it_is_refused(listener: Listener, name: str, password: str) -> None:
    with pytest.raises(PasswordUnfit, match="user's name"):
        accounts.add_user(listener.users, name, frozenset({Role.VIEWER}), password, lambda *_: None)


def test_a_name_of_two_letters_is_in_many_words(listener: Listener) -> None:
    accounts.add_user(listener.users, "al", frozenset({Role.VIEWER}), "metal violet anchor", lambda *_: None)


def test_judging_a_password_costs_little_whatever_it_is(listener: Listener) -> None:
    """Each sign that may stand for a letter doubles the ways to read a password: 72 of them take the listener seconds,
    in which nobody is answered. So the first 32 characters are judged.
    """
    accounts.set_password(listener.users, BOB, "violet anchor teapot " * 40, lambda *_: None)
    with pytest.raises(PasswordUnfit, match="first 32 characters"):
        accounts.set_password(listener.users, BOB, "a" * 32 + "violet anchor teapot", lambda *_: None)


def test_a_part_of_a_signed_body_does_not_pass_for_the_timestamp() -> None:
    """What is signed is id.timestamp.body: with a dot in the id, it could be cut elsewhere."""
    adapter, secret = StandardWebhooksAdapter(ProvidersSettings()), "whsec_" + "c2VjcmV0" * 4
    inner = int(AT.timestamp())
    signed = sign(adapter, f'{inner}.{{"type": "paid"}}'.encode(), secret, AT - timedelta(days=30), "msg_1")
    old = signed.headers["webhook-timestamp"]
    moved = {**signed.headers, "webhook-id": f"msg_1.{old}", "webhook-timestamp": str(inner)}
    headers = [(name.lower().encode(), value.encode()) for name, value in moved.items()]
    with pytest.raises(SignatureInvalid, match="holds a dot"):
        adapter.verify(Request(b'{"type": "paid"}', headers), [secret], AT)


@pytest.mark.parametrize("family", ["webhook", "svix"])
@pytest.mark.parametrize("parts", [("msg", "1"), ("", "msg_1"), ("msg_1", ""), (".", "."), ("1", "2", "3")])
def test_no_family_of_headers_takes_an_id_with_a_dot(family: str, parts: tuple[str, ...]) -> None:
    """Also one that its provider signed so."""
    adapter, secret = StandardWebhooksAdapter(ProvidersSettings()), "whsec_" + "c2VjcmV0" * 4
    signed = sign(adapter, b"{}", secret, AT, ".".join(parts))
    headers = [(name.lower().replace("webhook", family).encode(), v.encode()) for name, v in signed.headers.items()]
    with pytest.raises(SignatureInvalid, match="holds a dot"):
        adapter.verify(Request(b"{}", headers), [secret], AT)


def test_what_notify_sends_has_no_dot_in_its_id() -> None:
    for key in ("stripe:evt.1:charge.captured", "standardwebhooks:a.b.c:x", "..."):
        for made in (message_id("live", key), reversal_id("live", key)):
            assert "." not in made
    with pytest.raises(ValueError, match="dot"):
        signed_headers("msg.1", b"{}", [b"k" * 32], AT)
