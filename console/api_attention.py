"""The API's reading of what waits for people: alerts that fire, and what waits for an approval."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from console.access.roles import Role
from console.access.routes import require, signed_in
from console.api_routes import StrictRoute, problems
from console.as_json import plain
from console.attention import Attention, WaitingApproval
from dlq.alerts.standing import AlertsStanding


@dataclass(frozen=True, slots=True)
class WaitingApprovals:
    """The oldest first."""

    approvals: list[WaitingApproval]


def attention_routes(attention: Attention) -> APIRouter:
    router = APIRouter(route_class=StrictRoute)

    @router.get(
        "/alerts",
        responses=problems(401, 403),
        response_model=AlertsStanding,
        dependencies=[Depends(require(Role.VIEWER))],
    )
    async def alerts() -> Response:
        """The alerts that fire, critical ones first, and whether anybody looks."""
        return JSONResponse(plain((await asyncio.to_thread(attention.now)).alerts))

    @router.get(
        "/approvals",
        responses=problems(401),
        response_model=WaitingApprovals,
        dependencies=[Depends(require(None))],
    )
    async def approvals(request: Request) -> Response:
        """Lists what waits for another person: runs of selections (viewer), bookings (finance). Others see an empty
        list.
        """
        waiting = await asyncio.to_thread(attention.now)
        return JSONResponse(plain(WaitingApprovals(waiting.approvals_for(signed_in(request)))))

    return router
