"""An application behind the middleware, on a store in memory that can be taken down."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import httpx2
from starlette.types import ASGIApp, Receive, Scope, Send

from core.clock import ManualClock
from ingest.claims import ClaimsUnavailable
from ingest.idempotency.middleware import IdempotencyKey
from ingest.idempotency.store import IdempotentRun, KeptAnswer, KeyClaim, RequestKey
from tests.memory_answers import MemoryAnswers

LEASE_S = 60.0
KEPT_S = 86_400.0
KEY = {"idempotency-key": '"k-1"'}

Act = Callable[["AppCall"], Awaitable[None]]


class BreakableAnswers(MemoryAnswers):
    """Can be taken down, as Redis can, for all steps or for one."""

    down: frozenset[str] = frozenset()
    answers_lost = False
    """Claims are made, and the caller gets no answer."""

    async def claim(self, key: RequestKey, owner: bytes) -> KeyClaim:
        self._up("claim")
        claimed = await super().claim(key, owner)
        if self.answers_lost:
            raise ClaimsUnavailable("late")
        return claimed

    async def confirm(self, key: RequestKey, owner: bytes, answer: KeptAnswer) -> bool:
        self._up("confirm")
        return await super().confirm(key, owner, answer)

    async def end_lease(self, key: RequestKey, owner: bytes) -> None:
        self._up("lapse")
        await super().end_lease(key, owner)

    def _up(self, step: str) -> None:
        if step in self.down:
            raise ClaimsUnavailable("gone")


class AppCall:
    """One run of the application."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.body = body

    @property
    def run(self) -> IdempotentRun:
        run: IdempotentRun = self.scope["state"]["idempotency"]
        return run

    async def answer(self, status: int = 201, body: bytes = b"made", **headers: str) -> None:
        pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": pairs})
        await self.send({"type": "http.response.body", "body": body})


class Guarded:
    """Counts the application's runs; ``act`` is what it does, else a 201 that names the run."""

    def __init__(self, act: Act | None = None) -> None:
        self.clock = ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
        self.store = BreakableAnswers(self.clock, LEASE_S, KEPT_S)
        self.act = act
        self.calls: list[AppCall] = []
        self.caller = "ann"
        self.app: ASGIApp = IdempotencyKey(self._app, store=self.store, caller=lambda _: self.caller)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        call = AppCall(scope, receive, send, body)
        self.calls.append(call)
        if self.act is not None:
            await self.act(call)
        else:
            await call.answer(body=f"run {len(self.calls)}".encode(), content_type="text/plain", location="/made/1")

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[httpx2.AsyncClient]:
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://api") as client:
            yield client

    async def raw(self, receive: Receive, send: Send) -> None:
        """`KEY`'s request as a server would hand it over, with a client of the test's own."""
        scope = {"type": "http", "method": "POST", "path": "/refunds", "query_string": b""}
        await self.app({**scope, "headers": [(b"idempotency-key", b"k-1")]}, receive, send)

    def request(self, method: str = "POST", path: str = "/refunds", **more: Any) -> httpx2.Response:
        async def inside() -> httpx2.Response:
            async with self.client() as client:
                return await client.request(method, path, **{"headers": KEY, **more})

        return asyncio.run(inside())

    def post(self, content: Any = b"{}", **more: Any) -> httpx2.Response:
        return self.request(content=content, **more)


async def empty_body() -> dict[str, Any]:
    """A client that sends ``{}`` at once."""
    return {"type": "http.request", "body": b"{}"}


def slug(answer: httpx2.Response) -> str:
    """The problem's name; fails the test where the answer is no problem that links its explanation."""
    assert answer.headers["content-type"] == "application/problem+json"
    reported = answer.json()
    assert reported["status"] == answer.status_code
    docs, _, name = reported["type"].partition("#")
    assert answer.headers["link"] == f'<{docs}>; rel="describedby"' and docs.startswith("https://")
    return str(name)
