"""``/catch-up``: up to when each provider's own list of events was read, and what it has that is missing here."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from console.access.roles import Role
from console.access.routes import require_role
from console.catch_ups import read_catch_ups
from console.pages.place import PagePlace


def catch_up_routes(place: PagePlace) -> APIRouter:
    router = APIRouter(dependencies=[Depends(require_role(Role.VIEWER))])

    @router.get("/catch-up")
    async def page(request: Request) -> Response:
        report = await place.asking.ask(read_catch_ups, place.layout, place.modes)
        return place.show(request, "catch-up.html", report=report)

    return router
