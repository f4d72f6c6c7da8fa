"""The whole listener without servers: its guard, its pages and the API over a real engine, and browsers of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
from fastapi import FastAPI
from starlette.types import ASGIApp

from console.access.accounts import add_user, make_token
from console.access.roles import Role
from console.access.sessions import Sessions
from console.access.sign_in import Access, SignInThrottle
from console.access.users import Users
from console.forms import Cookies
from console.guard import guard_app, origins_of
from console.received import AskReceived, not_read
from console.subscribers import FindMissed, SubscriberSettings
from console.uploads import Compare
from core.clock import Clock
from operations.audit_log import AuditLog
from operations.commands import CommandProducer
from operations.limits import AloneLimits
from tests.unit.console.places import attention_at, dead_letters, pages

ORIGIN = "http://127.0.0.1:8081"
ADA, EVE, BOB, FAY, IDA = "ada", "eve", "bob", "fay", "ida"
PEOPLE = {
    ADA: frozenset({Role.ADMIN}),
    BOB: frozenset({Role.REPLAYER}),
    EVE: frozenset({Role.VIEWER}),
    FAY: frozenset({Role.FINANCE}),
    IDA: frozenset[Role](),
}
"""One of each role, and one of none."""

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
PASSWORD = "correct horse battery"
IDLE, WHOLE = timedelta(minutes=30), timedelta(hours=12)


class Listener:
    """Guards ``app`` for the people above; their tokens are in ``tokens``."""

    def __init__(
        self,
        app: FastAPI,
        folder: Path,
        clock: Clock,
        *,
        https: bool = False,
        producer: CommandProducer | None = None,
        sleep: Callable[[float], object] = lambda _: None,
        shards: int = 1,
        received: AskReceived = not_read,
        subscribers: Callable[[], Sequence[SubscriberSettings]] = tuple,
        compare: Compare | None = None,
        with_pages: bool = True,
        missed: FindMissed = lambda *_: (),
        stream: str = "",
        alone: AloneLimits | None = None,
        status_urls: Sequence[str] = (),
    ) -> None:
        """``sleep``: what passes until what somebody ordered is decided. ``shards``: how many the ledger has.
        ``stream``: another one than the ledger. ``status_urls``: where processors on other machines answer.
        """
        self.clock, self.folder = clock, folder
        self.audit_log = AuditLog(folder / "lake" / "acts")
        self.users = Users(folder / "console" / "users.json")
        self.sessions = Sessions(folder / "console" / "sessions.sqlite", clock, IDLE, WHOLE)
        self.access = Access(self.users, self.sessions, SignInThrottle(clock), self.audit_log, clock)
        file, self.tokens = people()
        (folder / "console" / "users.json").write_bytes(file)
        (folder / "console" / "users.json").chmod(0o600)
        self.app = app
        self.dead = dead = [
            dead_letters(
                folder, clock, self.audit_log, alone, producer=producer, sleep=sleep, shard=shard, stream=stream
            )
            for shard in range(shards)
        ]
        self.attention = attention_at(folder, self.audit_log, clock, dead)
        routers = (
            []
            if not with_pages
            else pages(
                folder,
                clock,
                self.audit_log,
                dead,
                self.sessions,
                producer,
                received=received,
                attention=self.attention,
                subscribers=subscribers,
                compare=compare,
                missed=missed,
                status_urls=status_urls,
            )
        )
        origins = origins_of("127.0.0.1", 8081)
        self.asgi: ASGIApp = guard_app(app, self.access, Cookies(https), origins, routers, self.attention.badges_for)

    def request(self, method: str, path: str, user: str | None = None, **more: Any) -> httpx2.Response:
        """One request, with a user's token where one is named."""
        headers = dict(more.pop("headers", {}))
        if user is not None:
            headers.setdefault("authorization", f"Bearer {self.tokens[user]}")
        return Browser(self).request(method, path, headers=headers, **more)


@cache
def people() -> tuple[bytes, dict[str, str]]:
    """The file of the people above, and a token of each: made once, because hashing passwords takes its time."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "users.json"
        users, tokens = Users(file), {}
        for name, roles in PEOPLE.items():
            add_user(users, name, roles, PASSWORD, lambda *_: None)
            tokens[name] = make_token(users, name, "test", AT, lambda *_: None)
        return file.read_bytes(), tokens


class Browser:
    """Keeps cookies, and says with each request what a browser says of a page's own."""

    def __init__(self, listener: Listener, base_url: str = ORIGIN) -> None:
        self._listener = listener
        self._base_url = base_url
        self.cookies = httpx2.Cookies()

    def request(self, method: str, path: str, **more: Any) -> httpx2.Response:
        async def inside() -> httpx2.Response:
            transport = httpx2.ASGITransport(self._listener.asgi, raise_app_exceptions=False)
            async with httpx2.AsyncClient(transport=transport, base_url=self._base_url, cookies=self.cookies) as client:
                answer = await client.request(method, path, **more)
                self.cookies = client.cookies
                return answer

        return asyncio.run(inside())

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, fields: dict[str, str], token: str | None = None, **headers: str) -> httpx2.Response:
        """A form as the last page's; ``token`` as `csrf_of` found it there."""
        data = fields if token is None else {**fields, "csrf_token": token}
        sent = {"origin": self._base_url, "sec-fetch-site": "same-origin", **headers}
        return self.request("POST", path, data=data, headers=sent)

    def sign_in(self, name: str = ADA, password: str = PASSWORD, **more: str) -> httpx2.Response:
        page = self.get("/login")
        return self.post("/login", {"name": name, "password": password, **more}, csrf_of(page))


def csrf_of(page: httpx2.Response) -> str:
    """The token of a page's forms."""
    found = re.search(r'name="csrf_token" value="([0-9a-f]{64})"', page.text)
    assert found is not None, page.text
    return found[1]


async def slowly(body: bytes, meanwhile: Callable[[], object]) -> AsyncIterator[bytes]:
    """A body of which the first half is there at once, and the second after ``meanwhile``."""
    yield body[: len(body) // 2]
    await asyncio.to_thread(meanwhile)
    yield body[len(body) // 2 :]
