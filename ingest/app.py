"""The public listener: webhooks, and whether the receiver lives and can take them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from ingest.errors import Refused, error_json, not_found, only_read
from ingest.publisher import Publisher
from ingest.receiver import Receiver

OpenReceiver = Callable[[], AbstractAsyncContextManager[tuple[Receiver, Publisher]]]

WEBHOOKS = "/webhooks/"


class ReceiverApp(FastAPI):
    """FastAPI, with webhooks handed on before its middleware and routing: theirs is as much work as the receiver's."""

    receiver: Receiver
    publisher: Publisher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(WEBHOOKS):
            await self.receiver(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(open_receiver: OpenReceiver) -> ReceiverApp:
    """The application; ``open_receiver`` opens every client when the server starts and closes it at the end."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with open_receiver() as (app.receiver, app.publisher):
            yield

    app = ReceiverApp(
        title="payhook receiver",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        # A redirect would be made of the Host header, which anybody may write.
        redirect_slashes=False,
        exception_handlers={404: _not_found, 405: _wrong_method},
    )

    @app.get("/healthz")
    async def healthz() -> Response:
        return PlainTextResponse("ok\n")

    @app.get("/readyz")
    async def readyz() -> Response:
        ready = await app.publisher.reachable()
        return PlainTextResponse("ready\n" if ready else "Kafka doesn't answer\n", 200 if ready else 503)

    return app


async def _not_found(_request: Request, _error: Exception) -> Response:
    return _answer(not_found())


async def _wrong_method(_request: Request, _error: Exception) -> Response:
    return _answer(only_read())


def _answer(refused: Refused) -> Response:
    headers = {"Allow": refused.allow} if refused.allow else {}
    return Response(error_json(refused), refused.status, headers, "application/json")
