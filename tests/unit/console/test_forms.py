"""A form that doesn't come to its end costs nothing but its own time."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message

from console import forms
from console.forms import FORM_TYPE, FormRefused, checked_form, csrf_token


def request(*messages: Message) -> Request:
    """A POST whose body comes in these portions, and then no more."""
    left = list(messages)

    async def receive() -> Message:
        if left:
            return left.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-type", FORM_TYPE.encode())]}
    return Request(scope, receive)


def portion(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_in_portions_is_read_again_by_whoever_comes_next() -> None:
    async def both() -> tuple[bool, Message]:
        body = f"a=1&csrf_token={csrf_token('secret')}".encode()
        sent = request(portion(body[:5], more=True), portion(body[5:], more=False), {"type": "http.disconnect"})
        receive = await checked_form(sent, "secret")
        first = await receive()
        assert first["more_body"] is False
        return first["body"] == body, await receive()

    assert asyncio.run(both()) == (True, {"type": "http.disconnect"})


def test_a_body_that_stops_in_the_middle_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "FORM_S_MAX", 0.05)
    with pytest.raises(FormRefused, match="within 0.05 s") as refused:
        asyncio.run(checked_form(request(portion(b"a=", more=True)), "secret"))
    assert refused.value.status == 408


def test_a_browser_that_leaves_is_no_error_of_ours() -> None:
    sent = request(portion(b"a=", more=True), {"type": "http.disconnect"})
    with pytest.raises(FormRefused, match="closed the connection"):
        asyncio.run(checked_form(sent, "secret"))


@pytest.mark.parametrize("secret", ["other", None])
def test_a_token_of_another_browser_is_none(secret: str | None) -> None:
    body = f"csrf_token={csrf_token('secret')}".encode()
    with pytest.raises(FormRefused, match="too old"):
        asyncio.run(checked_form(request(portion(body, more=False)), secret))


def test_two_tokens_are_none() -> None:
    body = f"csrf_token={csrf_token('secret')}&csrf_token={csrf_token('secret')}".encode()
    with pytest.raises(FormRefused, match="too old"):
        asyncio.run(checked_form(request(portion(body, more=False)), "secret"))
