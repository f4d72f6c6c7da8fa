"""Stands before every page and the API: who asks, may they, and do they ask of their own will?"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from fastapi import APIRouter, FastAPI
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.access.roles import NotAllowed, NotSignedIn, User
from console.access.routes import Everybody, RequiredRole, declared_routes, find_demand, require_role
from console.access.sign_in import Access
from console.attention import Badge
from console.forms import Cookies, checked_form
from console.pages.sign_in import own_password_routes, sign_in_routes
from console.refusals import ForeignPage, NotJson, add_refusals, answer_refusal, is_api
from console.rendering import static_routes
from core.errors import PayhookError

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
ALWAYS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not "no-referrer": with it a browser sends "Origin: null" with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecurityHeaders:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(ALWAYS)
                # For whatever doesn't say of itself that it may be kept.
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers)


Badges: TypeAlias = Callable[[User], Mapping[str, Badge]]
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITES = frozenset({b"same-origin", b"none"})
"""Not "same-site": to a browser every port of a host is the same site."""

BEARER = "bearer "


class Guard:
    """Wraps the listener. What passes has ``request.state.user`` (None only where a route is for everybody), whom
    ``request.state.allow(demand)`` looks up again, and:

    - ``request.state.badges``: the numbers beside a user's links;
    - its route's role; a path without a route is answered to the signed-in alone;
    - where it could change something: no page but the listener's own sent it (``Sec-Fetch-Site``, ``Origin``); to the
      API it is JSON, to a page a form with its browser's token.

    ``Origin`` is held against a list, not against ``Host``: a name that is made to point here (DNS rebinding) agrees
    with itself.
    """

    def __init__(
        self,
        app: ASGIApp,
        routes: Sequence[BaseRoute],
        access: Access,
        cookies: Cookies,
        origins: Collection[str],
        badges: Badges,
    ) -> None:
        self._app = app
        self._routes = routes
        self._access = access
        self._cookies = cookies
        self._badges = badges
        self._origins = frozenset(origin.encode() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            receive = await self._check_request(request)
        except (PayhookError, OSError, sqlite3.Error) as refusal:
            await answer_refusal(request, refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _check_request(self, request: Request) -> Receive:
        to_api = is_api(request)
        unsafe = request.method not in SAFE_METHODS
        if unsafe:
            self._check_sender(request)
        request.state.badges = self._badges
        request.state.allow = partial(self._allow_again, request)
        request.state.user = await asyncio.to_thread(self._user, request)
        request.state.csrf_secret = secret = self._cookies.read_form_secret(request)
        demand = find_demand(self._routes, request.scope)
        if not isinstance(demand, Everybody):
            await asyncio.to_thread(self._check_allowed, request, demand or require_role(None))
        if unsafe and to_api:
            _check_json(request)
        elif unsafe:
            return await checked_form(request, secret)
        return request.receive

    def _allow_again(self, request: Request, demand: RequiredRole) -> User:
        request.state.user = self._user(request)
        return self._check_allowed(request, demand)

    def _check_allowed(self, request: Request, demand: RequiredRole) -> User:
        """Checks that the user has the role. Puts on record who tries to change what they may not. Blocks.

        :raises NotSignedIn, NotAllowed: see there
        """
        try:
            return demand.check_user(request.state.user)
        except NotAllowed as refusal:
            if request.method not in SAFE_METHODS:
                channel = "api" if is_api(request) else "page"
                self._access.not_allowed(refusal.user, f"{request.method} {request.url.path}", channel)
            raise

    def _user(self, request: Request) -> User | None:
        header = request.headers.get("authorization") if is_api(request) else None
        if header is not None:
            token = header[len(BEARER) :].strip() if header.lower().startswith(BEARER) else ""
            user = self._access.by_token(token)
            if user is None:
                raise NotSignedIn
            return user
        session = self._cookies.read_session(request)
        return None if session is None else self._access.by_session(session)

    def _check_sender(self, request: Request) -> None:
        headers: list[tuple[bytes, bytes]] = request.scope["headers"]
        if not OWN_SITES.issuperset(_header_values(headers, b"sec-fetch-site")):
            raise ForeignPage("Sec-Fetch-Site")
        if not self._origins.issuperset(_header_values(headers, b"origin")):
            raise ForeignPage("Origin")


def origins_of(host: str, port: int, public_url: str = "") -> frozenset[str]:
    host_name = host if ":" not in host else f"[{host}]"
    own_origins = {f"http://{name}:{port}" for name in (host_name, "127.0.0.1", "localhost", "[::1]")}
    return frozenset(own_origins | ({public_url} if public_url else set()))


def _check_json(request: Request) -> None:
    types = [
        value.partition(b";")[0].strip().lower() for value in _header_values(request.scope["headers"], b"content-type")
    ]
    if types != [b"application/json"]:
        raise NotJson


def _header_values(headers: list[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name == wanted]


def guard_app(
    app: FastAPI,
    access: Access,
    cookies: Cookies,
    origins: Collection[str],
    pages: Iterable[APIRouter] = (),
    badges: Badges = lambda _: {},
) -> ASGIApp:
    """Adds pages to the listener and puts its guard before it. ``app`` has its other routes already.

    :param badges: the numbers beside a user's links

    :raises RouteUndeclared: a route doesn't say whom it is for
    """
    for router in (sign_in_routes(access, cookies), own_password_routes(access, cookies), static_routes(), *pages):
        # Not include_router: it hides what each route demands behind objects of the framework's own.
        app.router.routes.extend(router.routes)
    add_refusals(app)
    # Looked at once here, so that one is found at the start.
    list(declared_routes(app.routes))
    return SecurityHeaders(Guard(app, app.routes, access, cookies, origins, badges))
