"""Reads what browsers bring: the two cookies, and forms with the token that only their reader's browser got."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qs

from fastapi import Depends
from starlette.datastructures import FormData, QueryParams
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive

from core.errors import PayhookError

FIELD = "csrf_token"
FORM_TYPE = "application/x-www-form-urlencoded"
FORM_BYTES_MAX = 1 << 18
FORM_S_MAX = 30.0
FIELDS_MAX = 2_000
VISITOR_BYTES = 32

UPLOAD_TYPE = "multipart/form-data"
UPLOAD_PATHS = frozenset({"/ledger/reconciliations"})
"""Pages whose form may hold a file."""
UPLOAD_BYTES_MAX = 64 << 20
"""About 300,000 lines of a settlement report; `payhook ledger reconcile` has no such limit."""
UPLOAD_S_MAX = 120.0
UPLOAD_FIELDS_MAX = 20
UPLOAD_FIELD_BYTES_MAX = 1 << 14


class FormRefused(PayhookError):
    def __init__(self, status: int, problem: str) -> None:
        self.status = status
        self.problem = problem
        super().__init__(f"nothing was done: {problem}")


def new_visitor() -> str:
    """Makes what a visitor's cookie holds before they sign in: the token of the sign-in form is made of it."""
    return secrets.token_urlsafe(VISITOR_BYTES)


def csrf_token(secret: str) -> str:
    """Makes the token of a browser's forms from what its cookie holds: nothing is kept, and nothing leads back."""
    return hmac.new(secret.encode(errors="replace"), b"payhook forms", hashlib.sha256).hexdigest()


async def checked_form(request: Request, secret: str | None) -> Receive:
    """Reads a form and checks its token; returns what gives the same body to the next reader.

    A form with a file is in ``request.state.upload`` instead, on the pages that take one.

    :raises FormRefused: it isn't a form of the browser whose cookie holds ``secret``
    """
    request.state.upload = None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == UPLOAD_TYPE and request.url.path in UPLOAD_PATHS:
        request.state.upload = await _checked_upload(request, secret)
        return _receive_again(b"", request.receive)
    if kind != FORM_TYPE:
        raise FormRefused(415, f"expected a form ({FORM_TYPE})")
    body = await _read_body(request, FORM_BYTES_MAX)
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        raise FormRefused(400, "the form can't be read") from None
    _check_token(fields.get(FIELD, []), secret)
    return _receive_again(body, request.receive)


async def _checked_upload(request: Request, secret: str | None) -> FormData:
    parts = _read_parts(request, UPLOAD_BYTES_MAX)
    limits = {"max_fields": UPLOAD_FIELDS_MAX, "max_part_size": UPLOAD_FIELD_BYTES_MAX}
    with _refuse_incomplete(UPLOAD_S_MAX):
        try:
            async with asyncio.timeout(UPLOAD_S_MAX):
                form = await MultiPartParser(request.headers, parts, max_files=1, **limits).parse()
        except MultiPartException:
            raise FormRefused(400, "the form can't be read") from None
    try:
        _check_token([token for token in form.getlist(FIELD) if isinstance(token, str)], secret)
    except FormRefused:
        await form.close()
        raise
    return form


def _check_token(tokens: Sequence[str], secret: str | None) -> None:
    expected = "" if secret is None else csrf_token(secret)
    if (
        not expected
        or len(tokens) != 1
        or not hmac.compare_digest(tokens[0].encode(errors="replace"), expected.encode())
    ):
        raise FormRefused(403, "the page was too old, or not one of payhook's; go back, reload it, and try again")


async def _read_body(request: Request, bytes_max: int) -> bytes:
    with _refuse_incomplete(FORM_S_MAX):
        async with asyncio.timeout(FORM_S_MAX):
            return b"".join([part async for part in _read_parts(request, bytes_max)])


async def _read_parts(request: Request, bytes_max: int) -> AsyncGenerator[bytes]:
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > bytes_max:
            raise FormRefused(413, f"the form is larger than {bytes_max:,} bytes")
        yield part


@contextlib.contextmanager
def _refuse_incomplete(seconds: float) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise FormRefused(408, f"the form didn't arrive within {seconds:g} s") from None
    except ClientDisconnect:
        raise FormRefused(400, "the browser closed the connection") from None


def _receive_again(body: bytes, rest: Receive) -> Receive:
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            return await rest()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


SESSION, VISITOR = "payhook_session", "payhook_visitor"
STRICT: Literal["strict"] = "strict"
COOKIE_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class Cookies:
    """Reads and sets cookies. ``secure``: the browser sees the listener over HTTPS. Cookies then belong to that very
    host (``__Host-``).
    """

    secure: bool

    def read_session(self, request: Request) -> str | None:
        return self._read(request, SESSION)

    def read_visitor(self, request: Request) -> str | None:
        return self._read(request, VISITOR)

    def read_form_secret(self, request: Request) -> str | None:
        return self.read_session(request) if getattr(request.state, "user", None) else self.read_visitor(request)

    def set_session(self, response: Response, secret: str) -> None:
        self._set(response, SESSION, secret)
        self._delete(response, VISITOR)

    def set_visitor(self, response: Response, secret: str) -> None:
        self._set(response, VISITOR, secret)

    def end_session(self, response: Response) -> None:
        self._delete(response, SESSION)

    def _read(self, request: Request, name: str) -> str | None:
        value = request.cookies.get(self._cookie_name(name))
        return value if value and len(value) <= COOKIE_CHARS_MAX else None

    def _set(self, response: Response, name: str, value: str) -> None:
        response.set_cookie(
            self._cookie_name(name), value, path="/", httponly=True, secure=self.secure, samesite=STRICT
        )

    def _delete(self, response: Response, name: str) -> None:
        response.delete_cookie(self._cookie_name(name), path="/", httponly=True, secure=self.secure, samesite=STRICT)

    def _cookie_name(self, name: str) -> str:
        return f"__Host-{name}" if self.secure else name


TEXT_CHARS_MAX = 500
CHOICES_MAX = 50

Value = TypeVar("Value")


class Fields:
    """The fields of one request. ``problems`` has a sentence for each field that isn't as it should be.

    A field that is empty, or isn't there, is None.
    """

    def __init__(self, given: QueryParams | FormData) -> None:
        self._given = given
        self.problems: dict[str, str] = {}

    def text(self, name: str, chars_max: int = TEXT_CHARS_MAX) -> str | None:
        value = self._given.get(name)
        value = value.strip() if isinstance(value, str) else ""
        if len(value) > chars_max:
            self.add_problem(name, f"at most {chars_max} characters are allowed")
            return None
        return value or None

    def number(self, name: str, least: int, most: int) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) < 20 and least <= int(value) <= most):
            self.add_problem(name, f"Enter a whole number from {least:,} to {most:,}")
            return None
        return int(value)

    def read(self, name: str, read: Callable[[str], Value]) -> Value | None:
        """Returns what ``read`` makes of the text, such as a moment by `core.moments`; its own error is the problem."""
        value = self.text(name)
        try:
            return None if value is None else read(value)
        except PayhookError as wrong:
            self.add_problem(name, str(wrong))
            return None

    def read_choice(self, name: str, among: Collection[str]) -> str | None:
        value = self.text(name)
        if value is not None and value not in among:
            self.add_problem(name, f"Choose one of: {', '.join(among)}")
            return None
        return value

    def choices(self, name: str, among: Collection[str] | None = None) -> tuple[str, ...]:
        values = [value for value in self._given.getlist(name) if isinstance(value, str) and value]
        if len(values) > CHOICES_MAX or any(len(value) > TEXT_CHARS_MAX for value in values):
            self.add_problem(name, f"at most {CHOICES_MAX} of at most {TEXT_CHARS_MAX} characters are allowed")
            return ()
        if among is not None and not set(values) <= set(among):
            self.add_problem(name, f"Choose from: {', '.join(among)}")
            return ()
        return tuple(dict.fromkeys(values))

    def list_values(self, name: str) -> list[str]:
        return [value for value in self._given.getlist(name) if isinstance(value, str)]

    def given(self, name: str, chars_max: int = TEXT_CHARS_MAX) -> str:
        value = self._given.get(name)
        return value[:chars_max] if isinstance(value, str) else ""

    def add_problem(self, name: str, problem: str) -> None:
        self.problems.setdefault(name, problem)


async def _fields_of_form(request: Request) -> Fields:
    return Fields(await request.form())


FormFields = Annotated[Fields, Depends(_fields_of_form)]
"""The fields of the form that a route gets."""
