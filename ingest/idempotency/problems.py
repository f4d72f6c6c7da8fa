"""What the middleware refuses, as problem details (RFC 9457): each says what to do, and links where it is explained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import Send

from core.errors import PayhookError

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
        """What is sent beside the body."""
        headers = {"content-type": MEDIA_TYPE, "link": f'<{docs_url}>; rel="describedby"', "cache-control": "no-store"}
        if self.retry_after_s is not None:
            headers["retry-after"] = str(self.retry_after_s)
        if self.closes:
            headers["connection"] = "close"
        return headers

    def body(self, docs_url: str) -> bytes:
        """``{"type", "title", "status", "detail", …}``."""
        told: Mapping[str, Any] = {
            "type": f"{docs_url}#{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.members,
        }
        return orjson.dumps(told)

    async def send(self, send: Send, docs_url: str) -> None:
        """Answers an ASGI request with it."""
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
    detail = f"the body wasn't there within {seconds:g} s; send it again with the same key"
    return Problem(408, "body-too-slow", "The body came too slowly", detail, closes=True)


def store_unavailable(retry_after_s: int) -> Problem:
    detail = "whether this key was used before can't be told now, so nothing was done; send it again with the same key"
    return Problem(503, "keys-unavailable", "Idempotency keys can't be looked up", detail, retry_after_s=retry_after_s)
