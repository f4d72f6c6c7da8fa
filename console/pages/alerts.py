"""``/alerts``: what fires, and what waits for another person's approval."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from console.attention import PAGE
from console.pages.place import DlqPlace, Viewer


def add_alerts(router: APIRouter, place: DlqPlace) -> None:
    @router.get(PAGE)
    async def alerts(request: Request, user: Viewer) -> Response:
        waiting = await place.asking.ask(place.attention.now)
        approvals = waiting.approvals_for(user)
        return place.show(request, "alerts.html", alerts=waiting.alerts, approvals=approvals)
