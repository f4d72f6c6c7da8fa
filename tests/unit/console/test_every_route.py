"""Every route of the listener, for everybody who could ask: a new one is covered by saying whom it is for."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx2
import pytest
from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import Route
from starlette.types import Message

from console.access.roles import Role
from console.access.routes import DeclaredRoute, Everybody, RequiredRole, RouteUndeclared, declared_routes, require_role
from console.health import WatchedServices, create_app
from core.clock import SystemClock
from core.status_file import StreamStatuses
from tests.unit.console.api_bench import ApiBench
from tests.unit.console.listening import ADA, BOB, EVE, FAY, PEOPLE, Browser, csrf_of

ALLOWED = {
    Role.VIEWER: {ADA, BOB, EVE},
    Role.REPLAYER: {ADA, BOB},
    Role.ADMIN: {ADA},
    Role.FINANCE: {ADA, FAY},
    None: set(PEOPLE),
}
"""Who may use a route that demands a role; one of the people has none."""

OPEN = {
    *("/healthz", "/readyz", "/status", "/metrics", "/openapi.json", "/login", "/static/{name}"),
}
"""What everybody who reaches the listener may ask. A line more here is a decision."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> ApiBench:
    """The listener with all of its routes."""
    folder = tmp_path_factory.mktemp("whole")
    watched = WatchedServices("http://127.0.0.1:1/readyz", StreamStatuses({}), {}, lambda _: {})
    return ApiBench(folder, create_app(watched, httpx2.AsyncClient(trust_env=False), SystemClock()), with_pages=True)


def concrete(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "1", path)


def allowed_of(one: DeclaredRoute) -> set[str]:
    assert isinstance(one.demand, RequiredRole)
    return set.union(*(ALLOWED[role] for role in (one.demand.role, *one.demand.others)))


def forbidden(answer: httpx2.Response) -> bool:
    return answer.status_code == 403 and "You may not do this" in answer.text


def test_only_these_routes_are_for_everybody(bench: ApiBench) -> None:
    routes = list(declared_routes(bench.app.routes))
    assert {one.path for one in routes if isinstance(one.demand, Everybody)} == OPEN
    assert len(routes) >= len(OPEN) + 4


def test_every_route_of_the_api_asks_for_a_token_and_its_role(bench: ApiBench) -> None:
    routes = [one for one in declared_routes(bench.app.routes) if one.path.startswith("/api/")]
    assert routes
    for one in routes:
        for method in one.methods:
            more = {"headers": {"content-type": "application/json", "idempotency-key": "k"}}
            stranger = bench.request(method, concrete(one.path), None, **more)
            assert (stranger.status_code, stranger.headers["www-authenticate"]) == (401, 'Bearer realm="payhook"')
            for name in PEOPLE:
                answer = bench.request(method, concrete(one.path), name, **more)
                allowed = name in allowed_of(one)
                assert forbidden(answer) is not allowed, (method, one, name, answer.text)
                assert answer.status_code not in ({401, 403} if allowed else set(range(400)))


@pytest.mark.parametrize("name", sorted(PEOPLE))
def test_every_page_shows_itself_to_its_role_alone(bench: ApiBench, name: str) -> None:
    browser = Browser(bench.listener)
    browser.sign_in(name)
    token = csrf_of(browser.get("/password"))
    for one in _pages(bench):
        for method in one.methods:
            path = concrete(one.path)
            answer = browser.get(path) if method == "GET" else browser.post(path, {"a": "b"}, token)
            allowed = name in allowed_of(one)
            assert forbidden(answer) is not allowed, (method, one, answer.text)


def test_every_page_sends_strangers_to_sign_in(bench: ApiBench) -> None:
    for one in _pages(bench):
        for method in one.methods:
            browser = Browser(bench.listener)
            token = csrf_of(browser.get("/login"))
            path = concrete(one.path)
            answer = browser.get(path) if method == "GET" else browser.post(path, {"a": "b"}, token)
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/login")


def test_every_form_is_refused_without_its_token(bench: ApiBench) -> None:
    posts = [one for one in declared_routes(bench.app.routes) if "POST" in one.methods]
    pages = [one for one in posts if not one.path.startswith("/api/")]
    assert {"/login", "/logout"} <= {one.path for one in pages}
    browser = Browser(bench.listener)
    browser.sign_in(ADA)
    others = Browser(bench.listener)
    others.sign_in(ADA)
    foreign = csrf_of(others.get("/"))
    for one in pages:
        for token in (None, "", "0" * 64, foreign):
            answer = browser.post(concrete(one.path), {"a": "b"}, token)
            assert (answer.status_code, "too old" in answer.text) == (403, True), (one, token)


@pytest.mark.parametrize("path", ["/nothing", "/static", "/.env"])
def test_a_path_without_a_route_tells_strangers_nothing(bench: ApiBench, path: str) -> None:
    assert Browser(bench.listener).get(path).status_code == 303
    browser = Browser(bench.listener)
    browser.sign_in(EVE)
    assert browser.get(path).status_code == 404


def test_an_unknown_path_of_the_api_is_a_401_to_strangers(bench: ApiBench) -> None:
    assert bench.request("GET", "/api/nothing", None).status_code == 401
    assert bench.request("GET", "/api", None).status_code == 401


def test_a_listener_with_a_route_that_does_not_say_whom_it_is_for_does_not_start(tmp_path: Path) -> None:
    forgotten = APIRouter()
    forgotten.get("/forgotten")(lambda: "")
    twofold = APIRouter(dependencies=[Depends(require_role(Role.VIEWER))])
    twofold.get("/twofold", dependencies=[Depends(require_role(Role.ADMIN))])(lambda: "")
    nested = APIRouter()
    inner = APIRouter()
    inner.get("/inner", dependencies=[Depends(require_role(Role.VIEWER))])(lambda: "")
    nested.include_router(inner)
    plain = APIRouter(routes=[Route("/plain", lambda request: None)])
    for router, problem in [
        (forgotten, "/forgotten: it doesn't say"),
        (twofold, "/twofold: it demands several"),
        (nested, "can't say what it demands"),
        (plain, "/plain: a Route can't say"),
    ]:
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
        app.router.routes.extend(router.routes)
        with pytest.raises(RouteUndeclared, match=problem):
            list(declared_routes(app.routes))


def _pages(bench: ApiBench) -> list[DeclaredRoute]:
    routes = declared_routes(bench.app.routes)
    found = [one for one in routes if not one.path.startswith("/api/") and not isinstance(one.demand, Everybody)]
    # Signing out ends the session that the other routes are asked with.
    return sorted(found, key=lambda one: one.path == "/logout")


def test_nothing_is_served_over_a_websocket(bench: ApiBench) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/api/dlq/replay", "headers": [], "query_string": b""}

    async def connect() -> None:
        await bench.listener.asgi(scope, receive, send)

    asyncio.run(connect())
    assert sent == [{"type": "websocket.close", "code": 1008}]
