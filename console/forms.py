"""Forms of the listener's own pages: each carries a token that only its reader's browser got with it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from core.errors import PayhookError

FIELD = "csrf_token"
FORM_TYPE = "application/x-www-form-urlencoded"
FORM_BYTES_MAX = 1 << 18
FORM_S_MAX = 30.0
FIELDS_MAX = 2_000
VISITOR_BYTES = 32


class FormRefused(PayhookError):
    """A form that isn't taken; nothing was done."""

    def __init__(self, status: int, problem: str) -> None:
        self.status = status
        self.problem = problem
        super().__init__(f"nothing was done: {problem}")


def new_visitor() -> str:
    """What the cookie of somebody who isn't signed in holds: their sign-in form's token is made of it."""
    return secrets.token_urlsafe(VISITOR_BYTES)


def csrf_token(secret: str) -> str:
    """The token of a browser's forms, from what its cookie holds: nothing is kept, and nothing leads back."""
    return hmac.new(secret.encode(errors="replace"), b"payhook forms", hashlib.sha256).hexdigest()


async def checked_form(request: Request, secret: str | None) -> Receive:
    """Reads a form and checks its token; returns what gives the same body to whoever reads it next.

    :raises FormRefused: it isn't a form of the browser whose cookie holds ``secret``
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise FormRefused(415, f"a form is wanted ({FORM_TYPE})")
    body = await _body(request)
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        raise FormRefused(400, "the form can't be read") from None
    tokens = fields.get(FIELD, [])
    known = "" if secret is None else csrf_token(secret)
    if not known or len(tokens) != 1 or not hmac.compare_digest(tokens[0].encode(errors="replace"), known.encode()):
        raise FormRefused(403, "the page was too old, or not one of payhook's; go back, reload it, and try again")
    return _again(body, request.receive)


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    try:
        async with asyncio.timeout(FORM_S_MAX):
            async for part in request.stream():
                size += len(part)
                if size > FORM_BYTES_MAX:
                    raise FormRefused(413, f"the form is larger than {FORM_BYTES_MAX} bytes")
                parts.append(part)
    except TimeoutError:
        raise FormRefused(408, f"the form wasn't there within {FORM_S_MAX:g} s") from None
    except ClientDisconnect:
        raise FormRefused(400, "the browser went away") from None
    return b"".join(parts)


def _again(body: bytes, rest: Receive) -> Receive:
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            return await rest()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
