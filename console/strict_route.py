"""Routes that read JSON as webhooks' is read: what two readers could read differently is refused."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from core import strict_json
from core.errors import Unparseable


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
