"""The API's reading of what waits for people: alerts that fire, and what waits for an approval."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from alerts.standing import AlertsStanding
from console.access.roles import Role
from console.access.routes import require_role, signed_in
from console.api_routes import StrictRoute, problem_responses
from console.as_json import to_json_value
from console.attention import Attention, WaitingApproval


@dataclass(frozen=True, slots=True)
class WaitingApprovals:
    """The oldest first."""

    approvals: list[WaitingApproval]


def attention_routes(attention: Attention) -> APIRouter:
    router = APIRouter(route_class=StrictRoute)

    @router.get(
        "/alerts",
        responses=problem_responses(401, 403),
        response_model=AlertsStanding,
        dependencies=[Depends(require_role(Role.VIEWER))],
    )
    async def alerts() -> Response:
        """The alerts that fire, critical ones first, and whether anybody looks."""
        return JSONResponse(to_json_value((await asyncio.to_thread(attention.now)).alerts))

    @router.get(
        "/approvals",
        responses=problem_responses(401),
        response_model=WaitingApprovals,
        dependencies=[Depends(require_role(None))],
    )
    async def approvals(request: Request) -> Response:
        """Lists what waits for another person: runs of selections (viewer), bookings (finance). Others see an empty
        list.
        """
        waiting = await asyncio.to_thread(attention.now)
        return JSONResponse(to_json_value(WaitingApprovals(waiting.approvals_for(signed_in(request)))))

    return router
