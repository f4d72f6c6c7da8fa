"""A request with an ``Idempotency-Key``: the header, the whole body within limits, and what is refused (RFC 9457)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from starlette.types import Receive, Send

from core.errors import PayhookError
from core.http_fields import strip_blanks

MEDIA_TYPE = "application/problem+json"


class Problem(PayhookError):
    """A request that gets an error answer. ``slug`` is its name for machines, the last part of ``type``.

    ``closes``: the body wasn't read to its end, and what is left of it isn't worth reading.
    """

    def __init__(
        self,
        status: int,
        slug: str,
        title: str,
        detail: str,
        *,
        retry_after_s: int | None = None,
        closes: bool = False,
        **members: Any,
    ) -> None:
        self.status = status
        self.slug = slug
        self.title = title
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.closes = closes
        self.members = members
        super().__init__(f"{title}: {detail}")

    def headers(self, docs_url: str) -> dict[str, str]:
        headers = {"content-type": MEDIA_TYPE, "link": f'<{docs_url}>; rel="describedby"', "cache-control": "no-store"}
        if self.retry_after_s is not None:
            headers["retry-after"] = str(self.retry_after_s)
        if self.closes:
            headers["connection"] = "close"
        return headers

    def body(self, docs_url: str) -> bytes:
        document: Mapping[str, Any] = {
            "type": f"{docs_url}#{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.members,
        }
        return orjson.dumps(document)

    async def send(self, send: Send, docs_url: str) -> None:
        body = self.body(docs_url)
        headers = [(name.encode(), value.encode()) for name, value in self.headers(docs_url).items()]
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def key_missing(method: str) -> Problem:
    detail = (
        f"every {method} here needs an Idempotency-Key header: a new random value, such as a UUID in double quotes, for"
        " each thing that you want done, and the same value again when you repeat a request whose answer you didn't see"
    )
    return Problem(400, "key-missing", "Idempotency-Key is missing", detail)


def key_malformed(problem: str) -> Problem:
    return Problem(400, "key-malformed", "Idempotency-Key is malformed", problem)


def key_in_use(retry_after_s: int) -> Problem:
    detail = "the first request with this key is still being carried out; send the same one again in a moment"
    title = "A request is outstanding for this Idempotency-Key"
    return Problem(409, "key-in-use", title, detail, retry_after_s=retry_after_s)


def key_reused() -> Problem:
    detail = (
        "this key came before with another method, path, query, content type or body; take a new key for a new request"
    )
    return Problem(422, "key-reused", "Idempotency-Key is already used", detail)


def answer_not_kept(status: int, body_bytes: int) -> Problem:
    detail = (
        f"the request with this key was carried out and answered {status}; that answer was too large to be kept "
        f"({body_bytes} bytes), so it can't be repeated. Don't send it with a new key: ask for what it made"
    )
    title = "The request was carried out, its answer wasn't kept"
    return Problem(409, "answer-not-kept", title, detail, original_status=status)


def too_large(bytes_max: int) -> Problem:
    detail = f"the body is larger than {bytes_max} bytes"
    return Problem(413, "body-too-large", "The body is too large", detail, closes=True)


def too_slow(seconds: float) -> Problem:
    detail = f"the body didn't arrive within {seconds:g} s; send it again with the same key"
    return Problem(408, "body-too-slow", "The body came too slowly", detail, closes=True)


def store_unavailable(retry_after_s: int) -> Problem:
    detail = "whether this key was used before can't be known now, so nothing was done; send it again with the same key"
    return Problem(503, "keys-unavailable", "Idempotency keys can't be looked up", detail, retry_after_s=retry_after_s)


HEADER = "Idempotency-Key"
KEY_CHARS_MAX = 255

_QUOTED = re.compile(rb'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_BARE = re.compile(rb"[!#-+\--:<-\[\]-~]+")
"""Printable ASCII without blanks and without what a quoted string, a list or a parameter is made of."""
_ESCAPED = re.compile(rb'\\(["\\])')


class KeyMalformed(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{HEADER}: {problem}")


def read_key(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Returns the key of 1 to `KEY_CHARS_MAX` printable ASCII characters, None where there is no such header.

    The draft wants it quoted. Many clients send it bare, so ``"k-1"`` and ``k-1`` are the same key; a bare one can't
    hold blanks, ``"``, ``\\``, ``,`` or ``;``, so that a list or a parameter isn't taken for a key.

    :param headers: as ASGI gives them: raw, names in lower case
    :raises KeyMalformed: not such a key, or more than one header
    """
    values = [value for name, value in headers if name == b"idempotency-key"]
    if not values:
        return None
    if len(values) > 1:
        raise KeyMalformed("send one such header, not several")
    raw = strip_blanks(values[0])
    if quoted := _QUOTED.fullmatch(raw):
        key = _ESCAPED.sub(rb"\1", quoted[1])
    elif _BARE.fullmatch(raw):
        key = raw
    else:
        raise KeyMalformed('expected a string in double quotes, such as "8e03978e-40d5-43e8-bc93-6894a57f9324"')
    if not 0 < len(key) <= KEY_CHARS_MAX:
        raise KeyMalformed(f"expected 1 to {KEY_CHARS_MAX} characters")
    return key.decode("ascii")


LENGTH_DIGITS_MAX = 12


class ClientGone(Exception):
    pass


async def read_whole(
    headers: Sequence[tuple[bytes, bytes]], receive: Receive, bytes_max: int, seconds_max: float
) -> bytes:
    """Returns the bytes as sent.

    :raises Problem: 413 as soon as it is clear, 408 at the deadline
    :raises ClientGone: it isn't coming
    """
    for name, value in headers:
        length = strip_blanks(value) if name == b"content-length" else b""
        if length.isdigit() and (len(length) > LENGTH_DIGITS_MAX or int(length) > bytes_max):
            raise too_large(bytes_max)
    try:
        async with asyncio.timeout(seconds_max):
            return await _read_body(receive, bytes_max)
    except TimeoutError:
        raise too_slow(seconds_max) from None


async def _read_body(receive: Receive, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > bytes_max:
            raise too_large(bytes_max)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)
