"""``/received``: what came in within the last hour, and what to do about what was refused."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from console.access.roles import Role
from console.access.routes import require_role
from console.pages.place import PagePlace
from console.received import AskReceived

KINDS_SHOWN_MAX, NEWEST_SHOWN_MAX = 100, 20
"""Rows of one page; the API has all."""


def received_routes(place: PagePlace, received: AskReceived) -> APIRouter:
    router = APIRouter(prefix="/received", dependencies=[Depends(require_role(Role.VIEWER))])

    def show(request: Request, template: str) -> Response:
        hour = received(place.mode(request))
        shown = {"arrived": hour.arrived[:KINDS_SHOWN_MAX], "newest": hour.newest[:NEWEST_SHOWN_MAX]}
        return place.show(request, template, hour=hour, **shown)

    @router.get("")
    async def page(request: Request) -> Response:
        return show(request, "received/page.html")

    @router.get("/live")
    async def live(request: Request) -> Response:
        return show(request, "received/_live.html")

    return router
