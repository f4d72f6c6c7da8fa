"""The JSON API: orders on dead items, each behind an Idempotency-Key; what became of them, what waits for people."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Path, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.types import Scope

from alerts.standing import AlertsStanding
from console.access.roles import Role, User
from console.access.routes import Everybody, RequiredRole, demand_of, require_role, signed_in
from console.api_dead import dead_item_routes as dead_routes
from console.api_ledger import ledger_routes
from console.api_routes import (
    COMMAND_ID,
    CommandDecided,
    OrderAsked,
    OrderGiven,
    ProblemView,
    StrictRoute,
    add_acting_route,
    problem_responses,
)
from console.api_selections import reading_routes, running_routes
from console.as_json import to_json_value
from console.attention import Attention, WaitingApproval
from console.bookings import Bookings, booking_routes
from console.catch_ups import AskCatchUps, CatchUpReport, nothing_listed
from console.dead_letters import Streams
from console.forms import SESSION
from console.received import AskReceived, ReceivedSummary, not_read
from console.refusals import API, DOCS_URL, RETRY_AFTER_S, add_refusals
from core.event import Mode
from core.layout import LEDGER
from core.routing import mode_of, stream_of
from ingest.idempotency.middleware import IdempotencyKey
from ingest.idempotency.request import Problem
from ingest.idempotency.store import AnswerStore, IdempotentRun
from operations.command import REPLAY
from operations.commands import CommandNotSent
from operations.orders import OrderRefused, OrderService

SECURITY_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A user's token: `payhook users token NAME --days N` shows it once.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION,
        "description": "Of who signed in at /login. Behind https its name begins with __Host-.",
    },
}


def describe(api: FastAPI) -> dict[str, Any]:
    described = get_openapi(
        title="payhook management API",
        version="1",
        summary="What the ledger holds, what is dead, orders on both, and what became of them.",
        description="Every request needs a user. A POST needs an Idempotency-Key.",
        routes=api.routes,
        servers=[{"url": API}],
    )
    described["components"]["schemas"]["ProblemView"] = ProblemView.model_json_schema()
    described["components"]["securitySchemes"] = SECURITY_SCHEMES
    described["security"] = [{name: []} for name in SECURITY_SCHEMES]
    for route in api.routes:
        if isinstance(route, APIRoute):
            for method in route.methods or ():
                operation = described["paths"][route.path_format][method.lower()]
                operation["x-payhook-roles"] = _list_roles(route)
    return described


def _list_roles(route: APIRoute) -> list[str]:
    demand = demand_of(route)
    if not isinstance(demand, RequiredRole) or demand.role is None:
        return []
    return [role.value for role in (demand.role, *demand.others)]


OrderServices = Mapping[str, OrderService]
"""All journals of each ledger that is here, by stream."""


def mount_api(
    app: FastAPI,
    services: OrderServices,
    bookings: Bookings,
    answers: AnswerStore,
    streams: Streams,
    received: AskReceived = not_read,
    attention: Attention | None = None,
    catch_ups: AskCatchUps = nothing_listed,
) -> None:
    """Puts the API under ``/api`` of the listener, and its description at ``/openapi.json``.

    ``services``: one for each journal of a ledger that is here; ``bookings``: one for each mode that has a ledger;
    ``streams``: whose dead items are shown, selected and run; ``received``: what came in; ``attention``: what waits for
    people, None: nothing is said of that; ``catch_ups``: what providers' lists came to.
    `console.guard.Guard` stands before it.
    """
    api = create_api(services, bookings, streams, received, attention, catch_ups)
    api.add_middleware(IdempotencyKey, store=answers, caller=_caller_name, docs_url=DOCS_URL)
    app.mount(API, api)
    described = Depends(Everybody("it describes the code, and holds no data"))

    @app.get(DOCS_URL, include_in_schema=False, dependencies=[described])
    async def openapi() -> dict[str, Any]:
        return describe(api)


def create_api(
    services: OrderServices,
    bookings: Bookings,
    streams: Streams,
    received: AskReceived = not_read,
    attention: Attention | None = None,
    catch_ups: AskCatchUps = nothing_listed,
) -> FastAPI:
    """Makes the routes by themselves: they expect `IdempotencyKey` before them."""
    api = FastAPI(title="payhook management API", docs_url=None, redoc_url=None, openapi_url=None)
    api.router.route_class = StrictRoute
    _add_replay(api, services)
    for router in (
        dead_routes(streams),
        reading_routes(streams),
        running_routes(streams),
        booking_routes(bookings),
        ledger_routes(bookings),
    ):
        api.router.routes.extend(router.routes)
    if attention is not None:
        api.router.routes.extend(attention_routes(attention).routes)

    @api.get(
        "/dlq/commands/{command_id}",
        summary="Show what became of a command",
        responses=problem_responses(401, 403, 404, 422),
        dependencies=[Depends(require_role(Role.VIEWER))],
    )
    async def command(command_id: str = Path(pattern=COMMAND_ID), mode: Mode = "live") -> CommandDecided:
        """Returns what the processor decided of a command; 404 until it has."""
        _find_service(services, mode)
        of_mode = [service for stream, service in services.items() if mode_of(stream) == mode]
        rows = await asyncio.to_thread(lambda: [service.find_decision(command_id) for service in of_mode])
        row = next((row for row in rows if row is not None), None)
        if row is None:
            detail = "no such command is decided yet; if you sent it, ask again in a moment"
            raise Problem(404, "command-unknown", "No such command", detail)
        return CommandDecided.from_row(command_id, row)

    @api.get("/received", response_model=ReceivedSummary, dependencies=[Depends(require_role(Role.VIEWER))])
    async def what_came_in(mode: Mode = "live") -> Response:
        """Returns what came in within the last hour: answers by provider, type, outcome and status. Says what to do
        about what was refused.
        """
        return JSONResponse(to_json_value(received(mode)))

    @api.get("/catch-up", response_model=CatchUpReport, dependencies=[Depends(require_role(Role.VIEWER))])
    async def what_lists_came_to() -> Response:
        """Shows up to when each provider's own list of events was read, and what it has that is missing here."""
        return JSONResponse(to_json_value(await asyncio.to_thread(catch_ups)))

    add_refusals(api)
    return api


def _add_replay(api: FastAPI, services: OrderServices) -> None:
    @add_acting_route(api, "/dlq/replay", Role.REPLAYER, name=REPLAY, summary="Order a replay of dead items")
    async def give(asked: OrderAsked, request: Request, response: Response) -> OrderGiven:
        """Sends one command to the processor, which decides it; an item that has moved on since is refused there too.

        Repeat a request whose answer you didn't see with the same key: it has one effect, however often it comes.
        """
        run: IdempotentRun = request.state.idempotency
        order = asked.order(run.request_id, signed_in(request).name)
        try:
            sent = await asyncio.to_thread(_find_service(services, asked.mode, asked.stream).place_order, order)
        except OrderRefused as refused:
            raise _not_as_seen(refused) from None
        except CommandNotSent as unsent:
            detail = f"{unsent}: repeat the request with the same Idempotency-Key"
            raise Problem(
                503, "kafka-unavailable", "Kafka doesn't answer", detail, retry_after_s=RETRY_AFTER_S
            ) from None
        response.headers["location"] = f"{API}/dlq/commands/{order.command_id}?mode={asked.mode}"
        return OrderGiven.from_order(order, asked.mode, sent)


def _caller_name(scope: Scope) -> str:
    user: User = scope["state"]["user"]
    return user.name


def _find_service(services: OrderServices, mode: Mode, stream: str | None = None) -> OrderService:
    service = services.get(stream or stream_of(LEDGER, mode))
    if service is None and stream is None:
        raise Problem(404, "mode-unknown", "No such ledger", f"{mode} traffic isn't accepted here")
    if service is None or (stream is not None and mode_of(stream) != mode):
        stream_names = ", ".join(name for name in services if mode_of(name) == mode)
        raise Problem(404, "stream-unknown", "No such stream", f"streams of {mode} traffic are: {stream_names}")
    return service


def _not_as_seen(refused: OrderRefused) -> Problem:
    items = {str(number): problem for number, problem in [*refused.unknown.items(), *refused.moved.items()]}
    if refused.unknown:
        detail = "nothing was sent; `payhook dlq list` shows what is dead"
        return Problem(404, "item-unknown", "No such item", detail, items=items)
    detail = "nothing was sent; list the items again, and order what you then see"
    return Problem(409, "item-moved", "An item isn't as you saw it", detail, items=items)


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
        """Lists the firing alerts, critical ones first, and says whether alerts are evaluated."""
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
