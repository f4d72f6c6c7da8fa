"""The public listener: webhooks, and whether the receiver lives and can take them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from ingest.publisher import Publisher
from ingest.receiver import Receiver

OpenReceiver = Callable[[], AbstractAsyncContextManager[tuple[Receiver, Publisher]]]


def create_app(open_receiver: OpenReceiver) -> FastAPI:
    """The application; ``open_receiver`` opens every client when the server starts and closes it at the end."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_receiver() as (receiver, publisher):
            app.state.receiver, app.state.publisher = receiver, publisher
            yield

    app = FastAPI(title="payhook receiver", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)

    async def webhooks(scope: Scope, receive: Receive, send: Send) -> None:
        receiver: Receiver = app.state.receiver
        await receiver(scope, receive, send)

    # Mounted, not a route: FastAPI's work of a request would be as much as all of the receiver's.
    app.mount("/webhooks", webhooks)

    @app.get("/healthz")
    async def healthz() -> Response:
        return PlainTextResponse("ok\n")

    @app.get("/readyz")
    async def readyz(request: Request) -> Response:
        publisher: Publisher = request.app.state.publisher
        ready = await publisher.reachable()
        return PlainTextResponse("ready\n" if ready else "Kafka doesn't answer\n", 200 if ready else 503)

    return app
