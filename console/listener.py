"""The whole management listener: what it watches, its API and its pages, behind its guard."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from console.access import Access
from console.access.requirement import declared_routes
from console.cookies import Cookies
from console.guard import Guard
from console.headers import SecurityHeaders
from console.pages.problems import add_problems
from console.web.shell import mount_pages


def guarded(
    app: FastAPI, access: Access, cookies: Cookies, origins: Collection[str], pages: Iterable[APIRouter] = ()
) -> ASGIApp:
    """Adds pages to the listener and puts its guard before it. ``app`` has its other routes already.

    :raises RouteUndeclared: a route doesn't say whom it is for
    """
    mount_pages(app, access, cookies, pages)
    add_problems(app)
    # Looked at once here, so that one is found at the start and not by whoever asks for it first.
    list(declared_routes(app.routes))
    return SecurityHeaders(Guard(app, app.routes, access, cookies, origins))
