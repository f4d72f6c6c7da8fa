"""What the API's routes have in common: how they read JSON, and what their description says."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from core import strict_json
from core.errors import Unparseable
from ingest.idempotency.request import HEADER, KEY_CHARS_MAX

_REFUSED = {
    400: "Idempotency-Key is missing or malformed, or the body isn't JSON",
    401: "not signed in: Authorization: Bearer and a token is wanted",
    403: "the user isn't in the role, or a web page from elsewhere sends it",
    404: "no such item, command, selection or stream",
    409: "it isn't as you saw it, or it was begun otherwise before; `detail` says which",
    413: "the body is too large",
    415: "the body isn't application/json",
    422: "the request isn't valid, or this key came before with another request",
    503: "Kafka, the journal or the store of keys doesn't answer: repeat it with the same key (Retry-After)",
}


class StrictRequest(Request):
    """Reads JSON as webhooks' is read: what two readers could read differently is refused."""

    async def json(self) -> Any:
        try:
            return strict_json.loads(await self.body())
        except Unparseable as unreadable:
            raise HTTPException(400, unreadable.problem) from None


class StrictRoute(APIRoute):
    """A route whose body is read by `StrictRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route, for its description."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemView"}}}
    return {status: {"description": _REFUSED[status], "content": content} for status in statuses}


def key_parameter() -> dict[str, Any]:
    """Idempotency-Key, for the description of a route that needs one."""
    return {
        "name": HEADER,
        "in": "header",
        "required": True,
        "description": (
            "A new random value for each thing that you want done, such as a UUID in double quotes; the same one when "
            "a request is repeated. Known for 24 hours. See draft-ietf-httpapi-idempotency-key-header."
        ),
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX + 2},
        "example": '"8e03978e-40d5-43e8-bc93-6894a57f9324"',
    }
