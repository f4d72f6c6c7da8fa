"""The public listener: the application, how uvicorn serves it, and several processes on one port."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import FrameType
from typing import Any, NoReturn

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from ingest.errors import RequestRefused
from ingest.publisher import Publisher
from ingest.receiver import Receiver

SERVING: dict[str, Any] = {
    "loop": "uvloop",
    "http": "httptools",
    "access_log": False,
    "log_config": None,
    "server_header": False,
    "proxy_headers": False,
}
"""httptools refuses requests that two parsers could read differently; X-Forwarded headers aren't believed."""


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
    """Returns the application; ``open_receiver`` opens every client when the server starts and closes it at the end."""

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
        # A redirect would be made of the Host header, which the client writes.
        redirect_slashes=False,
        exception_handlers={404: _not_found, 405: _wrong_method},
    )

    @app.get("/healthz")
    async def healthz() -> Response:
        return PlainTextResponse("ok\n")

    @app.get("/readyz")
    async def readyz() -> Response:
        ready = await app.publisher.is_reachable()
        return PlainTextResponse("ready\n" if ready else "Kafka doesn't answer\n", 200 if ready else 503)

    return app


async def _not_found(_request: Request, _error: Exception) -> Response:
    return _answer(RequestRefused("not_found"))


async def _wrong_method(_request: Request, _error: Exception) -> Response:
    return _answer(RequestRefused("wrong_method", allow="GET"))


def _answer(refused: RequestRefused) -> Response:
    headers = {"Allow": refused.allow} if refused.allow else {}
    return Response(refused.json(), refused.status, headers, "application/json")


log = logging.getLogger(__name__)

BACKLOG = 2_048
START_AGAIN_S = 1.0
"""A worker that ends sooner than that waits for so long before it is started again."""
LOOK_FOR_PARENT_S = 1.0


def open_listening_socket(host: str, port: int) -> socket.socket:
    address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(address[0], socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address[4])
    listener.listen(BACKLOG)
    return listener


class Workers:
    """``serve(number)`` runs in each of ``count`` forked processes until SIGTERM, which the parent hands on."""

    def __init__(self, count: int, serve: Callable[[int], None]) -> None:
        self._count = count
        self._serve = serve
        self._numbers: dict[int, int] = {}
        self._began: dict[int, float] = {}
        self._stopping = False

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for worker in range(self._count):
            self._start_worker(worker)
        while self._numbers:
            pid, status = os.wait()
            worker = self._numbers.pop(pid)
            if not self._stopping:
                code = os.waitstatus_to_exitcode(status)
                log.error("worker %d ended with code %d and is started again", worker, code)
                time.sleep(max(0.0, START_AGAIN_S - (time.monotonic() - self._began[worker])))
                self._start_worker(worker)

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping = True
        for pid in list(self._numbers):
            with contextlib.suppress(ProcessLookupError):  # it ended, and is waited for at this moment
                os.kill(pid, signal.SIGTERM)

    def _start_worker(self, worker: int) -> None:
        self._began[worker] = time.monotonic()
        # A signal between the fork and the child's own handlers would call the parent's; one before the fork would
        # pass over this worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        if not self._stopping:
            pid = os.fork()
            if pid == 0:
                self._be_worker(worker)
            self._numbers[pid] = worker
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})

    def _be_worker(self, worker: int) -> NoReturn:
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
            self._serve(worker)
            code = 0
        except Exception:
            log.exception("worker %d", worker)
        finally:
            logging.shutdown()
            sys.stdout.flush()
            os._exit(code)
