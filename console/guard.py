"""Keeps web pages of others away from what changes something: a browser on the operator's machine reaches loopback."""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from ingest.idempotency import Problem

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITES = frozenset({b"same-origin", b"none"})
"""Not "same-site": to a browser every port of a host is the same site."""


class SameOrigin:
    """Wraps an ASGI application: what isn't safe must be JSON, and come from no page but the listener's own.

    A page elsewhere can't send ``application/json`` without asking first (CORS), and nobody answers that. ``Origin`` is
    held against a list, not against ``Host``: a name that is made to point here (DNS rebinding) agrees with itself.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str], docs_url: str) -> None:
        self._app = app
        self._origins = frozenset(origin.encode() for origin in origins)
        self._docs_url = docs_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" and scope["method"] not in SAFE_METHODS else None
        if refusal is not None:
            await refusal.send(send, self._docs_url)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Problem | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        if not OWN_SITES.issuperset(_all(headers, b"sec-fetch-site")):
            return _foreign("Sec-Fetch-Site")
        if not self._origins.issuperset(_all(headers, b"origin")):
            return _foreign("Origin")
        types = [value.partition(b";")[0].strip().lower() for value in _all(headers, b"content-type")]
        if types != [b"application/json"]:
            detail = "the body is JSON, and its Content-Type says so: application/json"
            return Problem(415, "not-json", "JSON is wanted", detail, closes=True)
        return None


def origins_of(host: str, port: int) -> frozenset[str]:
    """The origins of the listener's own pages: by its address, and by the names of loopback."""
    named = host if ":" not in host else f"[{host}]"
    return frozenset(f"http://{name}:{port}" for name in (named, "127.0.0.1", "localhost", "[::1]"))


def _all(headers: list[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name == wanted]


def _foreign(header: str) -> Problem:
    detail = (
        f"{header} says that a web page from elsewhere sends this; use `payhook`, curl, or the listener's own pages"
    )
    return Problem(403, "foreign-page", "Another site's page may not do this", detail, closes=True)
